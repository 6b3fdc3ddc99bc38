"""The files of a checkpoint, which is a model directory with what resuming needs: written, read, removed."""

import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from nmt.model.checkpoint import load_weights, weights_of, write_model
from nmt.model.stored import CONFIG_FILE, WEIGHTS_FILE, LoadedModel
from nmt.system.files import disk_errors, write_digested
from nmt.text.tokenizer import TOKENIZER_NAMES
from nmt.training.optimizer import load_optimizer, optimizer_tensors
from nmt.training.progress import PROGRESS_FILE, PROGRESS_VERSION, Progress, read_progress
from nmt.training.update import Updater

OPTIMIZER_FILE = "optimizer.safetensors"
# in the order in which they are removed
_FILES = (CONFIG_FILE, PROGRESS_FILE, WEIGHTS_FILE, OPTIMIZER_FILE, *TOKENIZER_NAMES)
# names of unfinished files of a killed process: those of safetensors, and those of `write_output`
_UNFINISHED = re.compile(r"\.tmp\w{6}|\.(config|progress)\.json\.[0-9a-f]{8}\.partial")


def write_checkpoint(directory: Path, loaded: LoadedModel, updater: Updater, progress: Progress) -> None:
    """Write the checkpoint of the current step, or only its progress if it exists."""
    try:
        with disk_errors(directory):
            directory.mkdir(exist_ok=True)
            write_digested(directory / PROGRESS_FILE, PROGRESS_VERSION, asdict(progress))
            if not is_checkpoint(directory):
                moments = optimizer_tensors(updater.optimizer, updater.weights)
                write_model(directory, loaded, {OPTIMIZER_FILE: moments, WEIGHTS_FILE: weights_of(updater.model)})
    except BaseException:
        if not is_checkpoint(directory):
            remove_checkpoint(directory)  # a full disk needs the space
        raise


def load_checkpoint(directory: Path, updater: Updater) -> Progress:
    """Load a checkpoint into model and optimizer; return its progress."""
    progress, optimizer = read_progress(directory), updater.optimizer
    load_weights(updater.model, directory / WEIGHTS_FILE)
    load_optimizer(optimizer, updater.weights, directory / OPTIMIZER_FILE, step=progress.step - progress.skipped)
    return progress


def is_checkpoint(directory: Path) -> bool:
    """Return whether a folder is a complete checkpoint, rather than one that is being written or removed, or a link."""
    return (directory / CONFIG_FILE).is_file() and not directory.is_symlink()


def remove_checkpoint(directory: Path) -> None:
    """Remove the files of a checkpoint, and its folder unless a user has put other files into it; or only a link."""
    if directory.is_symlink():
        directory.unlink()
        return
    for name in _FILES:
        with suppress(IsADirectoryError, NotADirectoryError):  # what a user has put there
            (directory / name).unlink(missing_ok=True)
    remove_unfinished(directory)
    with suppress(OSError):  # it is not empty
        directory.rmdir()


def remove_unfinished(directory: Path, names: re.Pattern[str] = _UNFINISHED) -> None:
    """Remove unfinished files of a killed process from a checkpoint, or those with other `names` from a run."""
    for path in list(directory.iterdir()) if directory.is_dir() else []:
        if names.fullmatch(path.name) and (path.is_symlink() or path.is_file()):
            path.unlink()
