"""Check and measure nmt on one GPU, in at most ten minutes.

    python benchmarks/gpu.py [--device cuda] [--shape base] [--tokens 25000] [--tiny]

Correctness: the losses, gradient norms and translations of five model variants, in fp32 and bf16, against those of the
CPU; a resumed training against an uninterrupted one; the error for a batch that does not fit into memory.
Speed: milliseconds of an update and of the host's part in it, kernels an update, calls that wait for the device, target
tokens per second, the share of the measured and of the nominal rate of bf16 matrix products (model FLOP utilization,
without attention scores), and tokens per second of greedy and beam search. The sentences are random numbers, with
lengths spread around 25 tokens.

Prints a table and one JSON line. The exit code is 1 if a check fails. `--device cpu --tiny` takes seconds: it tests
this script, not a GPU.
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from nmt.batching.batch import Batch, Group
from nmt.commands.train import train
from nmt.config import CorpusFile, Data, Languages, ModelSettings, Recipe, RuntimeSettings, TrainSettings, load_recipe
from nmt.decoding.engine import TorchEngine, search
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError
from nmt.model.checkpoint import read_tensors
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.system.device import choose_device
from nmt.text.tokenizer import BOS, EOS
from nmt.training.cost import matrix_rate, operations
from nmt.training.update import Update, Updater

SHAPES = {
    "tiny": {"dim": 32, "feed_forward": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 2},
    "base": {"dim": 512, "feed_forward": 2048, "heads": 8},
    "big": {"dim": 1024, "feed_forward": 4096, "heads": 16},
}
VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "post", "tied_embeddings": "none"},
    {"positions": "relative"},
    {"positions": "rotary", "activation": "swiglu"},
]
LARGEST_DIFFERENCE = {"fp32": 1e-4, "bf16": 3e-2}
"""Relative difference of losses and gradient norms after three updates: rounding, amplified by Adam."""
NOMINAL_TERAFLOPS = {"B200": 2250, "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
"""Dense bf16 products by NVIDIA's data sheets, by a part of the name of the device; the longer parts come first."""
MEAN_LENGTH = 25
DEMO = Path(__file__).parents[1] / "data" / "demo" / "train.tsv"


@dataclass(frozen=True)
class Setup:
    """What is measured, and on what."""

    device: torch.device
    shape: dict[str, int]
    tokens: int
    vocabulary: int
    updates: int
    decode_tokens: tuple[int, ...]
    sentences: int


@dataclass(frozen=True)
class Row:
    """A line of the table; `passed` is None for a measurement without a limit."""

    name: str
    value: object
    passed: bool | None = None


def main() -> int:
    """Run all checks and measurements; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--shape", default="base", choices=SHAPES)
    parser.add_argument("--tokens", type=int, default=25_000, help="target tokens of a batch")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to test this script")
    chosen = parser.parse_args()
    device = choose_device(RuntimeSettings.model_validate({"device": chosen.device}))
    if chosen.tiny:
        setup = Setup(device, SHAPES["tiny"], 600, 120, 4, (2_048,), 20)
    else:
        setup = Setup(device, SHAPES[chosen.shape], chosen.tokens, 32_000, 40, (8_192, 32_768, 131_072), 2_048)
    rows: list[Row] = []
    for measure in (machine, parity, resuming, out_of_memory, training_speed, decoding_speed):
        started = time.perf_counter()
        for row in measure(setup):
            rows.append(row)
            print(f"{row.name:<58} {row.value!s:<28} {verdict(row)}", flush=True)
        print(f"  {measure.__name__}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps({row.name: row.value for row in rows}))
    return int(any(row.passed is False for row in rows))


def verdict(row: Row) -> str:
    """Return the last column of a row."""
    return "" if row.passed is None else "ok" if row.passed else "FAILED"


def machine(setup: Setup) -> list[Row]:
    """Return the versions and the rate of bf16 matrix products."""
    name = torch.cuda.get_device_name(setup.device) if setup.device.type == "cuda" else "CPU"
    return [
        Row("machine", f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}"),
        Row("bf16 matrix products, TFLOP/s", round(product_rate(setup) / 1e12, 1)),
    ]


def product_rate(setup: Setup) -> float:
    """Return the operations per second of a large bf16 product."""
    return matrix_rate(setup.device, RuntimeSettings(precision="bf16"))


def parity(setup: Setup) -> list[Row]:
    """Compare three updates and the translations of each variant with those of the CPU in fp32."""
    small = Setup(torch.device("cpu"), SHAPES["tiny"], 600, 120, 3, (), 0)
    rows = []
    for changes in VARIANTS:
        label = ", ".join(map(str, changes.values())) or "default"
        for precision, limit in LARGEST_DIFFERENCE.items():
            here = updater(small, RuntimeSettings(precision="fp32"), dropout=0.0, **changes)
            runtime = RuntimeSettings.model_validate({"precision": precision})
            there = updater(replace(small, device=setup.device), runtime, dropout=0.0, **changes)
            difference = 0.0
            for step, batch in enumerate(random_batches(small), start=1):
                ours, theirs = (one.update([batch], step, batch.target_tokens).results() for one in (there, here))
                difference = max(difference, *(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True)))
            rows.append(Row(f"parity {label}, {precision}: difference", f"{difference:.1e}", difference < limit))
            if precision == "fp32":
                there.model.load_state_dict(here.model.state_dict())
                same = same_translations(there.model, here.model, random_batches(small)[0])
                rows.append(Row(f"parity {label}: same translations", f"{same:.0%}", same >= 0.95))
    return rows


def same_translations(ours: Transformer, theirs: Transformer, batch: Batch) -> float:
    """Return the share of equal translations by two models, greedy and with a beam of 4; near ties may differ."""
    outputs = []
    for model in (ours.eval(), theirs.eval()):
        group = batch.to(model.device).groups[0]
        hypotheses = [
            best[0].tokens
            for beam in (1, 4)
            for best in search(model, group.source, group.source_mask, search_options(beam))
        ]
        outputs.append(hypotheses)
    return statistics.mean(a == b for a, b in zip(*outputs, strict=True))


def write_training(setup: Setup, folder: str) -> tuple[Path, int]:
    """Write a recipe that trains on the demonstration pairs; return its path and half the number of its steps."""
    lines, half = (300, 4) if setup.tokens < 1000 else (5_000, 30)
    text = DEMO.read_text(encoding="utf-8").split("\n")[:lines]
    Path(folder, "train.tsv").write_text("".join(line + "\n" for line in text), encoding="utf-8")
    content = {
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"file": "train.tsv"}]},
        "tokenizer": {"vocab_size": 400},
        "model": SHAPES["tiny"],
        "train": {"batch_tokens": 1024, "schedule": {"name": "constant", "rate": 1e-3}, "stop": {"steps": 2 * half}},
        "runtime": {"device": setup.device.type, "deterministic": True},
        "prepared": "prepared",
        "run": "whole",
    }
    recipe = Path(folder, "recipe.yaml")
    recipe.write_text(json.dumps(content), encoding="utf-8")
    return recipe, half


def resuming(setup: Setup) -> list[Row]:
    """Compare a training that is stopped and resumed with one that is not, with `runtime.deterministic`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # where training links the latest run
        recipe, half = write_training(setup, folder)
        for overrides in ([], ["run=parts", f"train.stop.steps={half}"], ["run=parts"]):
            train(load_recipe(recipe, overrides), Console(quiet=True))
        whole, parts = (read_tensors(Path(run, "last", "model.safetensors")) for run in ("whole", "parts"))
    difference = max(float((whole[name] - parts[name]).abs().max()) for name in whole)
    return [Row("resumed training: largest difference of a weight", difference, difference == 0)]


def out_of_memory(setup: Setup) -> list[Row]:
    """Give a training too little memory: the error must name a size of batch that fits."""
    row = "batch that does not fit: the error names"
    if setup.device.type != "cuda":
        return [Row(row, "measured on CUDA only")]
    large = ["train.batch_tokens=100000", "train.stop.steps=1"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        recipe, _ = write_training(setup, folder)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(setup.device)
        train(load_recipe(recipe, large), Console(quiet=True))
        needed = torch.cuda.max_memory_reserved(setup.device)
        torch.cuda.empty_cache()
        fraction = 0.6 * needed / torch.cuda.get_device_properties(setup.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, fraction), setup.device)
        try:
            train(load_recipe(recipe, [*large, "run=little"]), Console(quiet=True))
            message = ""
        except ConfigError as error:
            message = str(error)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, setup.device)
    found = re.search(r"but ([\d,]+) fit", message)
    return [Row(row, found[1] if found else message, found is not None)]


def training_speed(setup: Setup) -> list[Row]:
    """Measure updates of batches whose shapes were seen before, as in every epoch after the first."""
    trained = updater(setup, RuntimeSettings())
    batches = [batch.pinned() if setup.device.type == "cuda" else batch for batch in random_batches(setup)]
    run_updates(trained, batches)
    seconds, host = run_updates(trained, batches)
    source, target = (sum(getattr(batch, f"{side}_tokens") for batch in batches) for side in ("source", "target"))
    waiting = waits(trained, batches[:2])
    rate, nominal = product_rate(setup), nominal_rate(setup.device)
    vocabulary = trained.model.output.weight.size(0)
    share = operations(trained.model.settings, vocabulary, source, target) / seconds / rate
    return [
        Row("update, ms", round(seconds / len(batches) * 1e3, 1)),
        Row("of it the host's part, ms", round(host * 1e3, 1)),
        Row("kernels an update", kernels_an_update(trained, batches[-3:])),
        Row("calls in an update that wait for the device", ", ".join(waiting) or "none", not waiting),
        Row("target tokens/s", round(target / seconds)),
        Row("share of the measured rate of bf16 matrix products", f"{share:.1%}"),
        Row("share of the nominal rate of this GPU", None if nominal is None else f"{share * rate / nominal:.1%}"),
    ]


def nominal_rate(device: torch.device) -> float | None:
    """Return the operations a second of dense bf16 products by the data sheet, None for a device not listed."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((1e12 * rate for model, rate in NOMINAL_TERAFLOPS.items() if model in name), None)


def run_updates(trained: Updater, batches: list[Batch]) -> tuple[float, float]:
    """Make an update of each batch, reading results a step late; return all seconds and the median of the host's."""
    synchronize(trained.device)
    started, host = time.perf_counter(), []
    pending: Update | None = None
    for step, batch in enumerate(batches, start=1):
        before = time.perf_counter()
        update = trained.update([batch], step, batch.target_tokens)
        host.append(time.perf_counter() - before)
        if pending is not None:
            pending.results()
        pending = update
    synchronize(trained.device)
    return time.perf_counter() - started, statistics.median(host)


def kernels_an_update(trained: Updater, batches: list[Batch]) -> int | None:
    """Return the number of kernels that an update launches on a GPU."""
    if trained.device.type != "cuda":
        return None
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        run_updates(trained, batches)
    events = recorded.events() or []
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in events) // len(batches)


def waits(trained: Updater, batches: list[Batch]) -> list[str]:
    """Return the places in the code where the host waits for the device between dispatching two updates."""
    if trained.device.type != "cuda":
        return []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            updates = [trained.update([batch], n, batch.target_tokens) for n, batch in enumerate(batches, start=1)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
    updates[-1].results()
    return sorted({f"{Path(one.filename).name}:{one.lineno}" for one in caught if "synchron" in str(one.message)})


def decoding_speed(setup: Setup) -> list[Row]:
    """Measure the search."""
    model = updater(setup, RuntimeSettings()).model
    engine = TorchEngine([model], RuntimeSettings.model_validate({"device": setup.device.type}))
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(5, setup.vocabulary, (length,), generator=generator).tolist()
                 for length in random_lengths(setup.sentences, generator)]  # fmt: skip
    rows = []
    for beam in (1, 5):
        for budget in setup.decode_tokens:
            options = search_options(beam, batch_tokens=budget)
            engine.search(sentences[:64], options)
            synchronize(setup.device)
            started = time.perf_counter()
            found = engine.search(sentences, options)
            seconds = time.perf_counter() - started
            tokens = sum(len(best[0].tokens) + 1 for best in found)
            rows.append(Row(f"beam {beam}, batches of {budget:,} tokens: target tokens/s", round(tokens / seconds)))
    return rows


def search_options(beam: int, **values: int) -> SearchOptions:
    """Return options for outputs at most as long as their source: random weights rarely end a sentence."""
    return SearchOptions.model_validate({"beam": beam, "max_length": {"factor": 1.0, "extra": 1}, **values})


def updater(setup: Setup, runtime: RuntimeSettings, dropout: float = 0.1, **changes: object) -> Updater:
    """Return a new model with its optimizer; the weights depend on nothing but the settings."""
    recipe = Recipe(
        languages=Languages(source="en", target="it"),
        data=Data(train=(CorpusFile(file=DEMO),)),
        model=ModelSettings.model_validate({**setup.shape, "dropout": dropout, **changes}),
        train=TrainSettings.model_validate(
            {"schedule": {"name": "constant", "rate": 1e-4}, "batch_tokens": setup.tokens}
        ),
        runtime=runtime,
        run=Path("run"),
    )
    torch.manual_seed(1)
    return Updater(Transformer(recipe.model, setup.vocabulary, setup.vocabulary), recipe, setup.device)


def random_batches(setup: Setup) -> list[Batch]:
    """Return a batch for each update: four length groups each, whose targets have one length and sources several."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(setup.updates):
        groups, source_tokens, target_tokens = [], 0, 0
        for length in random_lengths(4, generator):
            count = max(2, setup.tokens // 4 // length)
            lengths = (length * (0.8 + 0.4 * torch.rand(count, generator=generator))).long().clamp(2)
            mask = torch.arange(int(lengths.max())) < lengths[:, None]
            source = torch.randint(5, setup.vocabulary, mask.shape, generator=generator) * mask
            target = torch.randint(5, setup.vocabulary, (count, length), generator=generator)
            target[:, -1] = EOS
            entered = torch.cat([torch.full((count, 1), BOS), target[:, :-1]], dim=1)
            groups.append(Group(source, entered, target, None if mask.all() else mask))
            source_tokens += int(lengths.sum())
            target_tokens += target.numel()
        batches.append(Batch(tuple(groups), source_tokens, target_tokens))
    return batches


def random_lengths(count: int, generator: torch.Generator) -> list[int]:
    """Return sentence lengths between 0.4 and 1.6 times the mean."""
    shares = 0.4 + 1.2 * torch.rand(count, generator=generator)
    return [max(3, int(MEAN_LENGTH * share)) for share in shares.tolist()]


def synchronize(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
