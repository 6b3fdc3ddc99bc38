"""What a run directory holds about its training, read without changing it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.config import load_recipe
from nmt.errors import DataError, ModelError, NMTError
from nmt.system.files import lock_holder, parse_json, read_json, regular_file
from nmt.training.progress import RUN, Progress, check_format, read_progress

Record = dict[str, Any]
_NUMBER = (int, float)
# what is read of each type of record
_FIELDS: dict[str, dict[str, Any]] = {
    "train": dict.fromkeys(("loss", "rate", "gradient_norm", "target_tokens_per_second"), _NUMBER)
    | dict.fromkeys(("padding", "loader_wait", "epoch", "target_tokens", "seconds"), _NUMBER),
    "validation": dict.fromkeys(("loss", "bleu", "chrf", "epoch", "target_tokens", "seconds"), _NUMBER),
    "skipped": {"loss": str, "gradient_norm": str},
}


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
        if not isinstance(self.environment, dict):
            raise DataError(f"{path / RUN.name}: damaged: environment: expected an object; nmt train writes it again")
        self.test_scores = read_test_scores(path / "test.json")

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
    def last(self) -> Record:
        """The newest record of a training interval or a validation; zeros if there is none."""
        zeros: Record = dict.fromkeys(("step", "epoch", "target_tokens", "seconds"), 0)
        return max([*self.train, *self.validations], key=lambda record: float(record["seconds"]), default=zeros)

    @property
    def step(self) -> int:
        """The number of updates made."""
        return max(int(self.last["step"]), 0 if self.progress is None else self.progress.step)

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
    lines: list[bytes] = []
    if file.exists():
        try:
            with open(file, "rb", opener=regular_file) as stream:
                lines = stream.read().split(b"\n")[:-1]
        except OSError as error:
            raise DataError(f"{file}: cannot read it: {error.strerror}; put the file itself there") from None
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        record: Any = None
        with suppress(ValueError):
            record = parse_json(line)
        if not (_has(record, {"type": str, "step": int}) and _has(record, _FIELDS.get(record["type"], {}))):
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


def read_test_scores(file: Path) -> list[Record]:
    """Return the name, value and signature of each score of the test text; none before training has ended.

    Raises DataError if the file is damaged.
    """
    if not file.exists():
        return []
    remedy = "remove it, and nmt train writes it again"
    scores = read_json(file, remedy)
    kinds = {"name": str, "value": _NUMBER, "signature": str}
    if not (isinstance(scores, list) and all(_has(score, kinds) for score in scores)):
        raise DataError(f"{file}: damaged; {remedy}")
    return scores


def _has(record: object, kinds: dict[str, Any]) -> bool:
    """Return whether a value of JSON is an object with values of these types."""
    return isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in kinds.items())
