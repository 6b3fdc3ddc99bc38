"""The run directory: everything that a training leaves behind, and everything that it needs to go on.

recipe.yaml                    the recipe with all defaults filled in
metrics.jsonl                  one JSON object a line: type "train" or "validation"
checkpoints/step-00001000/     a model directory, with optimizer.safetensors and progress.json
best, last                     links to checkpoints
lock                           held while a training writes here
"""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config import Recipe, load_recipe, recipe_to_yaml
from nmt.errors import ConfigError, DamagedError, ModelError
from nmt.model.checkpoint import (
    LoadedModel,
    load_weights,
    read_configuration,
    read_tensors,
    seal,
    write_model_files,
    write_tensors,
)
from nmt.model.transformer import Transformer
from nmt.staging import staged_directory

OPTIMIZER_FILE = "optimizer.safetensors"
PROGRESS_FILE = "progress.json"

_FREE_TO_CHANGE = (
    "name", "run", "prepared", "runtime", "decode", "data.test", "train.stop", "train.log_every",
    "train.validate_every", "train.keep_best",
)  # fmt: skip
"""Keys that a resumed run may change, with all below them: they change no update. (Where a schedule depends on
train.stop.steps, the steps belong to the schedule.)"""


@dataclass
class Window:
    """Sums since the last line of the log."""

    loss: float = 0.0
    likelihood: float = 0.0
    gradient_norm: float = 0.0
    steps: int = 0
    target_tokens: int = 0
    padded_target_tokens: int = 0
    seconds: float = 0.0


@dataclass
class Progress:
    """How far a training is: all that the next step depends on, beside weights and moments."""

    step: int = 0
    epoch: int = 0
    group: int = 0  # of the epoch's plan, the next to be read
    target_tokens: int = 0
    seconds: float = 0.0
    validated_at: int = 0  # the step of the last validation
    validations_without_gain: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)  # (metric, step), best first
    window: Window = field(default_factory=Window)
    corpus: str = ""  # fingerprint of the prepared corpus


class RunDirectory:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.recipe = path / "recipe.yaml"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process. The system lets go of the lock when the process ends, however it ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ModelError(f"run: {error.filename}: expected a folder for the run, found a file") from None
        with (self.path / "lock").open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                owner = lock.read().strip() or "another process"
                raise ModelError(f"{self.path}: {owner} is training here; stop it, or choose another run:") from None
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            yield

    def begin(self, recipe: Recipe, restart: bool) -> None:
        """Make the directory ready for this recipe: new, continued, or with `restart` emptied first.

        Raises ConfigError with the differing keys if the run was made by another recipe.
        """
        if restart:
            self._forget()
        if self.recipe.exists() and self.saved():
            self._check_same_recipe(recipe)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        # of a save that was killed; the lock says that it is not going on
        for leftover in self.checkpoints.glob(".step-*"):
            shutil.rmtree(leftover)
        _replace_text(self.recipe, recipe_to_yaml(recipe))

    def save(self, loaded: LoadedModel, optimizer: torch.optim.Optimizer, progress: Progress) -> Path:
        """Write the checkpoint of the current step, point `last` at it, and `best` at the best."""
        directory = self.checkpoint(progress.step)
        if not directory.exists() or read_progress(directory) != progress:
            with staged_directory(directory) as staging:
                write_model_files(staging, loaded)
                write_tensors(optimizer_tensors(optimizer, loaded.model), staging / OPTIMIZER_FILE)
                (staging / PROGRESS_FILE).write_text(json.dumps(asdict(progress), indent=2) + "\n", encoding="utf-8")
                seal(staging)
        point(self.path / "last", directory)
        if progress.best:
            point(self.path / "best", self.checkpoint(progress.best[0][1]))
        return directory

    def prune(self, keep_best: int, progress: Progress) -> None:
        """Remove all checkpoints but the newest and the best few."""
        kept = {progress.step, *(step for _, step in progress.best[:keep_best])}
        for directory in self.saved():
            if int(directory.name.removeprefix("step-")) not in kept:
                shutil.rmtree(directory)

    def resume(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        warn: Callable[[str], None] = lambda message: None,
    ) -> Progress:
        """Load the newest whole checkpoint into model and optimizer; without any return a fresh Progress.

        Newer ones that are damaged are set aside, and `warn` is told. Raises DamagedError if none is whole.
        """
        if not self.saved():
            self._truncate_metrics(0)
            return Progress()
        directory = self._newest_whole(warn)
        load_weights(model, directory / "model.safetensors")
        progress = read_progress(directory)
        load_optimizer(optimizer, model, directory / OPTIMIZER_FILE, progress.step)
        self._truncate_metrics(progress.step)
        return progress

    def _newest_whole(self, warn: Callable[[str], None]) -> Path:
        damaged: dict[Path, DamagedError] = {}
        for directory in reversed(self.saved()):
            try:
                read_configuration(directory)
            except DamagedError as error:
                damaged[directory] = error
                continue
            for broken, damage in damaged.items():
                aside = broken.with_name(f"damaged-{broken.name}")
                shutil.rmtree(aside, ignore_errors=True)
                broken.rename(aside)
                warn(f"{damage}; set aside as {aside.name}, going on from {directory.name}")
            return directory
        raise DamagedError(f"{next(iter(damaged.values()))}; no checkpoint here is whole: start over with --restart")

    def log(self, record: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def saved(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(self.checkpoints.glob("step-" + 8 * "[0-9]"))

    def _truncate_metrics(self, step: int) -> None:
        """Drop what was logged after the checkpoint, for it will be logged again."""
        if self.metrics.exists():
            lines = self.metrics.read_text(encoding="utf-8").split("\n")
            # a line that a kill cut short cannot be followed by a checkpoint, so it may go
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= step]
            _replace_text(self.metrics, "".join(line + "\n" for line in kept))

    def _forget(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        for name in ("metrics.jsonl", "recipe.yaml", "best", "last", "test.json", "test.txt"):
            (self.path / name).unlink(missing_ok=True)

    def _check_same_recipe(self, recipe: Recipe) -> None:
        before = _flat(load_recipe(self.recipe).model_dump(mode="json"))
        now = _flat(recipe.model_dump(mode="json"))
        differing = [
            f"  {key}: was {before.get(key)!r}, now {now.get(key)!r}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and not _may_change(key, recipe)
        ]
        if differing:
            raise ConfigError(
                "\n".join(
                    [
                        f"{self.path}: this run was started with another recipe:",
                        *differing,
                        "choose another run:, undo the change, or start over with --restart.",
                        f"Free to change on the way: {', '.join(_FREE_TO_CHANGE)}",
                    ]
                )
            )


def read_progress(directory: Path) -> Progress:
    """Read how far a checkpoint is."""
    content = json.loads((directory / PROGRESS_FILE).read_text(encoding="utf-8"))
    window = Window(**content.pop("window"))
    best = [(value, step) for value, step in content.pop("best")]
    return Progress(**content, best=best, window=window)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: Transformer) -> dict[str, Tensor]:
    """Return Adam's moments by weight name on the CPU; empty before the first step."""
    return {
        f"{moment}/{name}": optimizer.state[parameter][moment].detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for moment in ("exp_avg", "exp_avg_sq")
        if parameter in optimizer.state
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: Transformer, file: Path, step: int) -> None:
    """Fill Adam's moments from a file that `optimizer_tensors` filled after `step` steps."""
    tensors = read_tensors(file)
    if not tensors:
        return
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        state["step"] = torch.tensor(float(step), dtype=torch.float32, device=parameter.device)
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = tensors[f"{moment}/{name}"].to(parameter.device)


def point(link: Path, directory: Path) -> None:
    """Make `link` a symbolic link to a directory, relative where it can be, replacing what it was in one move."""
    partial = link.with_name(f".{link.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.symlink_to(os.path.relpath(directory, link.parent), target_is_directory=True)
    partial.replace(link)


def _replace_text(file: Path, text: str) -> None:
    """Write a file so that whoever is killed leaves it as it was or as it shall be."""
    partial = file.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Return nested mappings and lists as one mapping from dotted keys."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return {key: value}
    return {k: v for name, inner in items for k, v in _flat(inner, f"{key}.{name}" if key else str(name)).items()}


def _may_change(key: str, recipe: Recipe) -> bool:
    section, _, last = key.rpartition(".")
    if section.startswith("data.") and last in ("tsv", "source", "target"):
        return True  # where a text lies; that it is the same text, the prepared corpus' fingerprint tells
    if key == "train.stop.steps" and recipe.train.schedule.name == "linear":
        return False
    return any(key == free or key.startswith(free + ".") for free in _FREE_TO_CHANGE)
