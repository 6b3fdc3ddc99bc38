"""`nmt export`: write a model in the format of CTranslate2 or of Hugging Face's transformers.

The exported model must translate as the original does before the output directory gets its name.
"""

from pathlib import Path
from typing import Literal

import torch

from nmt.config import RuntimeSettings
from nmt.errors import ConfigError
from nmt.export.ctranslate2 import write_ctranslate2
from nmt.export.ctranslate2_engine import CTranslate2Engine
from nmt.export.exported import is_export, read_export
from nmt.export.hugging_face import HuggingFaceEngine, write_hugging_face
from nmt.export.parity import EXACT, LINES, ROUNDED, Parity, Search, check_parity
from nmt.model.checkpoint import load_model, resolve_model
from nmt.system.console import Console
from nmt.system.files import new_directory
from nmt.text.readers.opening import read_lines

Format = Literal["ctranslate2", "hf"]
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")


def export(model: Path, output: Path, to: Format, quantization: str, lines: Path | None, console: Console) -> Parity:
    """Export a model or the best checkpoint of a run, compared on the lines of a file or on a few built-in ones.

    Raises ConfigError if the format does not support the model, ModelError if the exported model translates
    differently; then nothing is written.
    """
    if is_export(model):
        raise ConfigError(f"{model}: is an exported model; give the original model")
    if quantization not in QUANTIZATIONS:
        raise ConfigError(f"--quantization: found {quantization}, expected {', '.join(QUANTIZATIONS)}")
    if to == "hf" and quantization != "float32":
        raise ConfigError(
            f"--quantization: found {quantization}, but --to hf writes float32 only; transformers can convert it"
        )
    with new_directory(output) as staging:
        compared = LINES if lines is None else list(read_lines(lines))
        loaded = load_model(resolve_model(model), torch.device("cpu"))
        search: Search
        if to == "hf":
            write_hugging_face(staging, loaded)
            engine = HuggingFaceEngine(staging)
            engine.check_tokenizer(loaded.tokenizers, loaded.languages, compared)
            search = engine.search
        else:
            write_ctranslate2(staging, loaded, quantization)
            search = CTranslate2Engine(staging, read_export(staging), RuntimeSettings(device="cpu")).search
        parity = check_parity(loaded, search, compared, EXACT if quantization == "float32" else ROUNDED)
    console.info(f"exported {model} to {output}; {parity}")
    return parity
