"""`nmt export`: other programs translate exported models as nmt translates the originals."""

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from nmt.batching.batch import Rows
from nmt.commands.conversion import export
from nmt.config import DecodeSettings, Languages, ModelSettings, RuntimeSettings, TokenizerSettings
from nmt.decoding.results import Pair
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError, DataError, ModelError
from nmt.formats import ctranslate2
from nmt.formats.check import EXACT, ROUNDED, compare_exported
from nmt.formats.hugging_face import check_fits, write_hugging_face
from nmt.model.checkpoint import TorchModel
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.normalize import normalize
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
SMALL = {"encoder_layers": 2, "decoder_layers": 1, "dim": 16, "heads": 2, "feed_forward": 24}


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
    languages, decode = Languages(source="en", target="it"), DecodeSettings(beam=2)
    return TorchModel(shape, tokenizers, languages, decode, 200, in_torch=transformer)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "model"
    save_model(directory, model())
    return directory


def multilingual_model() -> LoadedModel:
    """Return a random model of two target languages whose tokenizer has a protected symbol."""
    chosen = TokenizerSettings(vocab_size=300, symbols=("{0}",))
    tokenizer = Tokenizer.train(SENTENCES * 20, chosen, tags=["2it", "2zh"])
    loaded = model(seed=10, norm="post", tied_embeddings="all")
    languages = Languages(source="en", target=("it", "zh"))
    return replace(loaded, tokenizers=Tokenizers(tokenizer, tokenizer), languages=languages)


FEW = ["the cat", "a dog barks", "今天"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A file of three short lines, because random models translate up to the length limit."""
    file = tmp_path / "few"
    file.write_text("\n\n".join(FEW), encoding="utf-8")
    return file


def with_nmt(directory: Path, lines: Sequence[str]) -> list[str]:
    """Return translations by greedy search."""
    translator = Translator.load(directory, threads=1)
    overrides = ["decode.max_length={factor: 0, extra: 20}", "decode.protect=false", "decode.typography=false"]
    return [one.text for one in translator.translate(lines, translator.options(beam=1, overrides=overrides))]


def with_ctranslate2(directory: Path, lines: Sequence[str], tag: str = "") -> list[str]:
    """Return the same by the program itself, from the files of the export: pieces in, pieces out."""
    program = importlib.import_module("ctranslate2").Translator(str(directory), intra_threads=1)
    tokenizers = Tokenizers.load(directory)
    names, target = tokenizers.source.symbols, tokenizers.target.symbols
    sources = [[*([tag] if tag else []), *(names[i] for i in tokenizers.source.encode(line))] for line in lines]
    forbidden = [["<pad>"], ["<unk>"], ["<s>"]]
    found = program.translate_batch(sources, beam_size=1, max_decoding_length=19, suppress_sequences=forbidden)
    return [tokenizers.target.decode([target.index(piece) for piece in one.hypotheses[0]]) for one in found]


def with_transformers(directory: Path, lines: Sequence[str]) -> list[str]:
    """Return the same by the library itself."""
    transformers = importlib.import_module("transformers")
    program = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    texts = []
    for line in lines:
        ids = program.generate(**tokenizer(line, return_tensors="pt"), num_beams=1, max_length=None, max_new_tokens=19)
        texts.append(normalize(tokenizer.decode(ids[0], skip_special_tokens=True)))
    return texts


VARIANTS = [
    {"norm": "pre", "positions": "sinusoidal", "tied_embeddings": "all"},
    {"norm": "post", "positions": "sinusoidal", "activation": "swiglu", "tied_embeddings": "target"},
    {"norm": "pre", "positions": "rotary", "activation": "gelu"},
    {"norm": "post", "positions": "relative", "two": True, "max_distance": 3, "norm_epsilon": 1e-2},
    {"positions": "learned", "max_positions": 40, "norm_epsilon": 1e-3},
    {"norm": "pre", "positions": "relative", "activation": "swiglu", "two": True, "tied_embeddings": "target"},
    {"norm": "pre", "positions": "rotary"},
    {"norm": "post", "positions": "rotary", "activation": "gelu"},
]


HF_VARIANTS = [
    {"norm": "pre", "activation": "gelu", "tied_embeddings": "all"},
    {"norm": "post", "tied_embeddings": "all"},
    {"norm": "post", "activation": "gelu", "tied_embeddings": "target"},
    {"norm": "post", "tied_embeddings": "target", "two": True},
    {"norm": "post", "tied_embeddings": "none", "two": True},
]


@pytest.mark.parametrize(
    ("to", "settings"),
    [*(("ctranslate2", settings) for settings in VARIANTS), *(("hf", settings) for settings in HF_VARIANTS)],
    ids=str,
)
@pytest.mark.filterwarnings("default")  # transformers emits warnings
def test_every_supported_kind_of_model_translates_equally(
    to: Literal["ctranslate2", "hf"], settings: dict[str, object], few: Path, tmp_path: Path
) -> None:
    pytest.importorskip("transformers" if to == "hf" else to)
    save_model(tmp_path / "model", model(**settings))  # type: ignore[arg-type]
    count, difference = export(tmp_path / "model", tmp_path / to, to, "float32", few, QUIET)
    assert count == 3
    assert difference < 1e-5
    translations = (with_transformers if to == "hf" else with_ctranslate2)(tmp_path / to, FEW)
    assert translations == with_nmt(tmp_path / "model", FEW)
    with pytest.raises(ModelError, match=r"not written by nmt: it has no format_version.*; nmt import reads models of"):
        Translator.load(tmp_path / to, threads=1)


class TestCTranslate2:
    def test_attention_scores_without_support_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"model\.attention_score: found additive, but CTranslate2 has scaled_dot"
        ):
            ctranslate2.write_ctranslate2(tmp_path, model(attention_score="additive"), "float32")

    def test_int8_weights_are_smaller(self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # random weights have large errors: 0.02 a token on processors with VNNI, and 1.03 on those without, where the
        # sum of two 8-bit products exceeds 16 bits
        monkeypatch.setattr("nmt.commands.conversion.ROUNDED", 3.0)
        export(saved, tmp_path / "int8", "ctranslate2", "int8", None, QUIET)
        export(saved, tmp_path / "float32", "ctranslate2", "float32", None, QUIET)
        table = ctranslate2.POSITIONS * 16 * 4  # positions stay float32
        sizes = [(tmp_path / kind / "model.bin").stat().st_size - table for kind in ("int8", "float32")]
        assert sizes[0] < 0.5 * sizes[1]

    def test_an_export_that_computes_something_else_is_not_written(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def halves(start: int, length: int, like: torch.Tensor) -> torch.Tensor:
            """The other layout: all sines, then all cosines."""
            dim = like.size(-1)
            table = torch.zeros(length, dim)
            angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(dim // 2) * 2 / dim)
            table[:, : dim // 2], table[:, dim // 2 :] = angles.sin(), angles.cos()
            return table

        monkeypatch.setattr(ctranslate2, "sinusoids", halves)
        with pytest.raises(ModelError, match=r"line \d: the log-probabilities of the exported model differ .*allowed"):
            export(saved, tmp_path / "ct2", "ctranslate2", "float32", None, QUIET)
        assert list(tmp_path.iterdir()) == []

    def test_lines_of_a_given_file_are_compared(self, saved: Path, tmp_path: Path) -> None:
        lines = tmp_path / "lines"
        lines.write_text("the cat\n\na dog\n")
        assert export(saved, tmp_path / "ct2", "ctranslate2", "float32", lines, QUIET)[0] == 2
        lines.write_text("\n \n")
        with pytest.raises(DataError, match="--lines: every line is empty"):
            export(saved, tmp_path / "other", "ctranslate2", "float32", lines, QUIET)
        assert not (tmp_path / "other").exists()

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

    @pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("hf", "transformers")])
    def test_a_missing_package_is_named_before_torch_is_imported(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, package: str
    ) -> None:
        monkeypatch.setattr("nmt.errors.find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "nmt.commands.conversion", None)  # to import it would fail
        result = run_command("export", saved, tmp_path / "out", "--to", to)
        assert result.exit_code == 2
        assert f"{package} is not installed; run: pip install {package}\n" in result.stderr
        assert list(tmp_path.iterdir()) == []


class TestCompare:
    def test_differences_are_measured_per_token(self) -> None:
        """A shift of every token by 5e-5 is allowed in fp32, one of 2e-4 or NaN is not; the worst line is named."""
        loaded = model()
        runner = TorchEngine([loaded.model])

        def shifted(shift: float, pairs: Sequence[Pair]) -> list[list[float]]:
            scores = [one.token_log_probs for one in runner.force(pairs, 1000)]
            scores[1] = [score - shift for score in scores[1]]
            return scores

        lines = [SENTENCES[0], "", *SENTENCES[1:]]
        found = compare_exported(loaded, partial(shifted, 5e-5), lines, EXACT)
        assert found == (5, pytest.approx(5e-5, rel=1e-2))
        for shift, allowed, advice in ((2e-4, EXACT, ""), (float("nan"), EXACT, ""), (0.2, ROUNDED, ".*VNNI")):
            with pytest.raises(ModelError, match=rf"(?s)^line 3: .* a token, allowed {allowed:g}; .*a dog.*{advice}"):
                compare_exported(loaded, partial(shifted, shift), lines, allowed)


class TestHuggingFace:
    @pytest.mark.filterwarnings("default")  # transformers emits warnings
    def test_language_codes_choose_the_target_language(self, few: Path, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
        loaded = multilingual_model()
        save_model(tmp_path / "model", loaded)
        assert export(tmp_path / "model", tmp_path / "hf", "hf", "float32", few, QUIET)[0] == 3
        ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")(">>zh<< the {0}")["input_ids"]
        source = loaded.tokenizers.source
        assert ids == [source.tag_ids(["2zh"])[0], *source.encode("the {0}"), EOS]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"positions": "rotary"}, r"model\.positions: found rotary, but --to hf expects sinusoidal"),
            ({"positions": "learned"}, r"model\.positions: found learned, but --to hf expects sinusoidal"),
            ({"norm_epsilon": 1e-6}, r"model\.norm_epsilon: found 1e-06, but --to hf expects 1e-05"),
            ({"attention_score": "dot"}, r"model\.attention_score: found dot, but --to hf expects scaled_dot"),
            ({"activation": "swiglu"}, r"model\.activation: found swiglu, but --to hf expects relu or gelu"),
            (
                {"tied_embeddings": "target"},
                r"model\.tied_embeddings: found target, but --to hf expects all: .*Pegasus",
            ),
        ],
    )
    def test_unsupported_settings_are_named(self, settings: dict[str, object], message: str) -> None:
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
        ours = loaded.model.source_embedding(Rows.of(tokens.tolist()))
        assert torch.allclose(theirs, torch.cat([ours[:, 0::2], ours[:, 1::2]], dim=1), atol=1e-5)
        vocabulary = json.loads((tmp_path / "vocab.json").read_text())
        assert [vocabulary[name] for name in ("<pad>", "<unk>", "<s>", "</s>")] == [PAD, UNK, BOS, EOS]
        assert sorted(vocabulary.values()) == list(range(len(SHARED)))


def test_export_to_ctranslate2_has_target_languages_and_symbols(few: Path, tmp_path: Path) -> None:
    loaded = multilingual_model()
    save_model(tmp_path / "model", loaded)
    export(tmp_path / "model", tmp_path / "ct2", "ctranslate2", "float32", few, QUIET)
    lines, texts = ["the cat {0}", "a dog"], {}
    translator = Translator(loaded, ONE_THREAD)
    for code in ("it", "zh"):
        overrides = ["decode.max_length={factor: 0, extra: 20}", "decode.protect=false", "decode.typography=false"]
        options = translator.options(beam=1, overrides=overrides, to=code)
        texts[code] = [one.text for one in translator.translate(lines, options)]
        assert with_ctranslate2(tmp_path / "ct2", lines, f"<2{code}>") == texts[code]
    assert texts["it"] != texts["zh"]
