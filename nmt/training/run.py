"""The run directory: all that a training writes, and all that it needs to resume.

run.json                       format, version, and the environment in which the run was last trained; other files in
                               the folder are ignored and kept
recipe.yaml                    the recipe with all defaults filled in; paths inside the run are relative to it, so
                               that they are valid in a copy of the run
metrics.jsonl                  one JSON object per line: type "train", "validation", "skipped" or "diverged". A resumed
                               training appends: when it is read, a record replaces earlier records of the same and
                               later steps
tensorboard/                   the same numbers, samples, settings and scores for TensorBoard, with train.tensorboard
checkpoints/step-00001000/     a model directory, with optimizer.safetensors and progress.json. config.json is written
                               last and removed first: a folder without it is no checkpoint. progress.json has its own
                               digest, since it may be replaced alone
best, last                     symbolic links to checkpoints
train.log                      all messages of all its trainings, with their times
valid.txt                      translations of the validation text by the best checkpoint, greedy
test.txt, test.json            translations of the test text by the best checkpoint, and their scores
lock                           held while a training runs

Only rank 0 writes; all ranks load. A run may come from an untrusted source: a symbolic link in place of a file is never
followed to write.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

from nmt.config import Recipe, load_recipe, recipe_to_yaml
from nmt.errors import ConfigError, ModelError
from nmt.kernels.device import environment
from nmt.model.stored import CONFIG_FILE, LoadedModel
from nmt.system import distributed
from nmt.system.files import disk_errors, lock_folder, real_path, regular_file, replace_link, write_output
from nmt.training.checkpoint_files import is_checkpoint, remove_checkpoint, remove_unfinished, write_checkpoint
from nmt.training.progress import RUN, Progress
from nmt.training.tensorboard import TensorBoard
from nmt.training.update import Updater

# names of unfinished files of a killed process
_UNFINISHED = re.compile(r"\.(run\.json|recipe\.yaml|(valid|test)\.txt|test\.json|best|last)\.[0-9a-f]{8}\.partial")
_STEP = "step-" + 8 * "[0-9]"


class RunDirectory:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.recipe = path / "recipe.yaml"
        self.board: TensorBoard | None = None  # with train.tensorboard, on rank 0

    def locked(self, warn: Callable[[str], None] = lambda message: None) -> AbstractContextManager[None]:
        """Lock the run for this process; the system releases the lock when the process ends.

        Raises ModelError if another process holds it; warns on a file system without locks.
        """

        def refuse(holder: str) -> None:
            raise ModelError(f"{self.path}: {holder} is training here; stop it, or set 'run' to another folder")

        return nullcontext() if distributed.rank() else lock_folder(self.path, refuse, warn)

    def remove_scores(self) -> None:
        """Remove the scores of the test text, before the training continues."""
        for name in ("test.json", "test.txt"):
            (self.path / name).unlink(missing_ok=True)

    def open(self, recipe: Recipe, restart: bool = False) -> None:
        """Remove unfinished files; with `restart`, remove the previous run; record a new one, see `record`.

        The caller has checked that the folder may be a run, and that the recipe may continue it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.path, _UNFINISHED)
        if restart:
            self._remove_results()
        if not self.saved():
            self.record(recipe, Progress())  # first: a folder without run.json and with other files is no run
        with disk_errors(self.checkpoints):
            real_path(self.checkpoints).mkdir(parents=True, exist_ok=True)  # it may be a link to a larger disk
        for directory in self.checkpoints.glob(_STEP):
            if restart or not is_checkpoint(directory):
                remove_checkpoint(directory)
            else:
                remove_unfinished(directory)
        if recipe.train.tensorboard:
            next_step = 1 + max([0, *(int(directory.name[-8:]) for directory in self.saved())])
            self.board = TensorBoard(self.path, recipe, next_step)
        self._remove_unfinished_record()

    def record(self, recipe: Recipe, progress: Progress) -> None:
        """Write run.json and the recipe; of a training that was finished and stays so, only what updates do not use."""
        before = None
        with suppress(ConfigError):  # there is none or, before a restart, a damaged one
            before = load_recipe(self.recipe)
        if before is not None and progress.finished(before.train) and progress.finished(recipe.train):
            recipe = recipe.model_copy(update={"train": before.train, "runtime": before.runtime})
        else:
            RUN.write(
                self.path, {"environment": {**environment(recipe.runtime), "processes": distributed.world_size()}}
            )
        if recipe != before:  # else it stays, with the comments of a user
            write_output(self.recipe, recipe_to_yaml(recipe, self.path), follow=False)

    def _remove_results(self) -> None:
        """Remove the results of a previous training; its checkpoints are none any more, and can be removed later."""
        for directory in self.saved():
            (directory / CONFIG_FILE).unlink()  # first: so none is resumed if this process is killed
        for name in ("best", "last"):
            remove_checkpoint(self.path / name)  # a link, or a copy of a checkpoint, see `link`
        for file in (self.metrics, self.path / "valid.txt", *self.path.glob("tensorboard/events.out.tfevents.*")):
            file.unlink(missing_ok=True)
        self.remove_scores()

    def _remove_unfinished_record(self) -> None:
        """Remove the part of a line that a killed process or a full disk may have left at the end of the log."""
        if self.metrics.exists():
            with disk_errors(self.metrics), open(self.metrics, "r+b", opener=regular_file) as stream:
                stream.truncate(stream.read().rfind(b"\n") + 1)

    def save(self, loaded: LoadedModel, updater: Updater, progress: Progress, keep_best: int | Literal["all"]) -> None:
        """Write the checkpoint of the current step, or only its progress if it exists, and point `last` at it.

        All others except the best few are removed, unless `keep_best` is "all", or the last update was not finite: then
        the training may have diverged, and an older checkpoint may be better.
        """
        directory = self.checkpoint(progress.step)
        write_checkpoint(directory, loaded, updater, progress)
        self.link(progress)
        if keep_best == "all" or progress.skipped_in_a_row:
            return
        best = [self.checkpoint(step) for *_, step in progress.best[:keep_best]]
        for saved in self.saved():
            if saved not in (directory, *best):
                remove_checkpoint(saved)

    def link(self, progress: Progress) -> None:
        """Point `last` at the checkpoint of a step, and `best` at the best one that exists."""
        for name in ("last", "best"):
            symlink = self.path / name
            if is_checkpoint(symlink):  # not a link: a program has copied the targets of the links
                remove_checkpoint(symlink)
        replace_link(self.path / "last", self.checkpoint(progress.step))
        best = (self.checkpoint(step) for *_, step in progress.best)
        if directory := next(filter(is_checkpoint, best), None):
            replace_link(self.path / "best", directory)
        elif (self.path / "best").is_symlink():  # in a run of others it may lead anywhere
            (self.path / "best").unlink()

    def log_message(self, line: str) -> None:
        """Append a message to train.log; no training ends because that is impossible."""
        with suppress(OSError), open(self.path / "train.log", "a", encoding="utf-8", opener=regular_file) as stream:
            stream.write(line)

    def log(self, record: dict[str, Any]) -> None:
        """Append a record to metrics.jsonl, and its numbers to TensorBoard with train.tensorboard; on rank 0."""
        if distributed.rank():
            return
        with disk_errors(self.metrics), open(self.metrics, "a", encoding="utf-8", opener=regular_file) as stream:
            stream.write(json.dumps(record, allow_nan=False) + "\n")
        if self.board is not None:
            self.board.log(record)

    def write_translations(self, name: str, texts: Sequence[Sequence[str]]) -> None:
        """Write the translations of one text after the other, a line each; on rank 0."""
        if not distributed.rank():
            content = "".join(f"{line}\n" for lines in texts for line in lines)
            write_output(self.path / name, content, follow=False)

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def saved(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(filter(is_checkpoint, self.checkpoints.glob(_STEP)))

    @property
    def best(self) -> Path:
        """The best checkpoint, or the last one if none was validated."""
        return self.path / ("best" if (self.path / "best").exists() else "last")
