"""Records of training in run directories, which are only read, and tables of runs; without torch."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from safetensors import SafetensorError, safe_open

from nmt.config import load_recipe
from nmt.config.section import differences
from nmt.errors import DataError, ModelError, NMTError
from nmt.system.files import lock_holder, parse_json, read_json, regular_file
from nmt.text.manifest import Manifest
from nmt.text.prepared import PreparedCorpus, balancing_weights
from nmt.training.progress import RUN, Progress, check_format, read_progress

Record = dict[str, Any]
Row = dict[str, Any]
# the keys and types of values that each type of record must have
_NUMBERS = dict.fromkeys(("step", "loss", "epoch", "target_tokens", "seconds"), int | float)
_OF_TRAINING = ("rate", "gradient_norm", "target_tokens_per_second", "padding", "loader_wait")
_KINDS: dict[str, dict[str, Any]] = {
    "train": _NUMBERS | dict.fromkeys(_OF_TRAINING, int | float),
    "validation": _NUMBERS | dict.fromkeys(("bleu", "chrf"), int | float),
    "skipped": {"step": int},
}
_TEST_SCORE = {"name": str, "value": int | float, "signature": str}
_PLACES = ("run", "prepared")  # settings that decide no result
_NOTHING: Record = dict.fromkeys(("step", "epoch", "target_tokens", "seconds"), 0)


class RunRecords:
    """The log, the recipe and the results of a run directory.

    Raises ModelError if the directory is no run or nothing is logged, DataError or ConfigError if one of its files is
    damaged, ConfigError if its format version is not the present one.
    """

    def __init__(self, path: Path) -> None:
        marker = RUN.read(path)
        if not marker:
            problem = f"this folder is not a run, or has no {RUN.name}" if path.is_dir() else "no folder of this name"
            raise ModelError(f"{path}: {problem}; expected the folder that 'run' in a recipe names, such as mine/run")
        check_format(path)
        records = _read_log(path / "metrics.jsonl")
        if not records:
            raise ModelError(
                f"{path}: nothing is logged yet; a report needs the first line of metrics.jsonl, which nmt train "
                "writes after train.log_every steps"
            )
        self.path, self.recipe = path, load_recipe(path / "recipe.yaml")
        # one record for each logging interval, validation and skipped update, in the order of steps
        self.train, self.validations, self.skipped = (_ordered(records, kind) for kind in _KINDS)
        self.progress = _read_last_progress(path)
        self._is_diverged = records[-1]["type"] == "diverged"
        # Versions and device.
        self.environment: dict[str, Any] = marker.get("environment", {})
        self.test_scores = read_test_scores(path / "test.json")

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def prepared(self) -> Path:
        """The folder of the prepared corpus: the one inside the run if there is one, else that of the recipe."""
        copy = self.path / "prepared"
        return copy if copy.exists() else self.recipe.prepared_directory

    def manifest(self) -> Manifest:
        """Return the manifest of the prepared corpus. Raises DataError, also if it is not what was trained on."""
        manifest = Manifest.read(self.prepared)
        trained_on = self.progress.corpus if self.progress else ""
        if trained_on not in ("", manifest.training_fingerprint(self.recipe.data)):
            raise DataError(f"{self.prepared}: it was prepared again, and is not what this run was trained on")
        return manifest

    def corpus(self) -> PreparedCorpus:
        """Return the prepared corpus. Raises as `manifest` does."""
        self.manifest()
        return PreparedCorpus.open(self.prepared)

    @property
    def state(self) -> str:
        """`training now`, `diverged`, `interrupted`, or empty if a limit of `train.stop` is reached."""
        if lock_holder(self.path):
            return "training now"
        if self.progress and self.progress.reached_limit(self.recipe.train):
            return ""
        return "diverged" if self._is_diverged else "interrupted"

    @property
    def best(self) -> Record | None:
        """The best validation, ranked as in training: by `train.best_metric`, then by the loss.

        Those of checkpoints that were damaged, and so are removed from the progress, do not count.
        """
        metric, progress = self.recipe.train.best_metric, self.progress or Progress()
        sign, steps = 1 if metric == "loss" else -1, {step for *_, step in progress.best}
        rows = [row for row in self.validations if row["step"] in steps or row["step"] > progress.step]
        return min(rows, key=lambda row: (sign * row[metric], row["loss"], row["step"]), default=None)


def _read_log(file: Path) -> list[Record]:
    """Return the records of a log; an incomplete last line of a killed process is ignored."""
    if not file.exists():
        return []
    try:
        with open(file, "rb", opener=regular_file) as stream:
            lines = stream.read().split(b"\n")[:-1]
    except OSError as error:
        raise DataError(f"{file}: cannot read it: {error.strerror}; put the file itself there") from None
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        with suppress(ValueError):
            record = parse_json(line)
            if _has(record, {"type": str}) and _has(record, _KINDS.get(record["type"], {"step": int})):
                records.append(record)
        if len(records) < number:
            raise DataError(f"{file}:{number}: damaged: not a record of nmt train; remove this line")
    return records


def _has(value: object, kinds: Mapping[str, Any]) -> bool:
    """Return whether a value is a mapping with entries of these types."""
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in kinds.items())


def _ordered(records: Sequence[Record], kind: str) -> list[Record]:
    """Return the records of a type by step; a record replaces earlier ones of the same and later steps."""
    ordered: list[Record] = []
    for record in reversed(records):
        if record["type"] == kind and (not ordered or record["step"] < ordered[-1]["step"]):
            ordered.append(record)
    return ordered[::-1]


def _read_last_progress(path: Path) -> Progress | None:
    """Return the progress of the newest checkpoint."""
    for checkpoint in sorted((path / "checkpoints").glob("step-*"), reverse=True):
        with suppress(NMTError):  # it is being written or removed
            return read_progress(checkpoint)
    return None


def read_test_scores(file: Path) -> list[Record]:
    """Return the name, value and signature of each score of the test text; none before training has ended.

    Raises DataError if the file is damaged.
    """
    remedy = "remove it, and nmt train writes it again"
    scores = read_json(file, remedy) if file.exists() else []
    if not isinstance(scores, list) or not all(_has(score, _TEST_SCORE) for score in scores):
        raise DataError(f"{file}: damaged; {remedy}")
    return scores


def score_name(score: Record) -> str:
    """Return the name of a score of the test text, with the language if there are several: `zh BLEU`."""
    return " ".join(filter(None, (score.get("language"), score["name"])))


def find_runs(folder: Path) -> dict[str, Path]:
    """Return the runs in a folder and up to two levels below it, by relative path; a link is not a second run.

    The folder may be a run itself.
    """
    places = [file.parent for pattern in ("", "*/", "*/*/") for file in folder.glob(f"{pattern}{RUN.name}")]
    # a link is replaced by the folder itself
    distinct = {place.resolve(): place for place in sorted(places, key=lambda place: not place.is_symlink())}
    return {
        real.name if place == folder or place.is_symlink() else str(place.relative_to(folder)): place
        for real, place in distinct.items()
    }


def run_row(name: str, path: Path) -> Row:
    """Return the row of a run; of a run that cannot be read, only the reason, as its remark."""
    row: Row = {"name": name, "path": str(path), "remark": "", "settings": {}, "valid": {}, "test": {}}
    row |= dict.fromkeys(("parameters", "pairs", "pairs_per_epoch", "steps", "epochs", "tokens", "minutes", "device"))
    try:
        run = RunRecords(path)
    except (NMTError, OSError) as error:
        reason = str(error).removeprefix(str(path)).lstrip("/: ").partition(";")[0]
        return row | {"remark": f"training now: {reason}" if lock_holder(path) else reason}
    best, metrics = run.best or {}, dict.fromkeys(score["name"] for score in run.test_scores)
    of_initial_model = {"tokenizer"} if run.recipe.train.init_from else None  # its section is empty
    settings = differences({}, run.recipe.model_dump(mode="json", exclude=of_initial_model))
    return {
        **row,
        **_pairs(run),
        **_costs(run),
        "remark": run.state,
        "settings": {setting.key: setting.now for setting in settings},
        "parameters": _parameters(path),
        "device": run.environment.get("device"),
        "valid": {key: best[key] for key in ("step", "loss", "bleu", "chrf") if key in best},
        "test": {name: fmean(each["value"] for each in run.test_scores if each["name"] == name) for name in metrics},
    }


def _pairs(run: RunRecords) -> Row:
    """Return how many pairs the prepared corpus has, and an epoch, where each has the weight of its text."""
    with suppress(NMTError, OSError, ValueError):  # the last for another number of texts, before a checkpoint
        split, data = run.manifest().train, run.recipe.data
        weights = balancing_weights(split.corpora, data.temperature)
        texts = zip(split.corpora, weights, data.train, strict=True)
        pairs_per_epoch = sum(pairs * weight * text.oversample for pairs, weight, text in texts)
        return {"pairs": split.kept, "pairs_per_epoch": round(pairs_per_epoch)}
    return {}


def _costs(run: RunRecords) -> Row:
    """Return the steps, epochs, target tokens and minutes so far."""
    last = max([*run.train, *run.validations], key=lambda record: float(record["seconds"]), default=_NOTHING)
    steps, epochs, tokens, seconds = (last[key] for key in _NOTHING)
    if run.progress is not None and steps < run.progress.step:  # steps after the last line of the log
        epochs = epochs * run.progress.step / steps if steps else run.progress.epoch
        steps, tokens, seconds = run.progress.step, run.progress.target_tokens, run.progress.seconds
    return {"steps": steps, "epochs": epochs, "tokens": tokens, "minutes": seconds / 60}


def _parameters(run: Path) -> int | None:
    """Return the number of weights in the best checkpoint, from the head of its file."""
    for file in (*run.glob("best/model*.safetensors"), *run.glob("last/model*.safetensors")):
        with suppress(OSError, SafetensorError), safe_open(file, "numpy") as weights:
            return int(sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys()))  # noqa: SIM118
    return None


def differing_settings(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the keys of the recipes whose values differ, with the value in each row; None where it has none.

    Those of the tokenizer are only compared between runs that trained one.

    >>> differing_settings([{"settings": {"seed": 1, "run": "a"}}, {"settings": {"seed": 2, "run": "b"}}])
    {'seed': [1, 2]}
    """
    known = [row["settings"] for row in rows if row["settings"]]
    keys = dict.fromkeys(key for settings in known for key in settings if key not in _PLACES)

    def values(key: str) -> set[str]:
        has_key = [settings for settings in known if key in settings or not key.startswith("tokenizer.")]
        return {json.dumps(settings.get(key)) for settings in has_key}

    differing = [key for key in keys if len(values(key)) > 1]
    texts_last = sorted(differing, key=lambda key: key.startswith("data."))  # they have many keys
    return {key: [row["settings"].get(key) for row in rows] for key in texts_last}


def setting_text(value: object, is_short: bool = True) -> str:
    """Return the value of a setting as text; of an absolute path only the name, if `is_short`.

    >>> setting_text(None), setting_text([1, 2]), setting_text("/data/train.tsv"), setting_text(True)
    ('', '[1, 2]', 'train.tsv', 'true')
    """
    if isinstance(value, str):
        path = Path(value)  # of a model in a run, the run
        name = path.parent.name if path.name in ("best", "last") else path.name
        return name if is_short and value.startswith("/") else value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def in_order(rows: Iterable[Row], order: str) -> list[Row]:
    """Return rows by `validation` or `test` (best BLEU first), `name` or `minutes`; rows without a value are last."""
    values: dict[str, Callable[[Row], float]] = {
        "validation": lambda row: -row["valid"].get("bleu", -1),
        "test": lambda row: -row["test"].get("BLEU", -1),
        "minutes": lambda row: float("inf") if row["minutes"] is None else row["minutes"],
        "name": lambda row: 0,
    }
    return sorted(rows, key=lambda row: (values[order](row), row["name"]))


def columns_of(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return what a table shows of rows besides their settings, by column; columns that are empty are left out."""
    forms = dict.fromkeys(("parameters", "pairs", "steps", "tokens"), ",") | {"minutes": ".1f"}
    scores = {"valid BLEU": ("valid", "bleu"), "test BLEU": ("test", "BLEU"), "test chrF": ("test", "chrF2")}
    columns = {"name": [row["name"] for row in rows]}
    for key, form in forms.items():
        columns[key] = ["" if row[key] is None else format(row[key], form) for row in rows]
    columns["device"] = [(row["device"] or "").partition(" (")[0] for row in rows]
    for name, (part, key) in scores.items():
        columns[name] = [f"{row[part][key]:.2f}" if key in row[part] else "" for row in rows]
    columns["remark"] = [row["remark"] for row in rows]
    return {name: texts for name, texts in columns.items() if any(texts)}
