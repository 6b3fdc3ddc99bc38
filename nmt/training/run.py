"""The run directory: all that a training writes, and all that it needs to resume.

run.json                       the marker: format, version, and the environment in which the run was last opened
recipe.yaml                    the recipe with all defaults filled in
metrics.jsonl                  one JSON object per line: type "train", "validation" or "skipped"
skipped/step-00000123.json     the batch of an update whose loss or gradient was not finite; skipped-1/… are those of
                               the other ranks
tensorboard/                   the same numbers for TensorBoard, with train.tensorboard
checkpoints/step-00001000/     a model directory, with optimizer.safetensors and progress.json; if the model is a moving
                               average, the trained weights are in training.safetensors
best, last                     symbolic links to checkpoints
test.txt, test.json            translations of the test text by the best checkpoint, and their scores
lock                           exists while a training runs

Every rank calls `save`, `load`, `roll_back`, `prune` and `log` together, and only rank 0 writes, apart from its own
skipped batches; `open` and `write` are for rank 0 alone.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.config import Recipe, recipe_to_yaml
from nmt.errors import DamagedError, DataError, ModelError
from nmt.model.checkpoint import (
    WEIGHTS_FILE,
    LoadedModel,
    load_weights,
    read_configuration,
    weights_of,
    write_model_files,
)
from nmt.system import distributed
from nmt.system.device import environment
from nmt.system.files import Report, lock_file, replace_link, staged_directory
from nmt.system.ownership import MODEL, RUN, mark_directory, read_marker, write_recorded
from nmt.system.sealing import seal
from nmt.training.optimizer import load_optimizer, optimizer_tensors
from nmt.training.progress import PROGRESS_FILE, Progress, read_progress
from nmt.training.run_log import MetricsLog, TensorBoard
from nmt.training.step import Updater

OPTIMIZER_FILE = "optimizer.safetensors"
TRAINING_FILE = "training.safetensors"


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

        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ModelError(f"run: {error.filename}: expected a folder for the run, found a file") from None
        except OSError as error:
            raise DataError(f"run: {self.path}: cannot write it: {error.strerror}; name another folder") from None
        try:
            with lock_file(self.path / "lock", refuse, warn):
                yield
        finally:
            with suppress(OSError):
                self.path.rmdir()  # if it is empty: nothing was written

    def open(self, recipe: Recipe, restart: bool = False) -> None:
        """Write marker and recipe, complete or remove what killed processes left, and with `restart` remove all else.

        For rank 0. The caller has checked that the run holds only files of nmt, and that the recipe may continue it.
        """
        if recipe.train.tensorboard:
            self._logs.append(TensorBoard(self.path / "tensorboard"))
        self.path.mkdir(parents=True, exist_ok=True)
        machine = {**environment(recipe.runtime), "processes": distributed.world_size()}
        if restart:
            self._clear()  # first, since a run of another format has another marker
        mark_directory(self.path, RUN, {"environment": machine})
        self.checkpoints.resolve().mkdir(parents=True, exist_ok=True)
        self._clear_leftovers()
        self.write("recipe.yaml", recipe_to_yaml(recipe))

    def write(self, name: str, text: str) -> None:
        """Write a text file of the run, and record its digest: a user's change to it is never overwritten."""
        write_recorded(self.path, RUN, name, text)

    def remove_scores(self) -> None:
        """Remove the scores of the test text, before the training goes on."""
        for name in ("test.json", "test.txt"):
            (self.path / name).unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove all that training wrote, but not the prepared corpus."""
        for folder in (self.checkpoints, self.path / "tensorboard", *self.path.glob("skipped*")):
            # a folder may be a link to a larger disk, and stays one
            for entry in folder.iterdir() if folder.is_dir() else ():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for name in ("metrics.jsonl", "recipe.yaml", "best", "last", "test.json", "test.txt"):
            (self.path / name).unlink(missing_ok=True)

    def _clear_leftovers(self) -> None:
        """Remove what a killed process left, but complete a save that had written all its files."""
        for leftover in (*self.path.glob(".best.*"), *self.path.glob(".last.*")):
            leftover.unlink()
        for leftover in self.checkpoints.glob(".gone-step-*"):
            shutil.rmtree(leftover)
        for leftover in self.checkpoints.glob(".step-*"):
            directory = self.checkpoints / leftover.name[1:].partition(".")[0]
            try:
                check_whole(leftover)
                leftover.rename(directory)
            except (ModelError, OSError):  # incomplete, or the checkpoint exists
                shutil.rmtree(leftover)

    def save(self, loaded: LoadedModel, updater: Updater, progress: Progress) -> Path:
        """Write the checkpoint of the current step unless it exists, and update the links. Collective.

        With a moving average, that is the model of the checkpoint, and the trained weights are stored beside it.
        """
        directory = self.checkpoint(progress.step)
        outdated = not self.rank and (not directory.exists() or read_progress(directory) != progress)
        if distributed.all_reduce_max(int(outdated))[0]:
            # gathering shards is collective, so that all ranks do it; rank 0 writes
            tensors = {OPTIMIZER_FILE: optimizer_tensors(updater.optimizer, updater.model)}
            tensors[WEIGHTS_FILE] = weights_of(updater.model)
            if updater.average is not None:
                tensors[TRAINING_FILE] = tensors[WEIGHTS_FILE]
                tensors[WEIGHTS_FILE] = weights_of(updater.average)
            if not self.rank:
                self.metrics.sync()
                with staged_directory(directory) as staging:
                    write_model_files(staging, loaded, tensors)
                    text = json.dumps(asdict(progress), indent=2) + "\n"
                    (staging / PROGRESS_FILE).write_text(text, encoding="utf-8")
                    seal(staging, MODEL, loaded.configuration())
        self._update_links(progress)
        return directory

    def load(self, directory: Path, updater: Updater) -> Progress:
        """Load a checkpoint into model, optimizer and moving average, and truncate the log to it."""
        progress = read_progress(directory)
        if updater.average is None:
            load_weights(updater.model, directory / WEIGHTS_FILE)
        else:
            load_weights(updater.model, directory / TRAINING_FILE)
            load_weights(updater.average, directory / WEIGHTS_FILE)
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
            if later > directory:
                self._remove(later)
        # a process killed here leaves a run that can resume, with all its metrics
        return self.load(directory, updater)

    def prune(self, keep_best: int, keep_last: int, progress: Progress) -> None:
        """Remove all checkpoints except the newest, the best few, and the last few that were validated."""
        kept = {self.checkpoint(step) for step in (progress.step, *(step for _, step in progress.best[:keep_best]))}
        kept.update(self.validated()[-keep_last:])
        for directory in self.saved():
            if directory not in kept:
                self._remove(directory)

    def _remove(self, directory: Path) -> None:
        """Remove a checkpoint; a process killed on the way leaves none that seems damaged.

        Files that a user put into it while training ran remain, and the next `nmt train` names them.
        """
        if not self.rank:
            hidden = directory.with_name(f".gone-{directory.name}")
            directory.rename(hidden)
            written = {MODEL.marker, *read_marker(hidden, MODEL).get("files", ())}
            for entry in hidden.iterdir():
                if entry.name in written:
                    entry.unlink()
            with suppress(OSError):  # it is not empty
                hidden.rmdir()

    def _update_links(self, progress: Progress) -> None:
        """Point `last` at the checkpoint of a step, and `best` at the best one that exists."""
        if self.rank:
            return
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
        return sorted(self.checkpoints.glob("step-" + 8 * "[0-9]"))

    def validated(self) -> list[Path]:
        """Return the checkpoints that a validation wrote, not an interruption, oldest first."""
        return [directory for directory in self.saved() if _was_validated(directory)]

    @property
    def best(self) -> Path:
        """The best checkpoint, or the last one if none was validated."""
        return self.path / ("best" if (self.path / "best").exists() else "last")


def check_whole(directory: Path) -> None:
    """Raise DamagedError if files of a checkpoint are missing or altered."""
    if PROGRESS_FILE not in read_configuration(directory).get("files", {}):
        raise DamagedError(f"{directory}: incomplete: its config.json lists no {PROGRESS_FILE}")


def _was_validated(directory: Path) -> bool:
    try:
        progress = read_progress(directory)
    except ModelError:  # damaged: set aside when a training resumes
        return False
    return progress.validated_at == progress.step
