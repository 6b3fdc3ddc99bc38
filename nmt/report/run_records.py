"""What a run directory holds about its training, read without changing it and without torch."""

import contextlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config import Recipe, load_recipe
from nmt.errors import ModelError, NMTError
from nmt.system.console import counted
from nmt.system.files import lock_holder
from nmt.training.progress import RUN, Progress, check_format, read_progress

Record = dict[str, Any]


class RunRecords:
    """The log, the recipe and the results of a run directory; what is missing or damaged is named in `problems`.

    Raises ModelError if the directory is no run or nothing is logged, ConfigError if its format version is not the
    present one.
    """

    def __init__(self, path: Path) -> None:
        marker = RUN.read(path)
        if not marker:
            is_folder = path.is_dir()
            found = f"this folder is not a run, or has no {RUN.name}" if is_folder else "no folder of this name"
            raise ModelError(f"{path}: {found}; expected the folder that 'run' in a recipe names, such as mine/run")
        check_format(path)
        self.path, self.problems = path, list[str]()
        records = _read_log(path / "metrics.jsonl", self.problems)
        if not records:
            raise ModelError(
                f"{path}: nothing is logged yet; a report needs the first line of metrics.jsonl, which nmt train "
                "writes after train.log_every steps"
            )
        self.recipe, self.recipe_text = _read_recipe(path / "recipe.yaml", self.problems)
        # one record for each logging interval, validation and skipped update, in the order of steps
        self.train, self.validations, self.skipped = (
            _ordered(records, kind) for kind in ("train", "validation", "skipped")
        )
        self.progress = _read_last_progress(path)
        """Of the newest checkpoint."""
        environment = marker.get("environment")
        self.environment: dict[str, Any] = environment if isinstance(environment, dict) else {}
        """Versions and device, as far as the run records them."""
        self.model_digest = _model_digest(path / ("best" if (path / "best").exists() else "last"))
        """Of the weights of the best checkpoint, or the last one; empty if there is none."""
        self.test_scores = _read_test_scores(path / "test.json", self.problems)
        self.holder = lock_holder(path)
        """The process that trains now, empty if none does."""

    @property
    def name(self) -> str:
        """The name in the recipe, else that of the folder."""
        return self.recipe.name if self.recipe is not None else self.path.resolve().name

    @property
    def prepared(self) -> Path:
        """The folder of the prepared corpus: in a run that was moved not where the recipe names it."""
        own = self.path / "prepared"
        return own if self.recipe is None or own.exists() else self.recipe.prepared_directory

    @property
    def state(self) -> tuple[str, str]:
        """Whether it trains now, has reached a limit, or was interrupted; with the limits that are reached."""
        if self.holder:
            return "training", "now"
        if self.recipe is None or self.progress is None:
            return "interrupted", ""
        stop, progress = self.recipe.train.stop, self.progress
        limits = (
            ("steps", stop.steps, progress.step),
            ("epochs", stop.epochs, progress.epoch),
            ("hours", stop.hours, progress.seconds / 3600),
            ("patience", stop.patience, progress.validations_without_gain),
        )
        reached = [f"train.stop.{name}" for name, limit, value in limits if limit is not None and value >= limit]
        return ("complete", ", ".join(reached)) if reached else ("interrupted", "nmt train resumes it")

    @property
    def last_step(self) -> int:
        """The last step in the log or in a checkpoint."""
        logged: list[int] = [record["step"] for record in (*self.train[-1:], *self.validations[-1:])]
        return max([*logged, 0 if self.progress is None else self.progress.step])

    @property
    def best(self) -> Record | None:
        """The validation of the best checkpoint; without that link, the best by `train.best_metric`."""
        target = (self.path / "best").resolve().name
        linked = [record for record in self.validations if target == f"step-{record['step']:08d}"]
        metric = "bleu" if self.recipe is None else self.recipe.train.best_metric
        sign = -1 if metric == "loss" else 1
        return max(linked or self.validations[::-1], key=lambda record: sign * record[metric], default=None)


def mean(records: Sequence[Record], key: str) -> float:
    """Return the mean of the numbers that records have under a key, 0 if they have none."""
    values = [value for record in records if (value := number(record, key)) is not None]
    return sum(values) / len(values) if values else 0.0


def number(record: Record, key: str) -> float | None:
    """Return a finite number of a record, else None."""
    value = record.get(key)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _read_log(file: Path, problems: list[str]) -> list[Record]:
    """Return the lines that are records with a step and a type."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    records, damaged = [], []
    for index, line in enumerate(lines, start=1):
        record = None
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line) if line.strip() else None
        if isinstance(record, dict) and _is_complete(record):
            records.append(record)
        elif line.strip():
            damaged.append(index)
    if damaged == [len(lines)]:
        problems.append(f"The last line of {file.name} is incomplete: the process was killed while it was written.")
    elif damaged:
        problems.append(
            f"{file.name}:{damaged[0]}: not a record of nmt train; {counted(len(damaged), 'line')} ignored."
        )
    return records


def _is_complete(record: Record) -> bool:
    needed = ("loss", "bleu", "chrf") if record.get("type") == "validation" else ()
    return isinstance(record.get("step"), int) and all(number(record, key) is not None for key in needed)


def _ordered(records: Sequence[Record], kind: str) -> list[Record]:
    """Return the records of a type by step; one takes the place of those before it of the same and later steps."""
    kept: list[Record] = []
    for record in records:
        if record.get("type") == kind:
            while kept and kept[-1]["step"] >= record["step"]:
                kept.pop()
            kept.append(record)
    return kept


def _read_recipe(file: Path, problems: list[str]) -> tuple[Recipe | None, str]:
    try:
        return load_recipe(file), file.read_text(encoding="utf-8")
    except (NMTError, OSError, ValueError) as error:
        problems.append(f"The recipe cannot be read: {error}")
        return None, file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _read_last_progress(path: Path) -> Progress | None:
    for checkpoint in sorted((path / "checkpoints").glob("step-*"), reverse=True):
        with contextlib.suppress(NMTError):
            return read_progress(checkpoint)
    return None


def _read_test_scores(file: Path, problems: list[str]) -> list[Record]:
    try:
        scores = json.loads(file.read_bytes())
        return [score for score in scores if number(score, "value") is not None]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, AttributeError):
        problems.append(f"{file.name} is damaged; nmt train writes it again when training ends.")
        return []


def _model_digest(directory: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((directory / "config.json").read_bytes())["files"]["model.safetensors"])
    return ""
