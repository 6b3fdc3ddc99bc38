"""What each technique gains: train a recipe with each of several settings and seeds, and print a table of the scores.

    python benchmarks/techniques.py PLAN.yaml FOLDER

PLAN.yaml names a recipe, relative to itself, seeds, settings of all trainings, and techniques, each with the settings
that it adds:

    recipe: ../recipes/tatoeba-en-zh-cpu.yaml
    seeds: [1, 2, 3]
    all: {runtime.threads: 1}
    techniques:
      recipe: {}
      dropout 0.1: {model.dropout: 0.1}

Each training is a run in FOLDER; stopped at any time, the same command goes on. After each seed it prints a table: of
each technique the mean scores, and the gains over the first technique with 95 % intervals (Student's t, from two seeds
on). BLEU of the validation text is that of the best checkpoint with greedy search, that of the test text has the
settings of the recipe. Choose by the validation text; the test text only confirms. Ends with one JSON line.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import yaml

COLUMNS = ("technique", "seeds", "minutes", "valid BLEU", "gain", "test BLEU", "gain", "test chrF2", "gain")
STUDENT_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # 97.5 % quantiles, for 1 to 9 degrees of freedom


def main() -> None:
    """Train what is missing, then print the table."""
    file, folder = map(Path, sys.argv[1:])
    plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    scores: dict[str, dict[int, dict[str, float]]] = {name: {} for name in plan["techniques"]}
    for seed in plan["seeds"]:
        for name, technique in plan["techniques"].items():
            run = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{seed}"
            settings = {**plan.get("all", {}), **technique, "seed": seed, "run": str(run.resolve())}
            scores[name][seed] = trained(file.parent / plan["recipe"], run, settings)
        print(f"| {' | '.join(COLUMNS)} |\n|---|{'--:|' * (len(COLUMNS) - 1)}")
        baseline = next(iter(scores.values()))
        for name, of_seeds in scores.items():
            print(f"| {' | '.join(row(name, of_seeds, baseline))} |", flush=True)
    print(json.dumps(scores))


def trained(recipe: Path, run: Path, settings: dict[str, Any]) -> dict[str, float]:
    """Train a run unless it is complete; return its scores."""
    if not (run / "test.json").exists():
        given = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
        command = [sys.executable, "-m", "nmt", "train", "--config", str(recipe), *given, "--quiet"]
        subprocess.run(command, check=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    validations = [record for record in records if record["type"] == "validation"]
    test = {score["name"]: score["value"] for score in json.loads((run / "test.json").read_text(encoding="utf-8"))}
    best = max(record["bleu"] for record in validations)
    return {"minutes": validations[-1]["seconds"] / 60, "valid BLEU": best, "test BLEU": test["BLEU"], **test}


def row(name: str, scores: dict[int, dict[str, float]], baseline: dict[int, dict[str, float]]) -> list[str]:
    """Return the cells of a technique."""
    cells = [name, str(len(scores)), f"{mean(score['minutes'] for score in scores.values()):.1f}"]
    for metric in ("valid BLEU", "test BLEU", "chrF2"):
        gains = [scores[seed][metric] - baseline[seed][metric] for seed in scores]
        margin = STUDENT_T[len(gains) - 2] * stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0
        interval = f" ± {margin:.2f}" if margin else ""
        cells += [f"{mean(score[metric] for score in scores.values()):.2f}", f"{mean(gains):+.2f}{interval}"]
    return cells


if __name__ == "__main__":
    main()
