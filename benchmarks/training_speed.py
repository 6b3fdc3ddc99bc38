"""Training speed of `nmt train` in target tokens per second, relative to matrix products and to other toolkits.

    python benchmarks/training_speed.py SOURCE TARGET [--shape small] [--updates 40] [--rounds 5] [--peer NAME=COMMAND]…

SOURCE and TARGET are parallel texts. A peer's COMMAND trains the same shape on the same text with the same batches and
prints a JSON line with "target_tokens_per_s". All toolkits are measured in turn, A B A B, each in a separate process.
The speed of a round is the median of its logging intervals (an eighth of the updates each) without the first quarter;
the reported speed is the median of the rounds. Padding is not counted.

Floating-point operations are 6 × weights × tokens, the encoder's weights with source tokens, the decoder's and the
output's with target tokens; attention scores are not counted. The rate is compared with that of square matrix products
in the same precision on this machine: with torch's default library, and with the one that training uses.
Prints a table and one JSON line.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = {
    "small": {"dim": 256, "feed_forward": 1024, "heads": 4, "encoder_layers": 3, "decoder_layers": 3},
    "base": {"dim": 512, "feed_forward": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "big": {"dim": 1024, "feed_forward": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
}
VOCABULARY = 8000
INTERVALS = 8


def main() -> None:
    """Measure all toolkits in turn; print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--processes", type=int, default=1, help="of torchrun, each with its share of a batch")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as nmt train has it")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    chosen = parser.parse_args()
    peers = dict(peer.split("=", 1) for peer in chosen.peer)
    speeds: dict[str, list[float]] = {name: [] for name in ("nmt", *peers)}
    with tempfile.TemporaryDirectory() as folder:
        recipe = write_recipe(chosen, Path(folder))
        nmt("prepare", recipe, chosen)
        machine = [matrix_rates()]
        for number in range(chosen.rounds):
            for name in speeds:
                speed = peer_speed(peers[name]) if name in peers else our_speed(recipe, chosen)
                speeds[name].append(speed)
                print(f"round {number + 1} {name}: {speed:,.0f} target tokens/s", file=sys.stderr, flush=True)
            machine.append(matrix_rates())
        flops = operations_a_token(recipe, chosen)
    report(chosen, speeds, flops, {key: max(rates[key] for rates in machine) for key in machine[0]})


def write_recipe(chosen: argparse.Namespace, folder: Path) -> Path:
    """Write a recipe that trains the shape on the text."""
    recipe = {
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"source": str(chosen.source.resolve()), "target": str(chosen.target.resolve())}]},
        "tokenizer": {"vocab_size": VOCABULARY},
        "model": SHAPES[chosen.shape],
        "train": {
            "batch_tokens": chosen.batch_tokens,
            "schedule": {"name": "constant", "rate": 1e-4},
            "stop": {"steps": chosen.updates},
            "log_every": max(1, chosen.updates // INTERVALS),
        },
        "prepared": "prepared",
        "run": "run",
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe), encoding="utf-8")
    return path


def nmt(verb: str, recipe: Path, chosen: argparse.Namespace, *options: str) -> None:
    """Run a command of nmt on a recipe."""
    changes = [part for value in chosen.set for part in ("--set", value)]
    start = [sys.executable]
    if verb == "train" and chosen.processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(chosen.processes)]
    subprocess.run([*start, "-m", "nmt", verb, "--config", str(recipe), "--quiet", *options, *changes], check=True)


def our_speed(recipe: Path, chosen: argparse.Namespace) -> float:
    """Return the target tokens per second of one run of nmt."""
    nmt("train", recipe, chosen, "--restart")
    lines = (recipe.parent / "run" / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    intervals = [record for record in map(json.loads, filter(None, lines)) if record["type"] == "train"]
    return statistics.median(interval["target_tokens_per_second"] for interval in intervals[len(intervals) // 4 :])


def peer_speed(command: str) -> float:
    """Return the target tokens per second that another toolkit's run reports."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.strip().split("\n")[-1])["target_tokens_per_s"])


def operations_a_token(recipe: Path, chosen: argparse.Namespace) -> float:
    """Return the floating-point operations of training per target token."""
    from nmt.config import load_recipe
    from nmt.text.prepared import PreparedCorpus
    from nmt.text.proposal import operations

    corpus = PreparedCorpus.open(recipe.parent / "prepared")
    counts = corpus.manifest.train
    source, target = (side.tokens + counts.kept for side in (counts.source, counts.target))
    model = load_recipe(recipe, chosen.set).model
    return operations(model, len(corpus.tokenizers.target), source / target, 1)


def matrix_rates() -> dict[str, float]:
    """Return the GFLOP/s of square matrix products: by torch's default library, and by the one training uses."""
    from nmt.config import RuntimeSettings
    from nmt.kernels.device import choose_device, kernels_for, precision_for, set_threads
    from nmt.kernels.reference import Kernels
    from nmt.training.trial import matrix_rate

    runtime = RuntimeSettings()
    set_threads(runtime)
    device = choose_device(runtime)
    precision = precision_for(runtime, device)
    libraries = {"torch": Kernels(device, precision), "training": kernels_for(device, precision)}
    return {name: matrix_rate(kernels) / 1e9 for name, kernels in libraries.items()}


def report(chosen: argparse.Namespace, speeds: dict[str, list[float]], flops: float, machine: dict[str, float]) -> None:
    """Print medians as a Markdown table and as a JSON line."""
    medians = {name: statistics.median(rounds) for name, rounds in speeds.items()}
    print(f"| {chosen.shape} | target tokens/s, median | rounds | nmt is faster by |\n|---|--:|---|--:|")
    for name, median in medians.items():
        rounds = ", ".join(f"{speed:,.0f}" for speed in speeds[name])
        print(f"| {name} | {median:,.0f} | {rounds} | {medians['nmt'] / median:.2f}× |")
    gflops = medians["nmt"] * flops / 1e9
    print(
        f"\nnmt: {gflops:.0f} GFLOP/s, {gflops / machine['torch']:.0%} of the {machine['torch']:.0f} that torch.mm "
        f"reaches here, {gflops / machine['training']:.0%} of the {machine['training']:.0f} of the library it uses"
    )
    summary = {"shape": chosen.shape, "batch_tokens": chosen.batch_tokens, "target_tokens_per_s": medians}
    print(json.dumps({**summary, "gflops": round(gflops, 1), "matrix_gflops": machine}))


if __name__ == "__main__":
    main()
