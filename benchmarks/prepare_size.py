"""Time, throughput and memory of `nmt prepare` on a large corpus, compared with bare SentencePiece encoding.

    python benchmarks/prepare_size.py FOLDER TEXT.tsv.gz… --pairs 2000000 --processes 2 --rounds 2 [--keep-all]
        [--vocabulary 32000] [--held-out TEST.tsv]

Writes a corpus of so many pairs into FOLDER, made from the pairs of the given texts: each pair is one of them, or two
of them one after the other, so that lines are realistic and mostly different. Prepares it with `nmt prepare`, and
encodes normalized text with the trained tokenizer alone, in as many processes, in turn (A B A B). Prints the seconds of
each stage, pairs per second, the largest sum of resident memory over all processes (PSS, sampled), the ratio of the
throughputs, and CPU times, which other programs on the machine affect less. With `--keep-all` the rules that can be
turned off are; `--held-out` names a test text, whose sentences the rule `leak` removes.
"""

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from itertools import islice
from multiprocessing import Process
from pathlib import Path
from typing import get_args

import sentencepiece
import yaml

from nmt.config import RuleName

_EVERY = 0.5  # seconds between two samples of the memory
_LINES = 50_000  # lines that are encoded at once
_PAIRS_ALONE = 1_000_000  # pairs that are encoded alone


def pairs_of(paths: list[Path]) -> list[list[str]]:
    """Return the pairs of tab-separated files."""
    pairs = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            pairs += [line.rstrip("\n").split("\t")[:2] for line in lines]
    return pairs


def write_corpus(path: Path, pairs: list[list[str]], count: int) -> None:
    """Write `count` pairs, each made of one or two given ones."""
    choose = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, _LINES):
            size = min(_LINES, count - start)
            chosen = zip(choose.choices(pairs, k=size), choose.choices(pairs, k=size), range(size), strict=True)
            file.writelines(
                f"{one[0]} {other[0]}\t{one[1]} {other[1]}\n" if number % 3 else f"{one[0]}\t{one[1]}\n"
                for one, other, number in chosen
            )


def write_recipe(folder: Path, settings: argparse.Namespace) -> Path:
    """Write a recipe for the corpus."""
    keep = list(get_args(RuleName)) if settings.keep_all else []
    data: dict[str, object] = {"train": [{"file": "train.tsv"}], "filters": {"keep": keep}}
    if settings.held_out is not None:
        data["test"] = {"file": str(settings.held_out.resolve())}
    content = {
        "languages": {"source": "en", "target": "it"},
        "data": data,
        "tokenizer": {"vocab_size": settings.vocabulary},
        "runtime": {"threads": settings.processes},
        "run": "run",
        "prepared": "prepared",
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / "recipe.yaml"


def memory_of(process: int) -> int:
    """Return the proportional set size of a process and of those that it started, in bytes."""
    total, children = 0, {process}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent in children:
                children.add(int(entry.name))
    for child in children:
        try:
            rollup = Path(f"/proc/{child}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def cpu_seconds() -> float:
    """Return the CPU time of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def prepare(recipe: Path) -> tuple[float, int, dict[str, float]]:
    """Prepare a corpus; return the seconds, the largest memory, and the seconds at which each message came."""
    command = [sys.executable, "-m", "nmt", "prepare", "-c", str(recipe), "--force"]
    started, largest, stages = time.perf_counter(), 0, {}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stderr is not None

        def listen() -> None:
            for line in process.stderr:
                stages.setdefault(line.split(":")[0].strip()[:60], round(time.perf_counter() - started, 1))

        listener = threading.Thread(target=listen)
        listener.start()
        while process.poll() is None:
            largest = max(largest, memory_of(process.pid))
            time.sleep(_EVERY)
        listener.join()
    assert process.returncode == 0, stages
    return time.perf_counter() - started, largest, stages


def encode(corpus: Path, tokenizer: Path, part: int, parts: int) -> None:
    """Encode every `parts`-th block of lines of a normalized text."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    for path in sorted(corpus.glob("*.txt"))[part::parts]:
        sides = path.read_text(encoding="utf-8").split("\0")
        for side in sides:
            processor.encode(side.split("\n"), num_threads=1, out_type=int)


def encode_alone(corpus: Path, tokenizer: Path, processes: int) -> float:
    """Return the seconds of encoding a normalized text in several processes, both sides."""
    started = time.perf_counter()
    workers = [Process(target=encode, args=(corpus, tokenizer, part, processes)) for part in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - started


def write_normalized(corpus: Path, folder: Path) -> int:
    """Write the first pairs in blocks, first the sources and then the targets of a block; return their number."""
    folder.mkdir(exist_ok=True)
    with corpus.open(encoding="utf-8") as lines:
        for number, start in enumerate(range(0, _PAIRS_ALONE, _LINES)):
            block = [line.rstrip("\n").split("\t") for line in islice(lines, _LINES)]
            if not block:
                return start
            text = "\0".join("\n".join(" ".join(pair[side].split()) for pair in block) for side in (0, 1))
            (folder / f"{number:06d}.txt").write_text(text, encoding="utf-8")
    return _PAIRS_ALONE


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep-all", action="store_true")
    parser.add_argument("--held-out", type=Path)
    settings = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    settings.folder.mkdir(parents=True, exist_ok=True)
    corpus = settings.folder / "train.tsv"
    write_corpus(corpus, pairs_of(settings.texts), settings.pairs)
    recipe = write_recipe(settings.folder, settings)
    normalized = settings.folder / "normalized"
    alone_pairs = write_normalized(corpus, normalized)
    for _ in range(settings.rounds):
        before = cpu_seconds()
        seconds, memory, stages = prepare(recipe)
        middle = cpu_seconds()
        tokenizer = settings.folder / "prepared" / "tokenizer.model"
        alone = encode_alone(normalized, tokenizer, settings.processes) * settings.pairs / alone_pairs
        alone_cpu = (cpu_seconds() - middle) * settings.pairs / alone_pairs
        result = {
            "pairs": settings.pairs,
            "prepare_seconds": round(seconds, 1),
            "pairs_per_second": round(settings.pairs / seconds),
            "largest_memory_mib": round(memory / 2**20),
            "encoding_alone_seconds": round(alone, 1),
            "ratio": round(alone / seconds, 3),
            "cpu_seconds": round(middle - before, 1),
            "encoding_alone_cpu_seconds": round(alone_cpu, 1),
            "stages": stages,
        }
        print(json.dumps(result), flush=True)
    shutil.rmtree(normalized)


if __name__ == "__main__":
    main()
