"""Check and measure nmt on one GPU, in as many minutes as it is given.

    python benchmarks/gpu.py [--minutes 15] [--only NAME]... [--device cuda] [--tiny]

In this order, as long as the time suffices:

parity         losses, gradient norms and translations of model variants, in fp32 and bf16, against those of the CPU
recordings     searches in another thread, and after those of another engine were released
resuming       a resumed training against an uninterrupted one
out_of_memory  the error for a batch that does not fit into memory
updates        milliseconds of an update and of the host's part in it, kernels an update, calls that wait for the GPU,
               target tokens a second, and the share of the measured and of the nominal rate of bf16 matrix products
               (model FLOP utilization, without attention scores); sentences are random numbers
searches       tokens a second of greedy and beam search
training       recipes/tatoeba-en-it.yaml to its end: target tokens a second, minutes and test BLEU

Prints a table and one JSON line. The exit code is 1 if a check fails. `--device cpu --tiny` takes seconds: it tests
this script, not a GPU.
"""

import argparse
import contextlib
import gc
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from nmt.batching.batch import Batch, Sizes, assemble
from nmt.commands.train import train
from nmt.config import CorpusFile, Data, Languages, ModelSettings, Recipe, RuntimeSettings, TrainSettings, load_recipe
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError
from nmt.kernels.device import choose_device, kernels_for
from nmt.kernels.machine import collect_garbage_rarely
from nmt.model.checkpoint import load_model, read_tensors
from nmt.model.stored import resolve_model
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.prepared import Sentences, offsets_of
from nmt.text.proposal import operations
from nmt.training.trial import matrix_rate
from nmt.training.update import Update, Updater

TINY = {"dim": 32, "feed_forward": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 2}
BASE = {"dim": 512, "feed_forward": 2048, "heads": 8}
BIG = {"dim": 1024, "feed_forward": 4096, "heads": 16}
VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "post", "tied_embeddings": "none"},
    {"positions": "relative"},
    {"positions": "rotary", "activation": "swiglu"},
    {"activation": "gelu", "heads": 2},
]
# Relative difference of losses and gradient norms after three updates: rounding, amplified by Adam.
LARGEST_DIFFERENCE = {"fp32": 1e-4, "bf16": 3e-2}
# Dense bf16 products by NVIDIA's data sheets, by a part of the name of the device; the longer parts come first.
NOMINAL_TERAFLOPS = {"B200": 2250, "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
ROOT = Path(__file__).parents[1]
DEMO = ROOT / "data" / "demo" / "train.tsv"
MILLION = 1_000_000
TATOEBA = ROOT / "recipes" / "tatoeba-en-it.yaml"


@dataclass(frozen=True)
class Setup:
    """What is measured, and on what."""

    device: torch.device
    name: str = "tiny"
    model: dict[str, object] | None = None
    tokens: int = 600
    vocabulary: int = 120
    mean_length: int = 9
    updates: int = 4

    @property
    def shape(self) -> dict[str, object]:
        """The settings of the model."""
        return self.model or dict(TINY)


@dataclass(frozen=True)
class Row:
    """A line of the table; `passed` is None for a measurement without a limit."""

    name: str
    value: object
    passed: bool | None = None


def trainings(setup: Setup) -> list[Setup]:
    """Return what updates are measured of: the shapes of the literature, and that of a recipe."""
    if setup.device.type == "cpu":
        return [setup]
    as_recipe = {**BASE, "positions": "rotary", "dropout": 0.2}
    return [
        replace(setup, name="base", model=dict(BASE), tokens=25_000, vocabulary=32_000, mean_length=25, updates=60),
        replace(setup, name="tatoeba-en-it.yaml", model=as_recipe, tokens=8_192, vocabulary=8_000, updates=160),
        replace(setup, name="base, short", model=dict(BASE), tokens=25_000, vocabulary=8_000, updates=60),
        replace(setup, name="big", model=dict(BIG), tokens=25_000, vocabulary=32_000, mean_length=25, updates=40),
    ]


def main() -> int:
    """Run all checks and measurements; return the exit code."""
    sections = {
        "parity": (parity, 60),
        "recordings": (recordings, 45),
        "resuming": (resuming, 45),
        "out_of_memory": (out_of_memory, 30),
        "updates": (updates, 90),
        "searches": (searches, 60),
        "training": (training, 240),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15, help="begin nothing that would take longer")
    parser.add_argument("--only", action="append", choices=list(sections), help="this part, and others named so")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="small sizes, to test this script")
    chosen = parser.parse_args()
    device = choose_device(RuntimeSettings.model_validate({"device": chosen.device}))
    setup, rows, begin = Setup(device), list[Row](), time.perf_counter()
    for name, (measure, seconds) in {"machine": (machine, 0), **sections}.items():
        if name != "machine" and chosen.only and name not in chosen.only:
            continue
        started = time.perf_counter()
        if not chosen.tiny and started - begin + seconds > 60 * chosen.minutes:
            print(f"  {name}: not measured, it takes about {seconds} s", file=sys.stderr, flush=True)
            continue
        for row in measure(setup):
            rows.append(row)
            print(f"{row.name:<66} {row.value!s:<28} {verdict(row)}", flush=True)
        print(f"  {name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps({row.name: row.value for row in rows}))
    return int(any(row.passed is False for row in rows))


def verdict(row: Row) -> str:
    """Return the last column of a row."""
    return "" if row.passed is None else "ok" if row.passed else "FAILED"


def machine(setup: Setup) -> Iterator[Row]:
    """Return the versions and the rate of bf16 matrix products."""
    name = torch.cuda.get_device_name(setup.device) if setup.device.type == "cuda" else "CPU"
    yield Row("machine", f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    yield Row("bf16 matrix products, TFLOP/s", round(product_rate(setup.device) / 1e12, 1))
    if setup.device.type == "cuda":
        yield Row("kernels", kernels_for(setup.device).problem or "Triton", kernels_for(setup.device).problem is None)


def product_rate(device: torch.device) -> float:
    """Return the operations per second of a large bf16 product."""
    return matrix_rate(kernels_for(device, "bf16"))


def parity(setup: Setup) -> Iterator[Row]:
    """Compare three updates and the translations of each variant with those of the CPU in fp32."""
    small = Setup(torch.device("cpu"), updates=3)
    for changes in VARIANTS:
        label = ", ".join(map(str, changes.values())) or "default"
        for precision, limit in LARGEST_DIFFERENCE.items():
            here = updater(small, RuntimeSettings(precision="fp32"), dropout=0.0, **changes)
            runtime = RuntimeSettings.model_validate({"precision": precision})
            there = updater(replace(small, device=setup.device), runtime, dropout=0.0, **changes)
            difference = 0.0
            batches = zip(random_batches(small, there.kernels.sizes), random_batches(small), strict=True)
            for step, pair in enumerate(batches, start=1):
                theirs, ours = (
                    each.update([batch], step, batch.target_tokens).results()
                    for each, batch in zip((there, here), pair, strict=True)
                )
                difference = max(difference, *(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True)))
            yield Row(f"parity {label}, {precision}: difference", f"{difference:.1e}", difference < limit)
            if precision == "fp32":
                there.model.load_state_dict(here.model.state_dict())
                same = same_translations(there.model, here.model, random_batches(small)[0])
                yield Row(f"parity {label}: same translations", f"{same:.0%}", same >= 0.95)


def same_translations(ours: Transformer, theirs: Transformer, batch: Batch) -> float:
    """Return the share of equal translations by two models, greedy and with a beam of 4; near ties may differ."""
    outputs, ids = [], batch.source.ids.tolist()
    sentences = [ids[start:end] for start, end in pairwise(batch.source.offsets.tolist())]
    for model in (ours.for_inference(kernels_for(ours.device)), theirs.for_inference(kernels_for(theirs.device))):
        outputs.append([best[0].tokens for beam in (1, 4) for best in search([model], sentences, search_options(beam))])
    return statistics.mean(a == b for a, b in zip(*outputs, strict=True))


def recordings(setup: Setup) -> Iterator[Row]:
    """Compare searches with those of a second thread, which are recorded there, and with later ones.

    Before the later ones, another engine on the same GPU records, and releases its recordings.
    """
    engine, other = (random_engine(setup) for _ in range(2))
    random = np.random.default_rng(1)
    texts = [random.integers(5, 100, (count, length)).tolist() for count, length in ((1, 5), (1, 40), (9, 5), (20, 20))]

    def found(engine: TorchEngine) -> list[list[int]]:
        results = (engine.search(text, search_options(beam)) for text in texts for beam in (1, 4))
        return [best[0].tokens for hypotheses in results for best in hypotheses]

    first = found(engine)
    with ThreadPoolExecutor(1) as thread:
        later = [thread.submit(found, engine).result()]
    for _ in range(2):
        found(other), found(other)
        other.kernels.release_memory()
        later.append(found(engine))
    same = min(statistics.mean(a == b for a, b in zip(first, each, strict=True)) for each in later)
    yield Row("recorded searches: same translations as at first", f"{same:.0%}", same >= 0.95)
    problem = engine.problem or other.problem
    yield Row("recorded searches: problems", problem or "none", problem is None)


def random_engine(setup: Setup) -> TorchEngine:
    """Return an engine with random weights, which rarely end a sentence; on a GPU those of a base model."""
    is_gpu = setup.device.type == "cuda"
    measured = replace(setup, model=dict(BASE), vocabulary=32_000, mean_length=25) if is_gpu else setup
    return TorchEngine.of_models([updater(measured, RuntimeSettings()).model], RuntimeSettings())


def write_training(setup: Setup, folder: str) -> tuple[Path, int]:
    """Write a recipe that trains on the demonstration pairs; return its path and half the number of its steps."""
    lines, half = (300, 4) if setup.device.type == "cpu" else (5_000, 30)
    text = DEMO.read_text(encoding="utf-8").split("\n")[:lines]
    Path(folder, "train.tsv").write_text("".join(line + "\n" for line in text), encoding="utf-8")
    content = {
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"file": "train.tsv"}]},
        "tokenizer": {"vocab_size": 400},
        "model": TINY,
        "train": {"batch_tokens": 1024, "schedule": {"name": "constant", "rate": 1e-3}, "stop": {"steps": 2 * half}},
        "runtime": {"device": setup.device.type},
        "prepared": "prepared",
        "run": "whole",
    }
    recipe = Path(folder, "recipe.yaml")
    recipe.write_text(json.dumps(content), encoding="utf-8")
    return recipe, half


def resuming(setup: Setup) -> Iterator[Row]:
    """Compare a training that is stopped and resumed with one that is not."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # where training links the latest run
        recipe, half = write_training(setup, folder)
        for overrides in ([], ["run=parts", f"train.stop.steps={half}"], ["run=parts"]):
            train(load_recipe(recipe, overrides), Console(quiet=True))
        whole, parts = (read_tensors(Path(run, "last", "model.safetensors")) for run in ("whole", "parts"))
    difference = max(float((whole[name] - parts[name]).abs().max()) for name in whole)
    yield Row("resumed training: largest difference of a weight", difference, difference == 0)


def out_of_memory(setup: Setup) -> Iterator[Row]:
    """Give a training too little memory: the error must name a size of batch that fits."""
    row = "batch that does not fit: the error names"
    if setup.device.type != "cuda":
        yield Row(row, "measured on CUDA only")
        return
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
    yield Row(row, found[1] if found else message, found is not None)


def updates(setup: Setup) -> Iterator[Row]:
    """Measure updates of batches whose layouts were seen before, as in every epoch after the first."""
    rate, nominal = product_rate(setup.device), nominal_rate(setup.device)
    for measured in trainings(setup):
        started = time.perf_counter()
        trained = updater(measured, RuntimeSettings())
        batches = random_batches(measured, trained.kernels.sizes)
        created = time.perf_counter()
        trained.update(batches[:1], 1, batches[0].target_tokens).results()
        first = time.perf_counter() - created
        for _ in range(2):  # layouts are recorded when they come for the second time
            run_updates(trained, batches)
        seconds, host = min(run_updates(trained, batches) for _ in range(2))
        source, target = (sum(getattr(batch, f"{side}_tokens") for batch in batches) for side in ("source", "target"))
        waiting = waits(trained, batches[:2])
        share = operations(trained.model.settings, trained.model.output.weight.size(0), source, target) / seconds / rate
        name = f"{measured.name}, {measured.tokens:,} tokens"
        yield Row(f"{name}: update, ms", round(seconds / len(batches) * 1e3, 2))
        yield Row(f"{name}: of it the host's part, ms", round(host * 1e3, 2))
        yield Row(f"{name}: kernels an update", kernels_an_update(trained, batches[-3:], name))
        yield Row(f"{name}: calls in an update that wait for the device", ", ".join(waiting) or "none", not waiting)
        yield Row(f"{name}: target tokens/s", round(target / seconds))
        yield Row(f"{name}: share of the measured rate of products", f"{share:.1%}")
        yield Row(f"{name}: share of the nominal rate", None if nominal is None else f"{share * rate / nominal:.1%}")
        yield Row(f"{name}: first update, s", round(first, 1))
        print(f"  {name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        del trained, batches
        gc.collect()  # its recordings are in a reference cycle
        if setup.device.type == "cuda":
            torch.cuda.empty_cache()


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


def kernels_an_update(trained: Updater, batches: list[Batch], name: str) -> int | None:
    """Return the number of kernels that an update launches on a GPU."""
    if trained.device.type != "cuda":
        return None
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        run_updates(trained, batches)
    if folder := os.environ.get("OUT"):
        table = recorded.key_averages().table(sort_by="self_cuda_time_total", row_limit=45, max_name_column_width=90)
        Path(folder, f"profile-{re.sub('[^a-z0-9]+', '-', name)}.txt").write_text(table)
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
    return sorted(
        {f"{Path(one.filename).name}:{one.lineno}" for one in caught if "called a synchronizing" in str(one.message)}
    )


def searches(setup: Setup) -> Iterator[Row]:
    """Measure the search with random weights: outputs are as long as their source."""
    on_gpu, engine = setup.device.type == "cuda", random_engine(setup)
    collect_garbage_rarely()  # as `nmt translate` does
    random = np.random.default_rng(0)
    lengths = random_lengths(4_096 if on_gpu else 20, 25 if on_gpu else setup.mean_length, random)
    sentences = [random.integers(5, engine.models[0].output.out_features, length).tolist() for length in lengths]
    for beam in (1, 4):
        started = time.perf_counter()
        engine.search([sentences[0][:25]], search_options(beam))
        yield Row(f"beam {beam}: first translation of a line, s", round(time.perf_counter() - started, 2))
        alone = statistics.median(timed(engine, [sentences[0][:25]], search_options(beam))[0] for _ in range(5))
        yield Row(f"beam {beam}: a line of 25 tokens, ms", round(1e3 * alone, 1))
        for budget in (131_072, 524_288) if on_gpu else (2_048,):
            options = search_options(beam, batch_tokens=budget)
            seconds, tokens = min(timed(engine, sentences, options) for _ in range(3))
            yield Row(f"beam {beam}, batches of {budget:,} tokens: target tokens/s", round(tokens / seconds))
    engine.kernels.release_memory()


def timed(engine: TorchEngine, sentences: list[list[int]], options: SearchOptions) -> tuple[float, int]:
    """Return the seconds of a search and the tokens that it finds."""
    started = time.perf_counter()
    found = engine.search(sentences, options)
    return time.perf_counter() - started, sum(len(best[0].tokens) + 1 for best in found)


def training(setup: Setup) -> Iterator[Row]:
    """Train a recipe to its end, if its text is there, or on a CPU a tiny one."""
    text = ROOT / "data" / "tatoeba-en-it" / "train.tsv.gz"
    on_gpu = setup.device.type == "cuda"
    if on_gpu and not text.exists():
        yield Row("tatoeba-en-it.yaml: training", f"not measured: {text} is not there; run make data")
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        recipe = TATOEBA if on_gpu else write_training(setup, folder)[0]
        log_every = 100 if on_gpu else 1
        places = [f"prepared={folder}/prepared", f"run={folder}/run"]
        loaded = load_recipe(recipe, [*places, f"train.log_every={log_every}"])
        started = time.perf_counter()
        train(loaded, Console(quiet=True))
        minutes = (time.perf_counter() - started) / 60
        lines = Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [record for record in map(json.loads, lines) if record["type"] == "train"]
        speeds = [record["target_tokens_per_second"] for record in records]
        yield Row("tatoeba-en-it.yaml: target tokens/s, median", round(statistics.median(speeds)))
        yield Row("tatoeba-en-it.yaml: target tokens/s, whole training", round(
            records[-1]["target_tokens"] / records[-1]["seconds"]))  # fmt: skip
        yield Row("tatoeba-en-it.yaml: share of the time without a batch", statistics.mean(
            record["loader_wait"] for record in records))  # fmt: skip
        yield Row("tatoeba-en-it.yaml: minutes with preparation and test", round(minutes, 2))
        if (scores := Path(folder, "run", "test.json")).exists():
            for score in json.loads(scores.read_bytes()):
                yield Row(f"tatoeba-en-it.yaml: test {score['name']}", round(score["value"], 2))
        yield from translation(text, Path(folder, "run")) if on_gpu else ()


def translation(text: Path, run: Path) -> Iterator[Row]:
    """Translate a million lines with the command, and measure all of it."""
    with gzip.open(text, "rt", encoding="utf-8") as rows:
        sources = [row.partition("\t")[0] for row in rows]
    lines = (sources * (1 + MILLION // len(sources)))[:MILLION]
    Path("input.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    started = time.perf_counter()
    command = [sys.executable, "-m", "nmt", "translate", "--model", str(run), "-i", "input.txt", "-o", "output.txt"]
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - started
    with Path("output.txt").open(encoding="utf-8") as output:
        translations = [line.rstrip("\n") for line in output]
    tokenizer = load_model(resolve_model(run), torch.device("cpu")).tokenizers.target
    tokens = sum(len(tokenizer.encode(line)) + 1 for line in translations[:: MILLION // 10_000]) * MILLION / 10_000
    yield Row("nmt translate, a million lines: s", round(seconds, 1), len(translations) == MILLION)
    yield Row("nmt translate, a million lines: target tokens/s", round(tokens / seconds))


def search_options(beam: int, **values: int) -> SearchOptions:
    """Return options for outputs at most as long as their source: random weights rarely end a sentence."""
    return SearchOptions.model_validate({"beam": beam, "max_length": {"factor": 1.0, "extra": 1}, **values})


def updater(setup: Setup, runtime: RuntimeSettings, dropout: float = 0.1, **changes: object) -> Updater:
    """Return a new model with its optimizer; the weights depend on nothing but the settings."""
    recipe = Recipe(
        languages=Languages(source="en", target="it"),
        data=Data(train=(CorpusFile(file=DEMO),)),
        model=ModelSettings.model_validate({"dropout": dropout, **setup.shape, **changes}),
        train=TrainSettings.model_validate(
            {"schedule": {"name": "constant", "rate": 1e-4}, "batch_tokens": setup.tokens}
        ),
        runtime=runtime,
        run=Path("run"),
    )
    torch.manual_seed(1)
    return Updater(Transformer(recipe.model, setup.vocabulary, setup.vocabulary), recipe, setup.device)


def random_batches(setup: Setup, sizes: Sizes | None = None) -> list[Batch]:
    """Return a batch for each update: four length groups, as in training, of targets of one length each.

    Lengths are 0.4 to 1.6 times the mean, those of sources 0.8 to 1.2 times those of their targets.
    """
    random = np.random.default_rng(0)
    batches = []
    for _ in range(setup.updates):
        groups = []
        for length in random_lengths(4, setup.mean_length, random):
            count = max(2, setup.tokens // 4 // length)
            lengths = np.sort((length * random.uniform(0.8, 1.2, count)).astype(np.int64).clip(2)) - 1
            source, target = (
                Sentences(random.integers(5, setup.vocabulary, each.sum()), offsets_of(each))
                for each in (lengths, np.full(count, length - 1))
            )
            groups.append((source, target))
        batches.append(assemble(groups, sizes))
    return batches


def random_lengths(count: int, mean: int, random: np.random.Generator) -> list[int]:
    """Return sentence lengths between 0.4 and 1.6 times the mean."""
    return [max(3, int(mean * share)) for share in random.uniform(0.4, 1.6, count)]


def synchronize(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
