"""Imported Marian models compute what transformers and Marian do; damaged and hostile ones are refused."""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.commands.conversion import export, import_model
from nmt.config import Languages
from nmt.errors import ConfigError, ModelError
from nmt.formats.marian import _NATIVE, _WHOLE
from nmt.model.checkpoint import load_model, weights_of
from nmt.system.console import Console
from nmt.text.tokenizer import BOS, EOS, UNK
from nmt.translation.translator import Translator
from tests.builders import save_model

QUIET, CPU = Console(silent=True), torch.device("cpu")
PAIRS = [
    line.split("\t")[:2] for line in (Path(__file__).parents[2] / "data/demo/train.tsv").read_text("utf-8").splitlines()
]
SHORT = ["decode.length_penalty=0", "decode.exact=true", "decode.max_length.factor=1", "decode.max_length.extra=3"]
SHAPES: list[dict[str, Any]] = [
    {"activation_function": "swish"},
    {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 2, "d_model": 24},
    {"activation_function": "relu", "decoder_start_token_id": 0},  # `</s>`
    {"activation_function": "relu", "decoder_start_token_id": 5},  # a piece
    {"activation_function": "gelu", "two": True},
    {"activation_function": "relu", "two": True, "tie_word_embeddings": False},
]
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
pytestmark = pytest.mark.filterwarnings("default")  # transformers emits warnings


@cache
def spm(side: int, size: int, kind: str) -> bytes:
    """Return a model of one side of the pairs."""
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([pair[side] for pair in PAIRS[:3000]]),
        model_writer=stream,
        vocab_size=size,
        model_type=kind,
        minloglevel=2,
    )
    return stream.getvalue()


def write_vocabulary(
    directory: Path, tags: list[str], two: bool = False, kind: str = "unigram"
) -> list[dict[str, int]]:
    """Write source.spm, target.spm and vocab.json, or two vocabularies, as OPUS-MT has them; return the ids."""
    pieces: list[list[str]] = []
    for side, size in ((0, 300), (1, 260)):
        model = spm(side, size, kind)
        (directory / ("source.spm", "target.spm")[side]).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces.append([processor.id_to_piece(i) for i in range(3, len(processor))])
    both = [tags + pieces[0], pieces[1]] if two else [list(dict.fromkeys(tags + pieces[0] + pieces[1]))]
    ids = [{piece: i for i, piece in enumerate(["</s>", "<unk>", *side, "<pad>"])} for side in both]
    for name, content in zip(("vocab.json", "target_vocab.json"), ids, strict=False):
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    tokenizer = {"source_lang": "eng", "target_lang": "ita", "separate_vocabs": two}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return ids


def random_marian(directory: Path, ids: list[dict[str, int]], two: bool = False, **changes: Any) -> Any:
    """Write a MarianMTModel with random weights, whose translations end."""
    torch.manual_seed(3)
    sizes = {"vocab_size": len(ids[0]), "decoder_vocab_size": len(ids[-1]), "pad_token_id": ids[-1]["<pad>"]}
    if two:  # padding must have the same id on both sides
        sizes["pad_token_id"] = min(ids[0]["<pad>"], ids[-1]["<pad>"])
    shape = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
    for side in ("encoder", "decoder"):
        shape |= {f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    config = transformers.MarianConfig(
        **{**shape, **sizes, "init_std": 0.2, "scale_embedding": True, "eos_token_id": 0, "forced_eos_token_id": None}
        | {"decoder_start_token_id": sizes["pad_token_id"], "share_encoder_decoder_embeddings": not two, **changes}
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 10
    model.save_pretrained(directory)
    return model


def their_log_probs(model: Any, source: list[int], target: list[int]) -> Tensor:
    """Return the log-probability of each target token; the target ends with `</s>`."""
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        logits = model(torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
    return logits.log_softmax(-1).gather(1, torch.tensor(target).unsqueeze(1)).squeeze(1)


def our_log_probs(model: Any, source: list[int], target: list[int]) -> Tensor:
    with torch.no_grad():
        logits = model(torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *target]]))[0]
    return logits.log_softmax(-1).gather(1, torch.tensor([*target, EOS]).unsqueeze(1)).squeeze(1)


@pytest.mark.parametrize(
    ("kind", "shape"), [*(("unigram", shape) for shape in SHAPES), ("bpe", SHAPES[0])],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)  # fmt: skip
def test_imported_model_equals_that_of_transformers(shape: dict[str, Any], kind: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    ids = write_vocabulary(theirs, [], shape.get("two", False), kind)
    model = random_marian(theirs, ids, **shape)
    import_model(theirs, tmp_path / "ours", None, QUIET)
    ours = load_model(tmp_path / "ours", CPU)
    assert (ours.languages.source, ours.languages.target) == ("en", ("it",))
    tokenizer = transformers.MarianTokenizer.from_pretrained(theirs)
    for source, target in PAIRS[5000:5020]:
        source_ids, target_ids = ours.tokenizers.source.encode(source), ours.tokenizers.target.encode(target)
        their_source, their_target = (
            tokenizer(**{key: x})["input_ids"] for key, x in (("text", source), ("text_target", target))
        )
        names = [ours.tokenizers.source.symbols[i] for i in [*source_ids, EOS]]
        assert names == [list(ids[0])[i] for i in their_source]
        torch.testing.assert_close(
            our_log_probs(ours.model, source_ids, target_ids),
            their_log_probs(model, their_source, their_target),
            rtol=0,
            atol=1e-4,
        )
        assert UNK in target_ids or ours.tokenizers.target.decode(target_ids) == target

    compared, translator = 0, Translator.load(tmp_path / "ours", precision="fp32", threads=1)
    for beam in (1, 3):
        options = translator.options(beam=beam, overrides=SHORT).search
        lines = [source for source, _ in PAIRS[6000:6004]]
        found = translator.engine.search([ours.tokenizers.source.encode(x) for x in lines], options, [[]] * len(lines))
        for line, (best, *_) in zip(lines, found, strict=True):
            settings = {"num_beams": beam, "length_penalty": 0.0, "early_stopping": "never" if beam > 1 else False}
            limit = options.longest_output(len(ours.tokenizers.source.encode(line)))
            batch = {"input_ids": torch.tensor([tokenizer(line)["input_ids"]])}
            expected = model.generate(
                **batch, **settings, max_new_tokens=limit, do_sample=False,
                suppress_tokens=[1, model.config.pad_token_id],
            )[0].tolist()  # fmt: skip
            if len(expected) <= limit:  # else transformers has no end
                compared += 1
                names = [ours.tokenizers.target.symbols[i] for i in best.tokens]
                assert names == [list(ids[-1])[i] for i in expected[1:-1]], (beam, line)
    assert compared > 2


def test_language_tags_become_target_languages(tmp_path: Path) -> None:
    tags = [">>cmn_Hant<<", ">>cmn_Hans<<", ">>ita<<", ">>xyz<<"]
    model = random_marian(tmp_path, ids := write_vocabulary(tmp_path, tags), activation_function="swish")
    import_model(tmp_path, tmp_path / "ours", None, QUIET)
    ours = load_model(tmp_path / "ours", CPU)
    assert sorted(ours.languages.target) == ["it", "xyz", "zh", "zh-Hant"]
    with pytest.raises(ConfigError, match=r"found the target it, but .*; give the source alone"):
        import_model(tmp_path, tmp_path / "other", "en-it", QUIET)
    source, target = PAIRS[0]
    tagged = [*ours.tokenizers.source.tag_ids(["2zh"]), *ours.tokenizers.source.encode(source)]
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    their_source = tokenizer(f">>cmn_Hans<< {source}")["input_ids"]
    found = our_log_probs(ours.model, tagged, ours.tokenizers.target.encode(target))
    expected = their_log_probs(model, their_source, tokenizer(text_target=target)["input_ids"])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert ids[0][">>ita<<"] > 1


@pytest.mark.parametrize(
    "settings",
    [{"norm": "post"}, {"norm": "post", "tied_embeddings": "all"}, {"norm": "pre", "tied_embeddings": "all"}],
    ids=str,
)
def test_our_own_export_is_imported_with_the_same_weights(
    settings: dict[str, object], tmp_path: Path, lines: Path
) -> None:
    from tests.commands.test_conversion import model as small_model

    languages = Languages(source="en", target=("zh-Hant",))
    loaded = replace(small_model(**settings), languages=languages)  # type: ignore[arg-type]
    save_model(tmp_path / "model", loaded)
    export(tmp_path / "model", tmp_path / "hf", "hf", "float32", lines, QUIET)
    import_model(tmp_path / "hf", tmp_path / "back", None, QUIET)
    back = load_model(tmp_path / "back", CPU)
    assert (back.settings, back.languages) == (loaded.settings, loaded.languages)
    before, after = weights_of(loaded.model), weights_of(back.model)
    assert before.keys() == after.keys()
    for name, weight in before.items():
        rows = (
            len(back.tokenizers.target) if name.endswith(("tokens.weight", "output.weight")) else len(weight)
        )  # without padding
        assert torch.equal(weight[:rows], after[name][:rows]), name
    assert back.tokenizers.source.symbols == loaded.tokenizers.source.symbols
    for source, target in PAIRS[:20]:
        assert back.tokenizers.source.encode(source) == loaded.tokenizers.source.encode(source)
        assert back.tokenizers.target.encode(target) == loaded.tokenizers.target.encode(target)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_text("".join(f"{source}\n" for source, _ in PAIRS[:3]), encoding="utf-8")
    return tmp_path / "lines"


def test_model_as_marian_keeps_it_equals_its_formula_also_in_a_zip(tmp_path: Path) -> None:
    """The oracle is transformers' model with the positions of Marian; benchmarks/marian_import.py has Marian itself."""
    hf, native = tmp_path / "hf", tmp_path / "native"
    hf.mkdir(), native.mkdir()
    ids = write_vocabulary(hf, [])
    model = random_marian(hf, ids, activation_function="relu", pad_token_id=len(ids[0]) - 1)
    write_native(native, hf, model, ids[0])
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for file in native.iterdir():
            archive.write(file, f"../../{file.name}")  # a hostile path is no place to write
    import_model(native, tmp_path / "ours", "en-it", QUIET)
    import_model(tmp_path / "model.zip", tmp_path / "again", "en-it", QUIET)
    ours, again = load_model(tmp_path / "ours", CPU), load_model(tmp_path / "again", CPU)
    assert all(torch.equal(a, b) for a, b in zip(ours.model.parameters(), again.model.parameters(), strict=True))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
        dim = model.config.d_model
        rates = [10000 ** (-i / (dim // 2 - 1)) for i in range(dim // 2)]
        table = [[f(p * rate) for f in (np.sin, np.cos) for rate in rates] for p in range(100)]
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight[:100] = torch.tensor(table)
        model.model.shared.weight[-1] = 0  # the decoder starts with zeros
        model.final_logits_bias[0, -1] = -100
    for source, target in PAIRS[:10]:
        source_ids, target_ids = ours.tokenizers.source.encode(source), ours.tokenizers.target.encode(target)
        theirs = [
            [ids[0][side.symbols[i]] for i in [*encoded, EOS]]
            for side, encoded in ((ours.tokenizers.source, source_ids), (ours.tokenizers.target, target_ids))
        ]
        expected = their_log_probs(model, *theirs)
        torch.testing.assert_close(our_log_probs(ours.model, source_ids, target_ids), expected, rtol=0, atol=1e-4)


def write_native(directory: Path, hf: Path, model: Any, ids: dict[str, int]) -> None:
    """Write a model as Marian does; its vocabulary has no padding."""
    arrays = {}
    weights = model.state_dict()
    for name, tensor in weights.items():
        if match := re.fullmatch(r"model\.(encoder|decoder)\.layers\.(\d)\.(.+)", name):
            side, layer, rest = match.groups()
            kind = re.fullmatch(r"(self_attn|encoder_attn)\.(\w+)_proj\.(weight|bias)", rest)
            if kind:
                theirs = {"self_attn": "self", "encoder_attn": "context"}[kind[1]]
                rest = f"{theirs}_{'W' if kind[3] == 'weight' else 'b'}{kind[2][0]}"
            else:
                rest = next(key for key, value in _NATIVE.items() if value == rest)
            arrays[f"{side}_l{int(layer) + 1}_{rest}"] = np.atleast_2d(tensor.numpy().T)
    arrays |= {_key(name): weights[name][..., : len(ids) - 1].numpy() for name in ("final_logits_bias",)}
    arrays["Wemb"] = weights["model.shared.weight"][:-1].numpy()
    options = {
        "dim-emb": 32, "transformer-heads": 4, "enc-depth": 2, "dec-depth": 2, "transformer-dim-ffn": 48,
        "transformer-ffn-activation": "relu", "transformer-preprocess": "", "transformer-postprocess": "dan",
        "tied-embeddings-all": True, "tied-embeddings": False, "tied-embeddings-src": False,
    }  # fmt: skip
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items())
    arrays["special:model.yml"] = np.frombuffer(text.encode() + b"\0", dtype=np.int8)
    np.savez(directory / "model.npz", **arrays)
    pieces = list(ids)[:-1]
    vocabulary = "".join(f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(pieces))
    (directory / "opus.vocab.yml").write_text(vocabulary, encoding="utf-8")
    (directory / "decoder.yml").write_text("models: [/elsewhere/model.npz]\nvocabs: [opus.vocab.yml, opus.vocab.yml]\n")
    for side in ("source.spm", "target.spm"):
        (directory / side).write_bytes((hf / side).read_bytes())


def _key(name: str) -> str:
    return next(key for key, value in _WHOLE.items() if value == name)


def test_weights_of_marian_without_a_place_in_our_model_are_refused(tmp_path: Path) -> None:
    ids = write_vocabulary(tmp_path, [])
    write_native(tmp_path, tmp_path, random_marian(tmp_path, ids, activation_function="relu"), ids[0])
    (tmp_path / "vocab.json").unlink()
    arrays = dict(np.load(tmp_path / "model.npz"))
    np.savez(tmp_path / "model.npz", **arrays, Wpos=np.zeros((9, 32), np.float32))
    with pytest.raises(ModelError, match="1 weights that its settings do not name, such as Wpos"):
        import_model(tmp_path, tmp_path / "ours", "en-it", QUIET)


@pytest.mark.parametrize("vocabulary", [10, 2000])
def test_weights_with_other_rows_than_pieces_are_refused(vocabulary: int, tmp_path: Path) -> None:
    ids = write_vocabulary(tmp_path, [])
    padding = {"pad_token_id": 1, "decoder_start_token_id": 1}
    random_marian(tmp_path, ids, activation_function="relu", **padding, vocab_size=vocabulary)
    with pytest.raises(
        ModelError, match=f"shared.weight: found {vocabulary:,} rows, but the vocabulary has {len(ids[0])}"
    ):
        import_model(tmp_path, tmp_path / "ours", None, QUIET)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian")
    random_marian(directory, write_vocabulary(directory, []), activation_function="relu")
    return directory


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model, which a test may change."""
    return shutil.copytree(saved, tmp_path / "copy")


def change(file: Path, key: str, value: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), key: value}), encoding="utf-8")


def alter(directory: Path, name: str, new: Callable[[Tensor], Tensor]) -> None:
    weights = load_file(file := directory / "model.safetensors")
    save_file({**weights, name: new(weights[name])}, file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "source.spm").write_bytes(b"\x0a\xff"), "SentencePiece"),
        (lambda d: (d / "source.spm").write_bytes(b"\x0b"), "SentencePiece"),
        (lambda d: (d / "target.spm").unlink(), "target.spm"),
        (lambda d: change(d / "vocab.json", "▁", 10**9), "each once"),
        (lambda d: change(d / "config.json", "model_type", "bart"), "model_type: found bart, expected marian"),
        (lambda d: change(d / "config.json", "encoder_layers", 3), "model.encoder.layers.2"),
        (lambda d: change(d / "config.json", "decoder_layers", 1), "26 weights that its settings do not name, such as"),
        (lambda d: change(d / "config.json", "tie_word_embeddings", False), "it has no 'lm_head.weight'"),
        (lambda d: change(d / "config.json", "share_encoder_decoder_embeddings", False), "no 'model.encoder.emb"),
        (lambda d: change(d / "config.json", "scale_embedding", None), "scale_embedding: found None, expected True"),
        (lambda d: change(d / "config.json", "num_beams", "abc"), "beam: found 'abc'; .* valid integer"),
        (lambda d: change(d / "config.json", "activation_function", "gelu_new"), "found 'gelu_new'; .* 'relu'"),
        (lambda d: change(d / "tokenizer_config.json", "source_lang", 5), "not a Marian model"),
        (lambda d: (d / "model.safetensors.index.json").touch(), "its weights are in several files"),
        (lambda d: change(d / "config.json", "encoder_layers", "2"), "encoder_layers"),
        (lambda d: change(d / "config.json", "normalize_before", True), "normalize_before: found True"),
        (lambda d: change(d / "config.json", "decoder_start_token_id", 10**6), "model: index 1000000 is out of bounds"),
        (lambda d: (d / "config.json").write_text("[" * 10_000), "config.json: its brackets are nested"),
        (lambda d: (d / "config.json").unlink(), "config.json"),
        (lambda d: alter(d, "model.shared.weight", lambda weight: weight / 0), "model.shared.weight: .* not finite"),
        (lambda d: alter(d, "model.encoder.layers.0.fc1.bias", lambda bias: bias[:1].clone()),
         r"encoder.layers.0.fc1.bias: found the shape \(1,\), expected \("),
        (lambda d: (d / "model.bin").touch(), "a model of CTranslate2, .* import the model that it was exported from"),
        (lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"), "not a Marian model"),
        (lambda d: ((d / "source.spm").unlink(), (d / "source.spm").symlink_to("/dev/zero")), "regular file"),
    ],
)  # fmt: skip
def test_damaged_and_hostile_models_are_refused(copy: Path, tmp_path: Path, damage: Any, message: str) -> None:
    damage(copy)
    with pytest.raises(ModelError, match=message):
        import_model(copy, tmp_path / "ours", "en-it", QUIET)
    assert not (tmp_path / "ours").exists()


def test_weights_as_pickles_of_torch_are_read(saved: Path, copy: Path, tmp_path: Path) -> None:
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    for name, directory in (("one", saved), ("other", copy)):
        import_model(directory, tmp_path / name, None, QUIET)
    one, other = (load_model(tmp_path / name, CPU).model for name in ("one", "other"))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_unknown_languages_are_an_error_with_the_option(copy: Path, tmp_path: Path) -> None:
    change(copy / "tokenizer_config.json", "target_lang", "roa")
    with pytest.raises(ConfigError, match="--languages en-it"):
        import_model(copy, tmp_path / "ours", None, QUIET)
    import_model(copy, tmp_path / "ours", "en-pt_BR", QUIET)
    assert load_model(tmp_path / "ours", CPU).languages.target == ("pt_BR",)
