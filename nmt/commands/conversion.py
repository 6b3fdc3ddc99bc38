"""`nmt export` and `nmt import`: models for CTranslate2 and Hugging Face transformers, and from Marian."""

from functools import partial
from pathlib import Path
from typing import Literal

import torch

from nmt.errors import ConfigError
from nmt.formats.check import EXACT, LINES, ROUNDED, compare_exported
from nmt.formats.ctranslate2 import score_ctranslate2, write_ctranslate2
from nmt.formats.hugging_face import check_tokenizer, score_hugging_face, write_hugging_face
from nmt.formats.marian import import_model as read_marian
from nmt.model.checkpoint import load_model, write_model
from nmt.model.stored import resolve_model
from nmt.system.console import Console, counted
from nmt.system.files import new_directory
from nmt.text.readers.opening import read_lines

Format = Literal["ctranslate2", "hf"]
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")


def export(
    model: Path, output: Path, to: Format, quantization: str, lines: Path | None, console: Console
) -> tuple[int, float]:
    """Export a model or the best checkpoint of a run, compared on the lines of a file or on a few built-in ones.

    Returns what `compare_exported` does. Raises ConfigError if the format does not support the model, ModelError if the
    exported model computes something else; then nothing is written: the directory gets its name only after this check.
    """
    if quantization not in QUANTIZATIONS:
        raise ConfigError(f"--quantization: found {quantization}, expected {', '.join(QUANTIZATIONS)}")
    if to == "hf" and quantization != "float32":
        raise ConfigError(
            f"--quantization: found {quantization}, but --to hf writes float32 only; transformers can convert it"
        )
    with new_directory(output) as staging:
        compared = LINES if lines is None else list(read_lines(lines))
        loaded = load_model(resolve_model(model), torch.device("cpu"))
        if to == "hf":
            write_hugging_face(staging, loaded)
            check_tokenizer(staging, loaded, compared)
            score = partial(score_hugging_face, staging)
        else:
            write_ctranslate2(staging, loaded, quantization)
            score = partial(score_ctranslate2, staging, loaded)
        allowed = EXACT if quantization == "float32" else ROUNDED
        count, difference = compare_exported(loaded, score, compared, allowed)
    console.info(
        f"exported {model} to {output}; on {counted(count, 'line')} its log-probabilities differ by at most "
        f"{difference:.1e} a token"
    )
    return count, difference


def import_model(path: Path, output: Path, languages: str | None, console: Console) -> None:
    """Write a model directory that computes what a Marian model does. Raises as `nmt.formats.marian.import_model`."""
    with new_directory(output) as staging:
        with console.status("reading the model"):
            loaded = read_marian(path, languages)
        write_model(staging, loaded)
    settings = loaded.model.settings
    console.info(
        f"imported {path} into {output}: {loaded.languages.names}, {settings.encoder_layers}+{settings.decoder_layers} "
        f"layers, dim {settings.dim}, {len(loaded.tokenizers.target):,} pieces"
    )
