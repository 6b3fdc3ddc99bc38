"""Translation speed of `nmt translate` in target tokens per second, relative to CTranslate2 with the same weights.

    python benchmarks/decoding_speed.py MODEL TEXT… [--reference FILE…] [--rounds 5] [--threads 1] [--beam 1 4]
        [--precision fp32 int8] [--ctranslate2-batches 1] [--set decode.KEY=VALUE…]

MODEL is a run or a model directory; it is exported to a temporary directory in float32 and int8. nmt translates in each
`--precision` of fp32, int8 and bf16, in threads; ratios and equal lines refer to the first one. All engines translate
each TEXT in turn, A B A B, in one process, after a first round that is not counted. The measured time is from lines to
lines: tokenization, search, detokenization; start and loading are excluded. Target tokens are those of the
translations with `</s>`. The reported speed is the median of the rounds. CTranslate2 translates `--ctranslate2-batches`
batches in parallel; without the option one per thread, which is its faster mode for files (its own default is 1, where
all threads compute one batch).
Prints a table and one JSON line.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as nmt translate does

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.options import SearchOptions
from nmt.evaluation.metrics import measure
from nmt.formats.ctranslate2 import write_ctranslate2
from nmt.kernels.device import set_threads
from nmt.kernels.machine import reuse_freed_ram
from nmt.model.checkpoint import load_model
from nmt.model.stored import LoadedModel, resolve_model
from nmt.text.languages import target_language
from nmt.text.normalize import normalize
from nmt.text.readers.opening import read_lines
from nmt.text.tokenizer import EOS
from nmt.translation.options import TranslateOptions
from nmt.translation.translator import Translator

CPU = torch.device("cpu")
Engine = Callable[[list[str], TranslateOptions], list[str]]


def main() -> None:
    """Measure all engines in turn; print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--reference", type=Path, action="append", default=[], help="one for each TEXT, in order")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ctranslate2-batches", type=int, help="at a time; as many as there are threads if not given")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"], choices=["fp32", "int8", "bf16"])
    parser.add_argument("--set", action="append", default=[], help="as nmt translate has it, for all engines")
    chosen = parser.parse_args()
    if chosen.reference and len(chosen.reference) != len(chosen.texts):
        parser.error("--reference: give one for each TEXT, or none")
    loaded = load_model(resolve_model(chosen.model), CPU)
    texts = [list(read_lines(text)) for text in chosen.texts]
    engines = engines_of(chosen, loaded)
    settings = Translator(loaded)
    gc.freeze()  # as nmt translate does
    results = []
    for place, (text, lines) in enumerate(zip(chosen.texts, texts, strict=True)):
        reference = list(read_lines(chosen.reference[place])) if chosen.reference else None
        for beam in chosen.beam:
            # CTranslate2 has neither constraints nor typography
            overrides = ["decode.protect=false", "decode.typography=false", *chosen.set]
            options = settings.options(beam=beam, overrides=overrides)
            # as nmt translate does for plain text, and CTranslate2 by default
            options = replace(options, search=options.search.model_copy(update={"log_probs": False}))
            figures, outputs = measure_engines(engines, lines, options, chosen.rounds, loaded)
            bleu = quality(outputs, reference, options.to)
            results += rows({"text": text.name, "beam": beam}, figures, outputs, bleu)
    report(results, chosen)


def engines_of(chosen: argparse.Namespace, loaded: LoadedModel) -> dict[str, Engine]:
    """Return the engines by name; each translator of nmt has a separate model, CTranslate2 a copy."""
    import ctranslate2

    threads, batches = chosen.threads, chosen.ctranslate2_batches or chosen.threads
    runtime = RuntimeSettings(device="cpu", threads=threads)
    reuse_freed_ram()
    found: dict[str, Engine] = {}
    for precision in chosen.precision:
        settings = runtime.model_copy(update={"precision": precision})
        model = load_model(resolve_model(chosen.model), CPU)
        translator = Translator(model, settings)
        found[f"nmt {precision}"] = partial(with_nmt, translator, settings)
    for quantization in ("float32", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            write_ctranslate2(Path(folder), loaded, quantization)
            program = ctranslate2.Translator(folder, inter_threads=batches, intra_threads=threads // batches)
        found[f"CTranslate2 {quantization}"] = partial(with_ctranslate2, program, loaded)
    return found


def with_nmt(
    translator: Translator, settings: RuntimeSettings, lines: list[str], options: TranslateOptions
) -> list[str]:
    """Return the translations by nmt, with the threads of the settings: CTranslate2 changes their number."""
    set_threads(settings)
    return [found.text for found in translator.translate(lines, options)]


def with_ctranslate2(program: Any, loaded: LoadedModel, lines: list[str], options: TranslateOptions) -> list[str]:
    """Return the translations by CTranslate2: normalized, in batches of at most `batch_tokens` source tokens."""
    search: SearchOptions = options.search
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    source_names, target_names = source.symbols, target.symbols
    texts = list(dict.fromkeys(map(normalize, lines)))
    pieces = [[source_names[i] for i in source.encode(text)] for text in texts]
    found = program.translate_batch(
        pieces,
        max_batch_size=max(1, search.batch_tokens // search.beam),
        batch_type="tokens",
        beam_size=search.beam,
        length_penalty=search.length_penalty,
        max_decoding_length=search.longest_output(max(map(len, pieces)) + 1),
        max_input_length=0,
        suppress_sequences=[[name] for name in target_names[:EOS]],  # padding, `<unk>`, `<s>`
    )
    ids = {symbol: i for i, symbol in enumerate(target_names)}
    decoded = [target.decode([ids[piece] for piece in one.hypotheses[0]]) for one in found]
    translations = dict(zip(texts, decoded, strict=True))
    return [normalize(translations[normalize(line)]) for line in lines]


def measure_engines(
    engines: dict[str, Engine], lines: list[str], options: TranslateOptions, rounds: int, loaded: LoadedModel
) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Return the target tokens per second of each engine in each round, and its output."""
    figures: dict[str, list[float]] = {name: [] for name in engines}
    outputs: dict[str, list[str]] = {}
    for number in range(rounds + 1):  # the first round is a warm-up
        for name, translate in engines.items():
            started = time.perf_counter()
            output = translate(lines, options)
            seconds = time.perf_counter() - started
            if number:
                tokens = sum(len(loaded.tokenizers.target.encode(text)) + 1 for text in output if text)
                figures[name].append(tokens / seconds)
                outputs[name] = output
                print(f"round {number}, {name}: {tokens / seconds:,.0f} target tokens/s", file=sys.stderr)
    return figures, outputs


def quality(outputs: dict[str, list[str]], reference: list[str] | None, code: str) -> dict[str, float | None]:
    """Return the BLEU of each engine's output in a language, None without a reference."""
    if reference is None:
        return dict.fromkeys(outputs)
    language = target_language(code)
    return {name: measure("bleu", output, [reference], language).score().value for name, output in outputs.items()}


def rows(
    what: dict[str, object],
    figures: dict[str, list[float]],
    outputs: dict[str, list[str]],
    bleu: dict[str, float | None],
) -> list[dict[str, Any]]:
    """Return one row per engine: its median speed, and the share of lines that equal the output of the first."""
    first = next(iter(outputs))
    return [
        {
            **what,
            "engine": name,
            "target_tokens_per_s": statistics.median(rounds),
            "of_first": statistics.median(rounds) / statistics.median(figures[first]),
            "rounds": [round(figure) for figure in rounds],
            "same_lines": sum(a == b for a, b in zip(outputs[first], outputs[name], strict=True)) / len(outputs[first]),
            "bleu": bleu[name],
        }
        for name, rounds in figures.items()
    ]


def report(results: list[dict[str, Any]], chosen: argparse.Namespace) -> None:
    """Print the rows as a Markdown table and as a JSON line."""
    print("| text | beam | engine | target tokens/s, median | × first | rounds | same lines | BLEU |")
    print("|---|--:|---|--:|--:|---|--:|--:|")
    for row in results:
        rounds = ", ".join(f"{figure:,}" for figure in row["rounds"])
        bleu = "" if row["bleu"] is None else f"{row['bleu']:.2f}"
        print(
            f"| {row['text']} | {row['beam']} | {row['engine']} | {row['target_tokens_per_s']:,.0f} "
            f"| {row['of_first']:.2f} | {rounds} | {row['same_lines']:.1%} | {bleu} |"
        )
    print(json.dumps({**vars(chosen), "results": results}, default=str))


if __name__ == "__main__":
    main()
