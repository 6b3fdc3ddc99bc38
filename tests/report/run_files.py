"""Run directories made by hand: a marker, a log, and a recipe."""

import json
from pathlib import Path
from typing import Any

from nmt.config import recipe_to_yaml
from nmt.training.progress import RUN
from tests.builders import tiny_recipe


def train_line(step: int, loss: float, **others: object) -> dict[str, Any]:
    """Return a line of the log."""
    rates = {"rate": 0.001, "padding": 0.1, "loader_wait": 0.0, "target_tokens_per_second": 1000.0}
    line = {"type": "train", "step": step, "epoch": step / 10, "loss": loss, **rates}
    return {**line, "gradient_norm": 1.0, "target_tokens": 100 * step, "seconds": step * 1.0, **others}


def validation_line(step: int, loss: float, bleu: float) -> dict[str, Any]:
    """Return a line of a validation."""
    scores = {"loss": loss, "bleu": bleu, "chrf": bleu + 10}
    line = {"type": "validation", "step": step, "epoch": step / 10, **scores}
    return {**line, "target_tokens": 100 * step, "seconds": step * 1.0}


def write_run(path: Path, lines: list[dict[str, Any]], recipe: str | None = None) -> Path:
    """Write a run without checkpoints."""
    (path / "checkpoints").mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(RUN.header))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "recipe.yaml").write_text(recipe_to_yaml(tiny_recipe(path), path) if recipe is None else recipe)
    return path
