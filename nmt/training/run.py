"""The run directory: everything that a training leaves behind, and everything that it needs to go on.

recipe.yaml                    the recipe with all defaults filled in
metrics.jsonl                  one JSON object a line: type "train", "validation" or "skipped"
skipped/step-00000123.json     the batch of an update whose loss or gradient was not finite; where several processes
                               train, skipped-1/… are the shares of the others
tensorboard/                   the same for TensorBoard, if train.tensorboard is true
checkpoints/step-00001000/     a model directory, with optimizer.safetensors and progress.json; where the
                               model is a moving average, the weights that learn are training.safetensors
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from nmt.config import Recipe, load_recipe, recipe_to_yaml
from nmt.config.schedules import Falling
from nmt.errors import ConfigError, DamagedError, ModelError
from nmt.model.checkpoint import (
    WEIGHTS_FILE,
    LoadedModel,
    load_weights,
    read_configuration,
    seal,
    weights_of,
    write_model_files,
    write_tensors,
)
from nmt.model.transformer import Transformer
from nmt.system.distributed import all_reduce_max
from nmt.system.files import replace_text, staged_directory
from nmt.training.optimizer import load_optimizer, optimizer_tensors
from nmt.training.progress import PROGRESS_FILE, Progress, read_progress
from nmt.training.run_log import MetricsLog
from nmt.training.tensorboard import TensorBoard

OPTIMIZER_FILE = "optimizer.safetensors"
TRAINING_FILE = "training.safetensors"

_FREE_TO_CHANGE = (
    "name", "run", "prepared", "runtime", "decode", "data.test", "train.stop", "train.log_every",
    "train.validate_every", "train.keep_best", "train.keep_last", "train.tensorboard",
)  # fmt: skip
"""Keys that a resumed run may change, with all below them: they change no update. (Where a schedule depends on
train.stop.steps, the steps belong to the schedule.)"""


Warn = Callable[[str], None]


def _silently(message: str) -> None:
    """Tell nobody."""


class RunDirectory:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = MetricsLog(path / "metrics.jsonl")
        self.board: TensorBoard | None = None
        self.skipped = path / "skipped"
        self.recipe = path / "recipe.yaml"

    @contextmanager
    def locked(self, warn: Warn = _silently) -> Iterator[None]:
        """Hold the run for this process. The system lets go of the lock when the process ends, however it ends.

        Raises ModelError if another process holds it. Where the file system knows no locks, `warn` is told.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ModelError(f"run: {error.filename}: expected a folder for the run, found a file") from None
        with (self.path / "lock").open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                owner = lock.read().strip() or "another process"
                raise ModelError(f"{self.path}: {owner} is training here; stop it, or choose another run:") from None
            except OSError as error:
                warn(f"{lock.name}: no locks here: {error.strerror}; see to it that no other training writes here")
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            yield

    def begin(self, recipe: Recipe, restart: bool) -> None:
        """Make the directory ready for this recipe: new, continued, or with `restart` emptied first.

        Raises ConfigError with the differing keys if the run was made by another recipe.
        """
        self.board = TensorBoard(self.path / "tensorboard") if recipe.train.tensorboard else None
        if restart:
            self._forget()
        self.checkpoints.resolve().mkdir(parents=True, exist_ok=True)
        self._clear_leftovers()
        if self.recipe.exists() and self.saved():
            self._check_same_recipe(recipe)
        replace_text(self.recipe, recipe_to_yaml(recipe))

    def save(
        self,
        loaded: LoadedModel,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        average: Transformer | None = None,
    ) -> Path:
        """Write the checkpoint of the current step, point `last` at it, and `best` at the best.

        Where there is an average, it is what the checkpoint translates with.
        """
        directory = self.checkpoint(progress.step)
        self.metrics.sync()
        if self._is_outdated(directory, progress):
            self._write(directory, loaded, optimizer, progress, average)
        self._point_links(progress)
        return directory

    def _is_outdated(self, directory: Path, progress: Progress) -> bool:
        outdated = not directory.exists() or read_progress(directory) != progress
        return bool(
            all_reduce_max(int(outdated))[0]
        )  # if the weights are in pieces, all processes have to bring theirs

    def _write(
        self,
        directory: Path,
        loaded: LoadedModel,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        average: Transformer | None,
    ) -> None:
        with staged_directory(directory) as staging:
            write_model_files(staging, loaded if average is None else replace(loaded, model=average))
            if average is not None:
                write_tensors(weights_of(loaded.model), staging / TRAINING_FILE)
            write_tensors(optimizer_tensors(optimizer, loaded.model), staging / OPTIMIZER_FILE)
            (staging / PROGRESS_FILE).write_text(json.dumps(asdict(progress), indent=2) + "\n", encoding="utf-8")
            seal(staging)

    def prune(self, keep_best: int, keep_last: int, progress: Progress) -> None:
        """Remove all checkpoints but the newest, the best few, and the last few that were validated."""
        kept = {self.checkpoint(step) for step in (progress.step, *(step for _, step in progress.best[:keep_best]))}
        kept.update(self.validated()[-keep_last:])
        for directory in self.saved():
            if directory not in kept:
                self._remove(directory)

    def resume(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        warn: Warn = _silently,
        average: Transformer | None = None,
    ) -> Progress:
        """Load the newest whole checkpoint into model, optimizer and average; without any return a fresh Progress.

        Any that are damaged are set aside, and `warn` is told. Raises DamagedError if none is whole.
        """
        whole = self._set_damaged_aside(warn)
        if not whole:
            self._keep_log_until(Progress())
            return Progress()
        return self._restore(whole[-1], model, optimizer, average)

    def roll_back(
        self,
        step: int,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        average: Transformer | None = None,
    ) -> Progress:
        """Load an earlier checkpoint, and forget those after it. Raises DamagedError if it is not whole."""
        directory = self.checkpoint(step)
        _check_whole(directory)
        for later in self.saved():
            if later > directory:
                self._remove(later)
        # what a kill before this line leaves can be resumed, with all its metrics
        return self._restore(directory, model, optimizer, average)

    def _restore(
        self, directory: Path, model: Transformer, optimizer: torch.optim.Optimizer, average: Transformer | None
    ) -> Progress:
        progress = read_progress(directory)
        load_weights(model, directory / (WEIGHTS_FILE if average is None else TRAINING_FILE))
        if average is not None:
            load_weights(average, directory / WEIGHTS_FILE)
        optimizer.state.clear()  # a file of no moments leaves none
        load_optimizer(optimizer, model, directory / OPTIMIZER_FILE, progress.step - progress.skipped)
        self._keep_log_until(progress)
        self._point_links(progress)
        return progress

    def _point_links(self, progress: Progress) -> None:
        """Let `last` mean the checkpoint of a step, and `best` the best that is there."""
        point(self.path / "last", self.checkpoint(progress.step))
        best = [self.checkpoint(step) for _, step in progress.best]
        for directory in [directory for directory in best if directory.exists()][:1]:
            point(self.path / "best", directory)

    def _set_damaged_aside(self, warn: Warn) -> list[Path]:
        """Return the checkpoints that are whole, oldest first, after renaming those that are not."""
        damaged: dict[Path, DamagedError] = {}
        for directory in self.saved():
            try:
                _check_whole(directory)
            except DamagedError as error:
                damaged[directory] = error
        whole = [directory for directory in self.saved() if directory not in damaged]
        if damaged and not whole:
            newest = damaged[max(damaged)]
            raise DamagedError(f"{newest}; no checkpoint here is whole: start over with --restart")
        for broken, damage in sorted(damaged.items(), reverse=True):
            aside = broken.with_name(f"damaged-{broken.name}")
            shutil.rmtree(aside, ignore_errors=True)
            broken.rename(aside)
            warn(f"{damage}; set aside as {aside.name}, going on from {whole[-1].name}")
        return whole

    def _remove(self, directory: Path) -> None:
        """Remove a checkpoint so that whoever is killed leaves none that looks damaged."""
        hidden = directory.with_name(f".gone-{directory.name}")
        directory.rename(hidden)
        shutil.rmtree(hidden)

    def _clear_leftovers(self) -> None:
        """Remove what a killed process left, but finish a save that had written all; the lock says that it is over."""
        for leftover in self.checkpoints.glob(".gone-step-*"):
            shutil.rmtree(leftover)
        for leftover in self.checkpoints.glob(".step-*"):
            directory = self.checkpoints / leftover.name[1:].partition(".")[0]
            try:
                _check_whole(leftover)
                leftover.rename(directory)
            except (ModelError, OSError):  # not whole, or the checkpoint is there
                shutil.rmtree(leftover)

    def log(self, record: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl, and to TensorBoard if asked for."""
        self.metrics.append(record)
        if self.board is not None:
            self.board.append(record)

    def _keep_log_until(self, progress: Progress) -> None:
        self.metrics.keep_until(progress.step, progress.validated_at)
        if self.board is not None:
            self.board.keep_until(progress.step)

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def saved(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(self.checkpoints.glob("step-" + 8 * "[0-9]"))

    def validated(self) -> list[Path]:
        """Return the checkpoints that a validation left, not an interruption, oldest first."""
        return [directory for directory in self.saved() if _was_validated(directory)]

    def _forget(self) -> None:
        for folder in (self.checkpoints, self.path / "tensorboard", *self.path.glob("skipped*")):
            shutil.rmtree(folder.resolve(), ignore_errors=True)  # it may be a link to a larger disk
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


def _check_whole(directory: Path) -> None:
    """Raise DamagedError if files of a checkpoint are missing or altered."""
    if PROGRESS_FILE not in read_configuration(directory).get("files", {}):
        raise DamagedError(f"{directory}: it was never finished: its config.json lists no {PROGRESS_FILE}")


def _was_validated(directory: Path) -> bool:
    try:
        progress = read_progress(directory)
    except ModelError:  # set aside when a training resumes; until then it is of no use
        return False
    return progress.validated_at == progress.step


def point(link: Path, directory: Path) -> None:
    """Make `link` a symbolic link to a directory, relative where it can be, replacing what it was in one move."""
    partial = link.with_name(f".{link.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.symlink_to(os.path.relpath(directory, link.parent), target_is_directory=True)
    partial.replace(link)


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
    if key == "train.stop.steps" and isinstance(recipe.train.schedule, Falling):
        return False
    return any(key == free or key.startswith(free + ".") for free in _FREE_TO_CHANGE)
