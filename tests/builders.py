"""Small models, texts and recipes that tests of several packages share.

Everything is a function of its arguments: the same seed gives the same weights and the same sentences.
"""

import hashlib
import io
import json
import math
import os
import random
import shutil
import stat
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner, Result

from nmt.batching.batch import Batch, assemble
from nmt.cli import app
from nmt.config import (
    CorpusFile,
    Data,
    DecodeSettings,
    Languages,
    ModelSettings,
    Recipe,
    RuntimeSettings,
    TokenizerSettings,
    TrainSettings,
    load_recipe,
)
from nmt.decoding.engine import NativeEngine
from nmt.decoding.torch_engine import TorchEngine
from nmt.kernels.native import laid_out
from nmt.kernels.reference import Precision
from nmt.model import checkpoint
from nmt.model.checkpoint import TorchModel
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.system.files import new_directory, write_digested
from nmt.text.prepared import CorpusPart, PreparedSplit, Sentences
from nmt.text.tokenizer import BOS, EOS, PAD, Tokenizer, Tokenizers
from nmt.translation.options import TranslateOptions
from nmt.translation.pipeline import LineInput, translate_stream
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator

TINY_SHAPE: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "dim": 16, "feed_forward": 32, "heads": 2}
SENTENCES = [
    "the cat sleeps on the mat .",
    "a dog barks at the moon .",
    "we drink tea in the garden , and then we sleep .",
    "il gatto dorme sul tappeto .",
    "un cane abbaia alla luna .",
    "今天下雨。",
]
PROTECTED_ITEMS = ["{0}", "{1}", "%s", "<b>", "</b>", "a@b.org", "https://x.org/a?b=1", "{ -brand }"]
LINES_WITH_ITEMS = st.lists(
    st.sampled_from([*PROTECTED_ITEMS, "cat", "moon", "'{0}'", "(%s)", "{0}.", "mat</b>"]), max_size=6
).map(" ".join)
PLAIN_TERMINAL = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
SHORT_OUTPUT = ["decode.max_length={factor: 0.2, extra: 10}"]  # a random model rarely predicts the end
SOURCE_WORDS = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru"]
TARGET_WORDS = ["sab", "tec", "vid", "zof", "jug", "hal", "kem", "win", "xop", "yur"]
TEXTS = {
    "en": "The men were in the house, and it was not far from here. What do you think about that? They have to go.",
    "it": "Gli uomini erano nella casa e non era lontano da qui. Perché no? Non so che cosa ha detto a Maria.",
    "fr": "Les hommes étaient dans la maison et ce n'est pas loin. Je ne sais pas ce que vous pensez de cela.",
    "de": "Die Männer waren in dem Haus, und es ist nicht weit von hier. Ich weiß nicht, was du über sie denkst.",
    "pt": "Os homens estavam em uma casa e não é longe daqui. Eu não sei o que você pensa do que ele disse para mim.",
    "pl": "Nie wiem, co on ci wczoraj powiedział, ale nie było to tak ważne dla mnie, jak myślisz. Zażółć gęślą jaźń.",
    "vi": "Tôi không biết hôm qua anh ấy đã nói gì với bạn, nhưng đối với tôi điều đó không quan trọng lắm.",
    "ru": "Я не знаю, что он сказал тебе вчера, но это было не так важно для меня, как ты думаешь. Он был из города.",
    "uk": "Я не знаю, що він сказав тобі вчора, але це було не так важливо для мене, як ти думаєш. Він був із міста.",
    "zh": "我不知道他昨天对你说了什么，但是这对我来说并不像你想的那么重要。",
    "ja": "彼が昨日あなたに何を言ったのか私は知りませんが、それはあまり重要ではありません。",
    "ko": "그가 어제 너에게 무슨 말을 했는지 모르지만 나에게는 그렇게 중요하지 않다.",
    "el": "Δεν ξέρω τι σου είπε χθες, αλλά δεν ήταν τόσο σημαντικό για μένα.",
    "he": "אני לא יודע מה הוא אמר לך אתמול, אבל זה לא היה כל כך חשוב בשבילי כמו שאתה חושב.",
    "hi": "मुझे नहीं पता कि उसने कल तुमसे क्या कहा, लेकिन यह मेरे लिए उतना महत्वपूर्ण नहीं था।",
    "ar": "لا أعرف ما قاله لك أمس، لكن هذا لم يكن مهما إلى هذا الحد في رأيي.",
}
"""Sentences of many languages and scripts, by their codes; all but the English ones have letters beyond ASCII."""
DEMO = Path(__file__).parents[1] / "data" / "demo" / "train.tsv"


def run_command(*arguments: str | Path, stdin: str | None = None) -> Result:
    """Run `nmt` in this process with the given command line."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], stdin, env=PLAIN_TERMINAL)


def write_lines(path: Path, *lines: str) -> Path:
    """Write a text file of these lines and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_zip(path: Path, **members: str | bytes) -> Path:
    """Write a zip archive with members of these contents and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def write_tsv(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Write sentence pairs as a two-column TSV file and return its path."""
    return write_lines(path, *(f"{source}\t{target}" for source, target in rows))


def demo_pairs(count: int, start: int = 0, target: int = 1) -> list[tuple[str, str]]:
    """Return different pairs of the demonstration text from a line on: English with Italian, or with Chinese (2)."""
    rows = [line.split("\t") for line in DEMO.read_text(encoding="utf-8").splitlines()[start : start + count]]
    return [(row[0], row[target]) for row in rows]


def random_lengths(count: int, ratio: float, seed: int = 3) -> list[tuple[int, int]]:
    """Return lengths of sentences and of their translations, which vary as sums of independent words."""
    choose, lengths = random.Random(seed), list[tuple[int, int]]()
    for _ in range(count):
        source = max(1, round(choose.lognormvariate(3.5, 0.6)))
        lengths.append((source, max(1, round(choose.gauss(ratio * source, math.sqrt(ratio * source))))))
    return lengths


def split_of_sizes(sizes: Sequence[tuple[int, int]], weights: Sequence[float] | None = None) -> PreparedSplit:
    """Return sentence pairs of these numbers of source and target tokens, `</s>` included, each with its weight."""
    source, target = (Sentences.of([[0] * (size - 1) for size in side]) for side in zip(*sizes, strict=True))
    return PreparedSplit(source, target, tuple(CorpusPart(1, weight) for weight in weights or [1.0] * len(sizes)))


def tiny_model(seed: int, vocabulary: int = 6, sharpness: float = 3.0, **settings: object) -> Transformer:
    """Return a random model in evaluation mode; `sharpness` scales the output weights, for clear choices."""
    torch.manual_seed(seed)
    shape = {**TINY_SHAPE, "decoder_layers": 2, "tied_embeddings": "none", **settings}
    model = Transformer(ModelSettings.model_validate(shape), vocabulary, vocabulary).eval()
    with torch.no_grad():
        model.output.weight.mul_(sharpness)
    return model


def tiny_tokenizers(lines: Sequence[str] = SENTENCES, vocab_size: int = 300, **settings: object) -> Tokenizers:
    """Return one tokenizer for both sides, trained on a few sentences."""
    chosen = TokenizerSettings.model_validate({"vocab_size": vocab_size, **settings})
    shared = Tokenizer.train(list(lines) * 20, chosen)
    return Tokenizers(shared, shared)


def tiny_loaded_model(tokenizers: Tokenizers | None = None, language: str = "it", **changes: object) -> LoadedModel:
    """Return a random model with its tokenizers; most of its outputs end before the length limit."""
    tokenizers = tokenizers or tiny_tokenizers()
    torch.manual_seed(4)
    shape = ModelSettings.model_validate({**TINY_SHAPE, "tied_embeddings": "none", **changes})
    model = Transformer(shape, len(tokenizers.source), len(tokenizers.target)).eval()
    with torch.no_grad():
        model.output.weight.mul_(4)
        model.output.weight[EOS] *= 3  # otherwise random models rarely predict the end
    languages, decode = Languages(source="en", target=language), DecodeSettings(beam=2, batch_tokens=512)
    return TorchModel(shape, tokenizers, languages, decode, longest_source=200, in_torch=model)


def native_engine(models: Sequence[Transformer], precision: Precision = "fp32", threads: int = 1) -> NativeEngine:
    """Return models laid out for the kernels in C++, on machines that have these."""
    found = []
    for model in models:
        weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
        if (native := laid_out(model.settings, weights, model.output.out_features, precision)) is not None:
            found.append(native)
    if len(found) < len(models):
        pytest.skip(f"there are no kernels for this model in {precision} here")
    runtime = RuntimeSettings(device="cpu", precision="fp32")
    return NativeEngine(found, lambda: TorchEngine.of_models(models, runtime), threads)


def save_model(directory: Path, loaded: LoadedModel) -> None:
    """Write a model directory in place of an earlier one of this name."""
    shutil.rmtree(directory, ignore_errors=True)
    with new_directory(directory) as staging:
        checkpoint.write_model(staging, loaded)


def snapshot(folder: Path) -> dict[str, object]:
    """Return the kind, mode, content and time of modification of everything below a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = ""
        if path.is_symlink():
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        # a folder's time changes when a temporary entry comes and goes
        time = 0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
        found[str(path.relative_to(folder))] = status.st_mode, content, time
    return found


def record_digests(directory: Path, **changes: object) -> None:
    """Record the digests of the changed files of a model directory, and change keys of its config.json."""
    file = directory / checkpoint.CONFIG_FILE
    content = json.loads(file.read_text(encoding="utf-8"))
    write_digested(file, checkpoint.FORMAT_VERSION, content | changes, [directory / name for name in content["files"]])


def rewrite_configuration(directory: Path, **changes: object) -> None:
    """Change keys of config.json, its list of files included, and record its own digest only; None removes a key."""
    file = directory / checkpoint.CONFIG_FILE
    content = {**json.loads(file.read_text(encoding="utf-8")), **changes, "sha256": None}
    content = {key: value for key, value in content.items() if value is not None}
    content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(content), encoding="utf-8")


def spelling_model(language: str = "it") -> LoadedModel:
    """Return a random model whose vocabulary has brackets, slashes and capitals as bytes only."""
    return tiny_loaded_model(tiny_tokenizers([SENTENCES[0], *SENTENCES[3:]], 288), language)


def options_with(
    translator: Translator, beam: int | None = None, n_best: int = 1, batch_tokens: int | None = None
) -> TranslateOptions:
    """Return a translator's options with some of them changed."""
    overrides = [] if batch_tokens is None else [f"decode.batch_tokens={batch_tokens}"]
    return translator.options(beam=beam, n_best=n_best, overrides=overrides)


def translated_texts(translator: Translator, lines: Sequence[str], **changes: int) -> list[str]:
    """Return the translations of lines as text; `changes` are those of `options_with`."""
    return [translation.text for translation in translator.translate(lines, options_with(translator, **changes))]


def translate_bytes(translator: Translator, data: bytes, as_json: bool = False, **changes: int) -> bytes:
    """Return what `nmt translate` writes for an input; `changes` are those of `options_with`."""
    return translated_stream(translator, data, options_with(translator, **changes), as_json)


def translated_stream(translator: Translator, data: bytes, options: TranslateOptions, as_json: bool = False) -> bytes:
    """Return what `nmt translate` writes for an input with the given options."""
    output, quiet = io.BytesIO(), Console(quiet=True)
    translate_stream(
        translator, LineInput(io.BytesIO(data), translator.batch_lines), StreamOutput(output), options, as_json, quiet
    )
    return output.getvalue()


def tiny_recipe(run: Path = Path("run"), dropout: float = 0.0, **train: object) -> Recipe:
    """Return a recipe in memory for a model of width 8; keywords are keys of its section `train`."""
    return Recipe(
        languages=Languages(source="en", target="it"),
        data=Data(train=(CorpusFile(file=Path("/text/train.tsv")),)),
        model=ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=16, dropout=dropout),
        train=TrainSettings.model_validate({"schedule": {"name": "constant", "rate": 0.01}, **train}),
        run=run,
    )


def write_recipe(folder: Path, **sections: object) -> Path:
    """Write recipe.yaml with these sections and return its path; without `data` it names train.tsv."""
    content = {
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"file": "train.tsv"}]},
        "run": "run",
        **sections,
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def recipe_in(folder: Path, *overrides: str) -> Recipe:
    """Return the recipe of `recipe.yaml` in a folder, with overrides of the form `section.key=value`."""
    return load_recipe(folder / "recipe.yaml", overrides)


def reversal_pairs(count: int, seed: int, longest: int = 6) -> list[tuple[str, str]]:
    """Return sentences of ten words with their translations: word for word, in reversed order."""
    choose = random.Random(seed)
    numbers = [choose.choices(range(10), k=choose.randint(2, longest)) for _ in range(count)]
    return [
        (" ".join(SOURCE_WORDS[n] for n in sentence), " ".join(TARGET_WORDS[n] for n in reversed(sentence)))
        for sentence in numbers
    ]


def write_reversal_task(
    folder: Path, training: int = 200, held_out: int = 6, changes: Mapping[str, Any] | None = None
) -> Path:
    """Write train.tsv, valid.tsv, test.tsv and recipe.yaml of the reversal task; returns the recipe's path.

    `changes` replaces whole sections of the recipe. Twelve updates of a tiny model, in about a second.
    """
    for number, (name, count) in enumerate((("train", training), ("valid", held_out), ("test", held_out)), start=1):
        write_tsv(folder / f"{name}.tsv", reversal_pairs(count, number))
    content: dict[str, Any] = {
        "data": {"train": [{"file": "train.tsv"}], "valid": {"file": "valid.tsv"}},
        "tokenizer": {"vocab_size": 336, "type": "bpe"},
        "model": {**TINY_SHAPE, "dropout": 0.1},
        "train": {
            "batch_tokens": 64,
            "schedule": {"name": "constant", "rate": 0.003},
            "stop": {"steps": 12},
            "validate_every": 4,
            "log_every": 3,
        },
        "runtime": {"device": "cpu", "precision": "fp32", "threads": 1},
        "prepared": "prepared",
    }
    return write_recipe(folder, **{**content, **(changes or {})})


def padded(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return token ids (B, S) and their mask (B, S), True where a token stands."""
    longest = max(map(len, sentences))
    ids = torch.tensor([[*sentence, *[PAD] * (longest - len(sentence))] for sentence in sentences])
    return ids, ids != PAD


def batch_of(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Return a batch of one length group from token ids without special symbols."""
    source, target = (Sentences.of(side) for side in zip(*pairs, strict=True))
    return assemble([(source, target)])


@torch.no_grad()
def log_probs_without_cache(model: Transformer, source: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """Return log p(next token) after each prefix of `<s>` + tokens, (T+1, V), by teacher forcing."""
    return model(torch.tensor([source]), None, torch.tensor([[BOS, *tokens]]))[0].log_softmax(-1)
