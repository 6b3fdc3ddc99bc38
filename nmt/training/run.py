"""The run directory: all that a training writes, and all that it needs to resume.

run.json                       format, version, and the environment in which the run was last opened; other files in the
                               folder are ignored and kept
recipe.yaml                    the recipe with all defaults filled in; paths in the run start there, so that a copy
                               of the run names itself
metrics.jsonl                  one JSON object per line: type "train", "validation" or "skipped"
skipped/step-00000123.json     the batch of an update whose loss or gradient was not finite; skipped-1/… are those of
                               the other ranks
tensorboard/                   the same numbers for TensorBoard, with train.tensorboard
checkpoints/step-00001000/     a model directory, with optimizer.safetensors and progress.json. config.json is written
                               last and removed first: a folder without it is no checkpoint
best, last                     symbolic links to checkpoints
test.txt, test.json            translations of the test text by the best checkpoint, and their scores
lock                           held while a training runs

Every rank calls `save`, `load`, `roll_back`, `prune` and `log` together, and only rank 0 writes, apart from its own
skipped batches; `open` is for rank 0 alone.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.config import Recipe, load_recipe, recipe_to_yaml
from nmt.errors import ConfigError, ModelError
from nmt.model.checkpoint import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    LoadedModel,
    load_weights,
    read_configuration,
    weights_of,
    write_model,
)
from nmt.system import distributed
from nmt.system.device import environment
from nmt.system.files import Report, disk_errors, lock_folder, replace_link, write_output
from nmt.text.tokenizer import TOKENIZER_NAMES
from nmt.training.optimizer import load_optimizer, optimizer_tensors
from nmt.training.progress import PROGRESS_FILE, RUN, Progress, read_progress
from nmt.training.run_log import MetricsLog, TensorBoard
from nmt.training.step import Updater

OPTIMIZER_FILE = "optimizer.safetensors"
# in the order in which they are removed
_CHECKPOINT_FILES = (CONFIG_FILE, PROGRESS_FILE, WEIGHTS_FILE, OPTIMIZER_FILE, *TOKENIZER_NAMES)
_STEP = "step-" + 8 * "[0-9]"
_LINKS = ("best", "last")


def ignore(message: str) -> None:
    """Discard a message."""


class RunDirectory:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = MetricsLog(path / "metrics.jsonl")
        self.recipe = path / "recipe.yaml"
        self.rank = distributed.rank()
        self._logs: list[MetricsLog | TensorBoard] = [] if self.rank else [self.metrics]
        self.skipped = path / (f"skipped-{self.rank}" if self.rank else "skipped")

    @contextmanager
    def locked(self, warn: Report = ignore) -> Iterator[None]:
        """Hold the run for this process; the system releases the lock when the process ends.

        Raises ModelError if another process holds it; warns on a file system without locks.
        """
        if self.rank:
            yield
            return

        def refuse(holder: str) -> None:
            raise ModelError(f"{self.path}: {holder} is training here; stop it, or set 'run' to another folder")

        with lock_folder(self.path, refuse, warn):
            yield

    def open(self, recipe: Recipe, restart: bool = False) -> None:
        """Write run.json and the recipe, and remove what a killed process left; with `restart` remove the run before.

        For rank 0. The caller has checked that the folder may be a run, and that the recipe may continue it.
        """
        if recipe.train.tensorboard:
            self._logs.append(TensorBoard(self.path / "tensorboard"))
        self.path.mkdir(parents=True, exist_ok=True)
        machine = {**environment(recipe.runtime), "processes": distributed.world_size()}
        if restart:
            self._clear()
        RUN.write(self.path, {"environment": machine})
        self.checkpoints.resolve().mkdir(parents=True, exist_ok=True)  # it may be a link to a larger disk
        for directory in self.checkpoints.glob(_STEP):
            if not is_checkpoint(directory):
                remove_checkpoint(directory)
        if self._recorded_recipe() != recipe:  # else it stays, with the comments of a user
            write_output(self.recipe, recipe_to_yaml(recipe, self.path))

    def _recorded_recipe(self) -> Recipe | None:
        """Return the recipe of the run; None if there is none or, before a restart, a damaged one."""
        try:
            return load_recipe(self.recipe)
        except ConfigError:
            return None

    def remove_scores(self) -> None:
        """Remove the scores of the test text, before the training goes on."""
        for name in ("test.json", "test.txt"):
            (self.path / name).unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove all that training wrote, but not the prepared corpus, and no other files."""
        for directory in (*self.checkpoints.glob(_STEP), *self.checkpoints.glob(f"damaged-{_STEP}")):
            remove_checkpoint(directory)
        written = (self.path.glob("skipped*/step-*.json"), self.path.glob("tensorboard/events.out.tfevents.*"))
        for name in _LINKS:
            self._remove_copied(name)
        for file in (self.metrics.file, *(self.path / name for name in _LINKS), *written[0], *written[1]):
            file.unlink(missing_ok=True)
        self.remove_scores()

    def _remove_copied(self, name: str) -> None:
        """Remove the copy of a checkpoint in the place of a link, which programs that copy runs may leave."""
        if (link := self.path / name).is_dir() and not link.is_symlink():
            remove_checkpoint(link)

    def save(self, loaded: LoadedModel, updater: Updater, progress: Progress) -> Path:
        """Write the checkpoint of the current step unless it exists, and update the links. Collective."""
        directory = self.checkpoint(progress.step)
        outdated = not self.rank and not (is_checkpoint(directory) and read_progress(directory) == progress)
        if distributed.all_reduce_max(int(outdated))[0]:
            # gathering shards is collective, so that all ranks do it; rank 0 writes
            tensors = {OPTIMIZER_FILE: optimizer_tensors(updater.optimizer, updater.model)}
            tensors[WEIGHTS_FILE] = weights_of(updater.model)
            if not self.rank:
                self.metrics.sync()
                self._write_checkpoint(directory, loaded, tensors, progress)
        self._update_links(progress)
        return directory

    def _write_checkpoint(
        self, directory: Path, loaded: LoadedModel, tensors: dict[str, dict[str, Tensor]], progress: Progress
    ) -> None:
        """Write the files of a checkpoint; of one of this step that exists, the progress only."""
        try:
            with disk_errors(directory):
                directory.mkdir(exist_ok=True)
                write_output(directory / PROGRESS_FILE, json.dumps(asdict(progress), indent=2) + "\n")
                if not is_checkpoint(directory):
                    write_model(directory, loaded, tensors)
        except BaseException:
            if not is_checkpoint(directory):
                remove_checkpoint(directory)  # a full disk needs the space
            raise

    def load(self, directory: Path, updater: Updater) -> Progress:
        """Load a checkpoint into model and optimizer, and truncate the log to it."""
        progress = read_progress(directory)
        load_weights(updater.model, directory / WEIGHTS_FILE)
        applied = progress.step - progress.skipped
        load_optimizer(updater.optimizer, updater.model, directory / OPTIMIZER_FILE, applied)
        self.truncate_log(progress)
        self._update_links(progress)
        return progress

    def roll_back(self, step: int, updater: Updater) -> Progress:
        """Load an earlier checkpoint and remove all later ones. Raises DamagedError if it is damaged."""
        directory = self.checkpoint(step)
        check_whole(directory)
        for later in self.saved():
            if later > directory and not self.rank:
                remove_checkpoint(later)
        # a process killed here leaves a run that can resume, with all its metrics
        return self.load(directory, updater)

    def prune(self, keep_best: int, keep_last: int, progress: Progress) -> None:
        """Remove all checkpoints except the newest, the best few, and the last few that were validated."""
        kept = {self.checkpoint(step) for step in (progress.step, *(step for _, step in progress.best[:keep_best]))}
        kept.update(self.validated()[-keep_last:])
        for directory in self.saved():
            if directory not in kept and not self.rank:
                remove_checkpoint(directory)

    def _update_links(self, progress: Progress) -> None:
        """Point `last` at the checkpoint of a step, and `best` at the best one that exists."""
        if self.rank:
            return
        for name in _LINKS:
            self._remove_copied(name)
        replace_link(self.path / "last", self.checkpoint(progress.step))
        best = (self.checkpoint(step) for _, step in progress.best)
        if directory := next((directory for directory in best if directory.exists()), None):
            replace_link(self.path / "best", directory)

    def log(self, record: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl, and to TensorBoard with train.tensorboard."""
        for log in self._logs:
            log.append(record)

    def truncate_log(self, progress: Progress) -> None:
        """Drop all that was logged after a checkpoint."""
        for log in self._logs:
            log.truncate(progress.step, progress.validated_at)

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def saved(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(filter(is_checkpoint, self.checkpoints.glob(_STEP)))

    def validated(self) -> list[Path]:
        """Return the checkpoints that a validation wrote, not an interruption, oldest first."""
        return [directory for directory in self.saved() if _was_validated(directory)]

    @property
    def best(self) -> Path:
        """The best checkpoint, or the last one if none was validated."""
        return self.path / ("best" if (self.path / "best").exists() else "last")


def is_checkpoint(directory: Path) -> bool:
    """Return whether a folder is a complete checkpoint, rather than one that is being written or removed."""
    return (directory / CONFIG_FILE).is_file()


def check_whole(directory: Path) -> None:
    """Raise DamagedError if files of a checkpoint are missing or altered."""
    read_configuration(directory)
    read_progress(directory)


def remove_checkpoint(directory: Path) -> None:
    """Remove the files of a checkpoint, and its folder unless a user has put other files into it."""
    for name in _CHECKPOINT_FILES:
        (directory / name).unlink(missing_ok=True)
    with suppress(OSError):  # it is not empty
        directory.rmdir()


def _was_validated(directory: Path) -> bool:
    try:
        progress = read_progress(directory)
    except ModelError:  # damaged: set aside when a training resumes
        return False
    return progress.validated_at == progress.step
