"""`nmt export`: other programs translate exported models as nmt translates the originals."""

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nmt.cli import app
from nmt.commands.export import export
from nmt.config import DecodeSettings, Languages, MaxLength, ModelSettings, RuntimeSettings, Sampling, TokenizerSettings
from nmt.decoding.beam import Hypothesis
from nmt.decoding.engine import TorchEngine
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError, DamagedError, DataError, ModelError
from nmt.export import ctranslate2, ctranslate2_engine, parity
from nmt.export.ctranslate2_engine import open_in_ctranslate2
from nmt.export.hugging_face import check_fits, write_hugging_face
from nmt.export.parity import EXACT, ROUNDED, Tolerance, check_parity
from nmt.model.checkpoint import LoadedModel, load_model
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.translation.translator import Translator
from tests.builders import run_command, save_model

SENTENCES = [
    "the cat sleeps on the mat .",
    "a dog barks at the moon .",
    "we drink tea in the garden , and then we sleep .",
    "il gatto dorme sul tappeto .",
    "今天下雨。",
]
SHARED = Tokenizer.train(SENTENCES * 20, TokenizerSettings(vocab_size=300))
OTHER = Tokenizer.train(SENTENCES * 20, TokenizerSettings(vocab_size=290, type="bpe"))
QUIET = Console(quiet=True)
ONE_THREAD = RuntimeSettings(device="cpu", threads=1)
SMALL = {"encoder_layers": 2, "decoder_layers": 1, "dim": 16, "heads": 2, "feed_forward": 24, "max_distance": 3}


def model(seed: int = 4, two: bool = False, **settings: object) -> LoadedModel:
    """Return a random model with distinct probabilities; the default kind ends its translations."""
    torch.manual_seed(seed)
    tokenizers = Tokenizers(SHARED, OTHER if two else SHARED)
    shape = ModelSettings.model_validate({**SMALL, "tied_embeddings": "none", **settings})
    transformer = Transformer(shape, len(SHARED), len(tokenizers.target)).eval()
    with torch.no_grad():
        for parameter in transformer.parameters():  # no bias is zero and no norm weight is one
            parameter.add_(torch.randn_like(parameter) * 0.2)
        if isinstance(transformer.decoder_norm, torch.nn.LayerNorm) and shape.tied_embeddings == "none":
            transformer.decoder_norm.bias += 1
            transformer.output.weight[EOS] += 0.25
    return LoadedModel(transformer, tokenizers, Languages(source="en", target="it"), DecodeSettings(beam=2))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "model"
    save_model(directory, model())
    return directory


def multilingual_model() -> LoadedModel:
    """Return a random model of two target languages whose tokenizer has a protected symbol."""
    chosen = TokenizerSettings(vocab_size=300, symbols=("{0}",))
    tokenizer = Tokenizer.train(SENTENCES * 20, chosen, tags=["2it", "2zh"])
    loaded = model(norm="post", tied_embeddings="all")
    languages = Languages(source="en", target=("it", "zh"))
    return replace(loaded, tokenizers=Tokenizers(tokenizer, tokenizer), languages=languages)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A file of three short lines, because random models translate up to the length limit."""
    file = tmp_path / "few"
    file.write_text("the cat\n\na dog barks\n今天\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def exported(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exported") / "ct2"
    export(saved, directory, "ctranslate2", "float32", None, QUIET)
    return directory


VARIANTS = [
    {"norm": "pre", "positions": "sinusoidal", "tied_embeddings": "all"},
    {"norm": "post", "positions": "sinusoidal", "activation": "swiglu", "tied_embeddings": "target"},
    {"norm": "pre", "positions": "learned", "activation": "gelu", "normalization": "rms", "max_positions": 300},
    {"norm": "post", "positions": "relative", "normalization": "rms", "two": True},
    {"norm": "pre", "positions": "relative", "activation": "swiglu", "two": True, "tied_embeddings": "target"},
    {"norm": "pre", "positions": "rotary"},
    {"norm": "post", "positions": "rotary", "activation": "gelu"},
]


class TestCTranslate2:
    @pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
    def test_every_kind_of_model_translates_equally(
        self, settings: dict[str, object], few: Path, tmp_path: Path
    ) -> None:
        save_model(tmp_path / "model", model(**settings))  # type: ignore[arg-type]
        found = export(tmp_path / "model", tmp_path / "ct2", "ctranslate2", "float32", few, QUIET)
        assert found.same == {"greedy": 3, "with a beam of 4": 3}
        assert found.difference < 1e-5

    def test_attention_scores_without_support_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"model\.attention_score: found additive, but CTranslate2 has scaled_dot"
        ):
            ctranslate2.write_ctranslate2(tmp_path, model(attention_score="additive"), "float32")

    def test_int8_weights_are_smaller_and_recorded(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # random weights have large errors: 0.02 a token on processors with VNNI, and 1.03 on those without, where the
        # sum of two 8-bit products exceeds 16 bits
        monkeypatch.setattr("nmt.commands.export.ROUNDED", Tolerance(3.0, 0.0))
        export(saved, tmp_path / "int8", "ctranslate2", "int8", None, QUIET)
        export(saved, tmp_path / "float32", "ctranslate2", "float32", None, QUIET)
        table = ctranslate2.POSITIONS * 16 * 4  # positions stay float32
        sizes = [(tmp_path / kind / "model.bin").stat().st_size - table for kind in ("int8", "float32")]
        assert sizes[0] < 0.5 * sizes[1]
        assert json.loads((tmp_path / "int8" / "nmt.json").read_text())["quantization"] == "int8"

    def test_an_export_that_translates_differently_is_not_written(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def halves(length: int, dim: int) -> torch.Tensor:
            """The other layout: all sines, then all cosines."""
            table = ctranslate2.torch.zeros(length, dim)
            angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(dim // 2) * 2 / dim)
            table[:, : dim // 2], table[:, dim // 2 :] = angles.sin(), angles.cos()
            return table

        monkeypatch.setattr(ctranslate2, "sinusoids", halves)
        with pytest.raises(
            ModelError, match=r"line \d: the exported model differs from the original, greedy: .*allowed"
        ):
            export(saved, tmp_path / "ct2", "ctranslate2", "float32", None, QUIET)
        assert list(tmp_path.iterdir()) == []

    def test_lines_of_a_given_file_are_compared(self, saved: Path, tmp_path: Path) -> None:
        lines = tmp_path / "lines"
        lines.write_text("the cat\n\na dog\n")
        assert export(saved, tmp_path / "ct2", "ctranslate2", "float32", lines, QUIET).lines == 2
        lines.write_text("\n \n")
        with pytest.raises(DataError, match="--lines: every line is empty"):
            export(saved, tmp_path / "other", "ctranslate2", "float32", lines, QUIET)
        assert not (tmp_path / "other").exists()

    def test_the_export_works_without_nmt(self, exported: Path) -> None:
        """Pieces in, pieces out; the program adds `</s>` and `<s>`."""
        program = importlib.import_module("ctranslate2").Translator(str(exported), intra_threads=1)
        names = SHARED.symbols
        ids = SHARED.encode(SENTENCES[0])
        (result,) = program.translate_batch([[names[i] for i in ids]], beam_size=1, disable_unk=True)
        options = SearchOptions(beam=1, forbidden=(UNK,))
        expected = TorchEngine([model().model], ONE_THREAD).search([ids], options)[0][0].tokens
        assert result.hypotheses[0] == [names[i] for i in expected]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("ctranslate2", "int4"), r"--quantization: found int4, expected float32, .*int8"),
            (("hf", "int8"), "--quantization: found int8, but --to hf writes float32"),
        ],
    )
    def test_unsupported_quantizations_are_refused(
        self, saved: Path, tmp_path: Path, arguments: tuple[str, str], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            export(saved, tmp_path / "out", *arguments, None, QUIET)  # type: ignore[arg-type]

    def test_existing_directories_are_not_replaced(self, saved: Path, exported: Path, tmp_path: Path) -> None:
        (tmp_path / "letter").write_text("dear")
        for output in (tmp_path, exported):
            with pytest.raises(ConfigError, match="expected a new or an empty folder, but it holds"):
                export(saved, output, "ctranslate2", "float32", None, QUIET)
        with pytest.raises(ConfigError, match="is an exported model; give the original model"):
            export(exported, tmp_path / "out", "ctranslate2", "float32", None, QUIET)

    @pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("hf", "transformers")])
    def test_a_missing_package_is_named_before_torch_is_imported(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, package: str
    ) -> None:
        monkeypatch.setattr("nmt.export.find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "nmt.commands.export", None)  # to import it would fail
        result = run_command("export", saved, tmp_path / "out", "--to", to)
        assert result.exit_code == 2
        assert f"{package} is not installed; run: pip install {package}\n" in result.stderr
        assert list(tmp_path.iterdir()) == []


class TestEngine:
    def test_batches_of_any_size_equal_torch(self, exported: Path) -> None:
        ours, theirs = TorchEngine([model().model], ONE_THREAD), open_in_ctranslate2(exported, ONE_THREAD).engine
        sentences = [SHARED.encode(sentence)[:count] for sentence in SENTENCES for count in (1, 5, 9)]
        options = SearchOptions(beam=1, forbidden=())
        expected = ours.search(sentences, options)
        for budget in (1, 40, 1000):
            for one, other in zip(
                expected, theirs.search(sentences, options.model_copy(update={"batch_tokens": budget})), strict=True
            ):
                assert one[0].tokens == other[0].tokens
                assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-3)
                assert one[0].normalized == pytest.approx(other[0].normalized, abs=1e-3)

    def test_n_best_equal_the_ranking_and_log_probs_of_torch(self, exported: Path) -> None:
        options = SearchOptions(
            beam=6,
            n_best=4,
            length_penalty=1.5,
            max_length=MaxLength(factor=1),
            forbidden=(),
        )
        ids = SHARED.encode(SENTENCES[0])
        (found,) = open_in_ctranslate2(exported, ONE_THREAD).engine.search([ids], options)
        assert len(found) == 4
        assert [one.normalized for one in found] == sorted((one.normalized for one in found), reverse=True)
        transformer = model().model.requires_grad_(False)
        for one in found:
            assert len(one.tokens) + 1 <= options.longest_output(len(ids) + 1)
            hidden = transformer.decode(
                torch.tensor([[BOS, *one.tokens]]), transformer.encode(torch.tensor([[*ids, EOS]]), None), None
            )
            by_token = transformer.logits(hidden)[0].log_softmax(-1)
            expected = sum(float(by_token[i, token]) for i, token in enumerate([*one.tokens, EOS]))
            assert one.log_prob == pytest.approx(expected, abs=1e-3)
            assert one.normalized == pytest.approx(expected / options.penalty(len(one.tokens) + 1), abs=1e-3)

    def test_forbidden_tokens_do_not_occur(self, exported: Path) -> None:
        ids = [SHARED.encode(sentence) for sentence in SENTENCES]
        engine = open_in_ctranslate2(exported, ONE_THREAD).engine
        free = engine.search(ids, SearchOptions(beam=1, forbidden=()))
        common = max(set(free[0][0].tokens), key=free[0][0].tokens.count)
        bound = engine.search(ids, SearchOptions(beam=1, forbidden=(PAD, UNK, BOS, common)))
        assert all(common not in found[0].tokens for found in bound)

    @pytest.mark.parametrize("rule", [{"no_repeat_ngram": 1}, {"no_repeat_ngram": 2}], ids=str)
    def test_greedy_search_with_repetition_rules_equals_torch(self, tmp_path: Path, rule: dict[str, int]) -> None:
        loaded = model(seed=3)
        save_model(tmp_path / "model", loaded)
        ids = [SHARED.encode(sentence) for sentence in SENTENCES]
        options = SearchOptions(beam=1, forbidden=(), **rule)  # type: ignore[arg-type]
        theirs = open_in_ctranslate2(tmp_path / "model", ONE_THREAD).engine.search(ids, options)
        ours = TorchEngine([loaded.model], ONE_THREAD).search(ids, options)
        free = TorchEngine([loaded.model], ONE_THREAD).search(ids, SearchOptions(beam=1, forbidden=()))
        assert [found[0].tokens for found in ours] != [found[0].tokens for found in free], (
            "the rule was never in the way"
        )
        for one, other in zip(ours, theirs, strict=True):
            assert one[0].tokens == other[0].tokens
            assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-3)

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            (
                {"no_repeat_ngram": 3},
                r"decode\.no_repeat_ngram: found 3, which CTranslate2 does not support with a beam above 1",
            ),
            ({"sampling": Sampling()}, r"decode\.sampling: found .*, which CTranslate2 does not support"),
        ],
    )
    def test_options_with_another_meaning_are_refused(
        self, exported: Path, setting: dict[str, object], message: str
    ) -> None:
        engine = open_in_ctranslate2(exported, ONE_THREAD).engine
        with pytest.raises(ConfigError, match=message):
            engine.search([[7]], SearchOptions(**setting))  # type: ignore[arg-type]

    def test_options_without_support_are_refused(self, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ctranslate2_engine, "_SUPPORTED", {"beam"})
        engine = open_in_ctranslate2(exported, ONE_THREAD).engine
        with pytest.raises(
            ConfigError, match=r"max_length: found .*extra=3, which CTranslate2 does not support; leave"
        ):
            engine.search([[7]], SearchOptions(max_length=MaxLength(extra=3)))

    def test_missing_devices_are_refused(self, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 0)
        with pytest.raises(ConfigError, match=r"runtime\.device: found cuda, but CTranslate2 finds no GPU"):
            open_in_ctranslate2(exported, RuntimeSettings(device="cuda"))
        with pytest.raises(ConfigError, match=r"runtime\.device: found mps"):
            open_in_ctranslate2(exported, RuntimeSettings(device="mps"))


class TestTranslate:
    def test_translations_of_an_export_equal_those_of_the_model(self, saved: Path, exported: Path) -> None:
        lines = [*SENTENCES, "", " \t", "a dog", "a dog", " ".join(SENTENCES * 9), "\u2028\0x"]
        expected, *others = [
            list(translator.translate(lines, translator.options(beam=1)))
            for translator in (
                Translator.load(saved, ONE_THREAD),
                Translator.load(exported, ONE_THREAD),
                Translator.load(saved, ONE_THREAD, "ct2"),
            )
        ]
        assert expected[-2].segments > 1
        for found in others:
            assert [one.text for one in found] == [one.text for one in expected]
            assert [one.segments for one in found] == [one.segments for one in expected]

    def test_languages_and_decode_settings_are_exported(self, exported: Path) -> None:
        translator = Translator.load(exported, ONE_THREAD)
        assert translator.languages == Languages(source="en", target="it")
        assert translator.options().search.beam == 2

    def test_long_lines_are_split_at_the_last_position(self, tmp_path: Path) -> None:
        save_model(tmp_path / "model", model(positions="learned", max_positions=20))
        export(tmp_path / "model", tmp_path / "ct2", "ctranslate2", "float32", None, QUIET)
        translator = Translator.load(tmp_path / "ct2", ONE_THREAD)
        (translation,) = translator.translate([" ".join(SENTENCES * 3)], translator.options(beam=2))
        assert translation.segments > 1

    def test_the_torch_engine_is_refused_for_an_export(self, exported: Path) -> None:
        with pytest.raises(ConfigError, match=r"--engine: found torch, but .* was exported"):
            Translator.load(exported, ONE_THREAD, "torch")

    def test_damaged_exports_are_refused(self, exported: Path, tmp_path: Path) -> None:
        for name in ("model.bin", "nmt.json", "config.json", "shared_vocabulary.json", "tokenizer.model"):
            (tmp_path / name).write_bytes((exported / name).read_bytes())
        content = bytearray((tmp_path / "model.bin").read_bytes())
        content[-1] ^= 1
        (tmp_path / "model.bin").write_bytes(content)
        with pytest.raises(DamagedError, match=r"model\.bin: damaged"):
            Translator.load(tmp_path, ONE_THREAD)
        (tmp_path / "nmt.json").write_text('{"format_version": 2, "files": {}}')
        with pytest.raises(ModelError, match=r"nmt\.json: cannot read it: 'format'; export the model again"):
            Translator.load(tmp_path, ONE_THREAD)

    def test_export_and_translate_commands(self, saved: Path, tmp_path: Path) -> None:
        runner = CliRunner()
        target = tmp_path / "ct2"
        done = runner.invoke(app, ["export", str(saved), str(target), "--to", "ctranslate2"])
        assert done.exit_code == 0, done.output
        assert "8 of 8 greedy, 8 of 8 with a beam of 4" in done.output
        text, outputs = tmp_path / "in", []
        text.write_text("the cat\n\na dog\n")
        for extra in (["-m", str(target)], ["-m", str(saved), "--engine", "ct2"], ["-m", str(saved)]):
            out = tmp_path / "out"
            command = ["translate", "-i", str(text), "-o", str(out), "--beam", "1", "--threads", "1", *extra]
            assert runner.invoke(app, command).exit_code == 0
            outputs.append(out.read_text())
        assert outputs[0] == outputs[1] == outputs[2]
        assert outputs[0].count("\n") == 3


class TestParity:
    class Changed:
        """The original engine, with a changed result for one line."""

        longest = None

        def __init__(self, loaded: LoadedModel, change: Hypothesis | None, beam: int) -> None:
            self._ours, self._change, self._beam = TorchEngine([loaded.model], ONE_THREAD), change, beam

        def search(self, sentences: Sequence[Sequence[int]], options: SearchOptions) -> list[list[Hypothesis]]:
            found = self._ours.search(sentences, options)
            if self._change is not None and options.beam == self._beam:
                found[1] = [self._change]
            return found

    def test_a_different_token_fails_the_check(self) -> None:
        loaded = model()
        check_parity(loaded, self.Changed(loaded, None, 1).search, SENTENCES, EXACT)
        wrong = Hypothesis([7, 7], -3.0, -3.0)
        lines = [SENTENCES[0], "", *SENTENCES[1:]]
        for beam, name in ((1, "greedy"), (4, "with a beam of 4")):
            with pytest.raises(ModelError, match=rf"line 3: .*{name}: 4 of 5 the same, allowed 1\n  source    a dog"):
                check_parity(loaded, self.Changed(loaded, wrong, beam).search, lines, EXACT)

    def test_message_about_rounded_weights_names_the_cause(self) -> None:
        loaded = model()
        wrong = self.Changed(loaded, Hypothesis([7, 7], -3.0, -3.0), 1)
        with pytest.raises(ModelError, match=r"4 of 5 the same, allowed 0\.9\n(.*\n){3}use float16$"):
            check_parity(loaded, wrong.search, SENTENCES, Tolerance(0.1, 0.9, "use float16"))
        assert "processors without VNNI" in ROUNDED.advice
        assert not EXACT.advice

    def test_a_different_log_prob_fails_the_check(self) -> None:
        loaded = model()
        options = SearchOptions(beam=1, length_penalty=0.0, forbidden=())
        ids = SHARED.encode(SENTENCES[1])
        right = TorchEngine([loaded.model], ONE_THREAD).search([ids], options)[0][0]
        tokens = len(right.tokens) + 1
        for shift, fine in ((0.5e-4 * tokens, True), (2e-4 * tokens, False), (float("nan"), False)):
            changed = self.Changed(loaded, replace(right, log_prob=right.log_prob - shift), 1)
            if fine:
                assert check_parity(loaded, changed.search, SENTENCES, EXACT).difference == pytest.approx(
                    0.5e-4, rel=0.1
                )
            else:
                with pytest.raises(ModelError, match=r"line 2: .*a token, allowed 0\.0001"):
                    check_parity(loaded, changed.search, SENTENCES, EXACT)

    def test_tie_passes_the_check(self) -> None:
        loaded = model()
        options = SearchOptions(beam=1, length_penalty=0.0, forbidden=())
        ids = SHARED.encode(SENTENCES[1])
        ours = TorchEngine([loaded.model], ONE_THREAD)
        first = ours.search([ids], options)[0][0].tokens[0]
        duplicate = 50 if first != 50 else 51
        with torch.no_grad():
            loaded.model.output.weight[duplicate] = loaded.model.output.weight[first]
        other = duplicate if ours.search([ids], options)[0][0].tokens[0] == first else first
        found = Hypothesis([other], -1.0, -1.0)
        assert check_parity(loaded, self.Changed(loaded, found, 1).search, SENTENCES, EXACT).same["greedy"] == 5

    def test_the_built_in_lines_have_several_scripts(self) -> None:
        text = "".join(parity.LINES)
        assert any(c > "\u4e00" for c in text)
        assert any(c > "\U00010000" for c in text)


HF_VARIANTS = [
    {"norm": "pre", "activation": "gelu", "tied_embeddings": "all"},
    {"norm": "post", "tied_embeddings": "all"},
    {"norm": "post", "activation": "gelu", "tied_embeddings": "target"},
    {"norm": "post", "tied_embeddings": "target", "two": True},
    {"norm": "post", "tied_embeddings": "none", "two": True},
]


class TestHuggingFace:
    @pytest.mark.parametrize("settings", HF_VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
    @pytest.mark.filterwarnings("default")  # transformers emits warnings
    def test_every_supported_kind_translates_equally(
        self, settings: dict[str, object], few: Path, tmp_path: Path
    ) -> None:
        pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
        save_model(tmp_path / "model", model(**settings))  # type: ignore[arg-type]
        found = export(tmp_path / "model", tmp_path / "hf", "hf", "float32", few, QUIET)
        assert found.same == {"greedy": 3, "with a beam of 4": 3}
        assert found.difference < 1e-5
        with pytest.raises(ModelError, match="exported for hf, which nmt does not translate with"):
            Translator.load(tmp_path / "hf", ONE_THREAD)

    @pytest.mark.filterwarnings("default")  # transformers emits warnings
    def test_language_codes_choose_the_target_language(self, few: Path, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
        loaded = multilingual_model()
        save_model(tmp_path / "model", loaded)
        assert export(tmp_path / "model", tmp_path / "hf", "hf", "float32", few, QUIET).same["greedy"] == 3
        ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")(">>zh<< the {0}")["input_ids"]
        source = loaded.tokenizers.source
        assert ids == [source.tag_id("2zh"), *source.encode("the {0}"), EOS]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"positions": "rotary"}, r"model\.positions: found rotary, but --to hf expects sinusoidal"),
            ({"attention_score": "dot"}, r"model\.attention_score: found dot, but --to hf expects scaled_dot"),
            ({"normalization": "rms"}, r"model\.normalization: found rms, but --to hf expects layer"),
            ({"activation": "swiglu"}, r"model\.activation: found swiglu, but --to hf expects relu or gelu"),
            (
                {"tied_embeddings": "target"},
                r"model\.tied_embeddings: found target, but --to hf expects all: .*Pegasus",
            ),
        ],
    )
    def test_unsupported_settings_are_named(self, settings: dict[str, str], message: str) -> None:
        check_fits(ModelSettings(tied_embeddings="all"))
        with pytest.raises(ConfigError, match=message):
            check_fits(ModelSettings.model_validate({"tied_embeddings": "all", **settings}))

    def test_hidden_dimensions_are_permuted_to_their_sinusoids(self, tmp_path: Path) -> None:
        """The sum of embedding and position equals that of nmt with sines before cosines."""
        from safetensors.torch import load_file

        loaded = model(norm="post", tied_embeddings="all")
        write_hugging_face(tmp_path, loaded)
        dim, tokens = 16, torch.tensor([[9, 8, 7]])
        places = np.arange(3)[:, None] / 10000 ** (2 * np.arange(dim // 2) / dim)
        table = torch.tensor(np.concatenate([np.sin(places), np.cos(places)], axis=1), dtype=torch.float32)
        theirs = load_file(tmp_path / "model.safetensors")["model.shared.weight"][tokens[0]] * dim**0.5 + table
        ours = loaded.model.source_embedding([tokens])
        assert torch.allclose(theirs, torch.cat([ours[:, 0::2], ours[:, 1::2]], dim=1), atol=1e-5)
        vocabulary = json.loads((tmp_path / "vocab.json").read_text())
        assert [vocabulary[name] for name in ("<pad>", "<unk>", "<s>", "</s>")] == [PAD, UNK, BOS, EOS]
        assert sorted(vocabulary.values()) == list(range(len(SHARED)))


def test_export_to_ctranslate2_has_target_languages_and_symbols(few: Path, tmp_path: Path) -> None:
    loaded = multilingual_model()
    save_model(tmp_path / "model", loaded)
    assert export(tmp_path / "model", tmp_path / "ct2", "ctranslate2", "float32", few, QUIET).same["greedy"] == 3
    lines = ["the cat {0}", "a dog"]
    texts = {}
    for code in ("it", "zh"):
        translators = [Translator.load(tmp_path / name, ONE_THREAD) for name in ("model", "ct2")]
        options = translators[0].options(overrides=["decode.protect=false"], to=code)
        ours, exported = ([one.text for one in each.translate(lines, options)] for each in translators)
        assert ours == exported
        texts[code] = ours
    assert texts["it"] != texts["zh"]
    with pytest.raises(ConfigError, match="--to: is not set, expected it or zh"):
        list(Translator.load(tmp_path / "ct2", ONE_THREAD).translate(lines))


def test_export_does_not_change_the_model(saved: Path, tmp_path: Path) -> None:
    loaded = load_model(saved, torch.device("cpu"))
    before = {name: weight.clone() for name, weight in loaded.model.named_parameters()}
    ctranslate2.write_ctranslate2(tmp_path, loaded, "int8")
    assert all(torch.equal(before[name], weight) for name, weight in loaded.model.named_parameters())
