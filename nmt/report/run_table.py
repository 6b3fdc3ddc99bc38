"""What a table of runs shows: settings that differ, what each run costs, and what it reaches; without torch."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from safetensors import SafetensorError, safe_open

from nmt.config.section import differences
from nmt.errors import NMTError
from nmt.report.run_records import RunRecords
from nmt.system.files import lock_holder
from nmt.text.manifest import Manifest
from nmt.training.progress import RUN

Row = dict[str, Any]
# Settings that name a place, and decide no result.
_PLACES = ("run", "prepared")
_FOLDERS = ("", "*/", "*/*/")


def find_runs(folder: Path) -> dict[str, Path]:
    """Return the runs in a folder and in the folders in it, by their place there; a link is no second run.

    The folder may be a run itself.
    """
    places = [file.parent for pattern in _FOLDERS for file in folder.glob(f"{pattern}{RUN.name}")]
    distinct: dict[Path, Path] = {}
    for place in sorted(places, key=lambda place: (place.is_symlink(), place)):
        distinct.setdefault(place.resolve(), place)
    return {
        real.name if place == folder or place.is_symlink() else str(place.relative_to(folder)): place
        for real, place in distinct.items()
    }


def run_row(name: str, path: Path) -> Row:
    """Return the row of a run; of a run that cannot be read, only the reason, as its remark."""
    row: Row = {"name": name, "path": str(path), "remark": "", "settings": {}, "valid": {}, "test": {}}
    row |= dict.fromkeys(("parameters", "pairs", "steps", "epochs", "tokens", "minutes", "device"))
    try:
        run = RunRecords(path)
    except (NMTError, OSError) as error:
        reason = str(error).removeprefix(f"{path}: ").partition(";")[0]
        return row | {"remark": f"training now: {reason}" if lock_holder(path) else reason}
    state, reason = run.state
    last, best = run.last, run.best or {}
    with suppress(NMTError, OSError):
        row["pairs"] = Manifest.read(run.prepared).train.kept
    metrics = {score["name"] for score in run.test_scores}
    return row | {
        "remark": "" if state == "complete" else f"{state} {reason}" if state == "training" else state,
        "settings": {one.key: one.now for one in differences({}, run.recipe.model_dump(mode="json"))},
        "parameters": _parameters(path),
        "steps": run.step,
        "epochs": last["epoch"],
        "tokens": last["target_tokens"],
        "minutes": last["seconds"] / 60,
        "device": run.environment.get("device"),
        "valid": {key: best[key] for key in ("step", "loss", "bleu", "chrf") if key in best},
        "test": {one: fmean(each["value"] for each in run.test_scores if each["name"] == one) for one in metrics},
    }


def _parameters(run: Path) -> int | None:
    """Return the number of weights in the best checkpoint, from the head of its file."""
    for file in (*run.glob("best/model*.safetensors"), *run.glob("last/model*.safetensors")):
        with suppress(OSError, SafetensorError), safe_open(file, "numpy") as weights:
            return int(sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys()))  # noqa: SIM118
    return None


def differing_settings(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the keys of the recipes whose values differ, with the value in each row; None where it has no recipe.

    >>> differing_settings([{"settings": {"seed": 1, "run": "a"}}, {"settings": {"seed": 2, "run": "b"}}])
    {'seed': [1, 2]}
    """
    known = [row["settings"] for row in rows if row["settings"]]
    keys = dict.fromkeys(key for settings in known for key in settings if key not in _PLACES)
    differing = [key for key in keys if len({json.dumps(settings.get(key)) for settings in known}) > 1]
    differing.sort(key=lambda key: key.startswith("data."))  # the texts have many keys
    return {key: [row["settings"].get(key) for row in rows] for key in differing}


def setting_text(value: object, is_short: bool = True) -> str:
    """Return the value of a setting as text; of an absolute path its name, if it is to be short.

    >>> setting_text(None), setting_text([1, 2]), setting_text("/data/train.tsv"), setting_text(True)
    ('', '[1, 2]', 'train.tsv', 'true')
    """
    if isinstance(value, str):
        return Path(value).name if is_short and value.startswith("/") else value
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
    columns = {"name": [row["name"] for row in rows]}
    columns |= {
        key: ["" if row[key] is None else f"{row[key]:,}" for row in rows]
        for key in ("parameters", "pairs", "steps", "tokens")
    }
    columns["minutes"] = ["" if row["minutes"] is None else f"{row['minutes']:.1f}" for row in rows]
    columns["device"] = [(row["device"] or "").partition(" (")[0] for row in rows]
    for name, part, key in (
        ("valid BLEU", "valid", "bleu"),
        ("test BLEU", "test", "BLEU"),
        ("test chrF", "test", "chrF2"),
    ):
        columns[name] = [f"{row[part][key]:.2f}" if key in row[part] else "" for row in rows]
    columns["remark"] = [row["remark"] for row in rows]
    return {name: texts for name, texts in columns.items() if any(texts)}
