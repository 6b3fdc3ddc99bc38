"""What a run directory holds about its training, read without changing it."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.config import load_recipe
from nmt.errors import DataError, ModelError, NMTError
from nmt.system.files import lock_holder
from nmt.training.progress import RUN, Progress, check_format, read_progress

Record = dict[str, Any]


class RunRecords:
    """The log, the recipe and the results of a run directory.

    Raises ModelError if the directory is no run or nothing is logged, DataError or ConfigError if one of its files is
    damaged, ConfigError if its format version is not the present one.
    """

    def __init__(self, path: Path) -> None:
        marker = RUN.read(path)
        if not marker:
            is_folder = path.is_dir()
            found = f"this folder is not a run, or has no {RUN.name}" if is_folder else "no folder of this name"
            raise ModelError(f"{path}: {found}; expected the folder that 'run' in a recipe names, such as mine/run")
        check_format(path)
        records = _read_log(path / "metrics.jsonl")
        if not records:
            raise ModelError(
                f"{path}: nothing is logged yet; a report needs the first line of metrics.jsonl, which nmt train "
                "writes after train.log_every steps"
            )
        self.path, self.recipe = path, load_recipe(path / "recipe.yaml")
        # one record for each logging interval, validation and skipped update, in the order of steps
        self.train, self.validations, self.skipped = (
            _ordered(records, kind) for kind in ("train", "validation", "skipped")
        )
        # Of the newest checkpoint.
        self.progress = _read_last_progress(path)
        # Versions and device.
        self.environment: dict[str, Any] = marker.get("environment", {})
        self.test_scores = _read_test_scores(path / "test.json")

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def prepared(self) -> Path:
        """The folder of the prepared corpus: in a run that was moved not where the recipe names it."""
        own = self.path / "prepared"
        return own if own.exists() else self.recipe.prepared_directory

    @property
    def state(self) -> tuple[str, str]:
        """Whether it trains now, has reached a limit, or was interrupted; with the limit."""
        if lock_holder(self.path):
            return "training", "now"
        reason = self.progress and self.progress.reached_limit(self.recipe.train)
        return ("complete", reason) if reason else ("interrupted", "nmt train resumes it")

    @property
    def best(self) -> Record | None:
        """The validation of the best checkpoint; without that link, the best by `train.best_metric`."""
        target = (self.path / "best").resolve().name
        linked = [record for record in self.validations if target == f"step-{record['step']:08d}"]
        metric = self.recipe.train.best_metric
        sign = -1 if metric == "loss" else 1
        return max(linked or self.validations[::-1], key=lambda record: sign * record[metric], default=None)


def _read_log(file: Path) -> list[Record]:
    """Return the records of a log; what a killed process left of its last line is ignored."""
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        record = None
        with suppress(ValueError):
            record = json.loads(line)
        if not (isinstance(record, dict) and isinstance(record.get("step"), int)):
            raise DataError(f"{file}:{number}: damaged: not a record of nmt train; remove this line")
        records.append(record)
    return records


def _ordered(records: Sequence[Record], kind: str) -> list[Record]:
    """Return the records of a type by step; one takes the place of those before it of the same and later steps."""
    kept: list[Record] = []
    for record in records:
        if record.get("type") == kind:
            while kept and kept[-1]["step"] >= record["step"]:
                kept.pop()
            kept.append(record)
    return kept


def _read_last_progress(path: Path) -> Progress | None:
    for checkpoint in sorted((path / "checkpoints").glob("step-*"), reverse=True):
        with suppress(NMTError):  # it is being written or removed
            return read_progress(checkpoint)
    return None


def _read_test_scores(file: Path) -> list[Record]:
    """Return the name, value and signature of each score of the test text; none before training has ended."""
    try:
        return [{**one, "name": one["name"], "value": float(one["value"])} for one in json.loads(file.read_bytes())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{file}: damaged; remove it, and nmt train writes it again") from None
