"""Whether a run may continue with a recipe, and how it continues: from its newest checkpoint that is not damaged."""

from nmt.config import Recipe, load_recipe
from nmt.config.recorded import differences
from nmt.errors import ConfigError, DamagedError, DataError, ModelError
from nmt.system import distributed
from nmt.system.files import Report
from nmt.text.corpus import text_files
from nmt.text.manifest import Manifest
from nmt.training.progress import RUN, Progress, check_format, read_progress
from nmt.training.run import RunDirectory, check_whole, ignore, remove_checkpoint
from nmt.training.step import Updater

# keys, with all below them; train.stop.steps changes updates under a schedule that ends there, but only later ones, and
# data.test the prepared corpus, which is compared by itself
_FREE_TO_CHANGE = (
    "run", "prepared", "runtime", "decode", "data.test", "train.stop",
    "train.log_every", "train.validate_every", "train.keep_best", "train.keep_last", "train.tensorboard",
)  # fmt: skip


def check_run_directory(recipe: Recipe) -> None:
    """Raise ConfigError unless the run's folder is absent, empty or a run, or if it holds anything that is read."""
    corpora = (*recipe.data.train, *recipe.data.valid, *recipe.data.test)
    inputs = [path for corpus in corpora for path in text_files(corpus).values()]
    if recipe.train.init_from is not None:
        inputs.append(recipe.train.init_from)
    RUN.check(recipe.run, beside=("prepared",), inputs=inputs)


def check_may_continue(recipe: Recipe, run: RunDirectory, stale: str | None = None) -> None:
    """Raise ConfigError unless a run without checkpoints, or one of this format, recipe and text, is in the directory.

    `stale` is the reason why the corpus has to be prepared again, if there is one.
    """
    if not run.saved():
        return
    check_format(run.path)
    if run.recipe.exists():
        _check_same_recipe(recipe, run)
    try:
        manifest = Manifest.read(recipe.prepared_directory)
        progress = read_progress(run.saved()[-1])
    except (DataError, DamagedError):
        return  # checked again when the corpus is prepared and the newest whole checkpoint is found
    replaced = progress.corpus not in ("", manifest.training_fingerprint(recipe.data))
    if stale is not None or replaced:
        reason = f" ({stale})" if stale is not None else ""
        undo = "undo the change and run nmt prepare" if replaced else "undo the change"
        raise ConfigError(
            f"{run.path}: the texts or their preparation have changed since this run was started{reason}; "
            f"{undo}, set 'run' to another folder, or start over with --restart"
        )


def _check_same_recipe(recipe: Recipe, run: RunDirectory) -> None:
    """Raise ConfigError, listing all differences, if the run was started with another recipe."""
    before = load_recipe(run.recipe)
    if recipe.train.batch_tokens == "auto":  # the number found when the run was started
        recipe = with_batch_tokens(recipe, before.train.budget)
    changes = [
        change
        for change in differences(before.model_dump(mode="json"), recipe.model_dump(mode="json"))
        if not _may_change(change.key)
    ]
    if not changes:
        return
    lines = [
        f"{run.path}: this run was started with another recipe:",
        *(f"  {change}" for change in changes),
        "Undo the change, set 'run' to another folder, or start over with --restart.",
        f"Free to change in a run: {', '.join(_FREE_TO_CHANGE)}",
    ]
    raise ConfigError("\n".join(lines))


def _may_change(key: str) -> bool:
    section, _, last = key.rpartition(".")
    if section.startswith("data.") and last in ("file", "source", "target"):
        return True  # the place of a text; the fingerprint of the prepared corpus covers its content
    return any(key == free or key.startswith(free + ".") for free in _FREE_TO_CHANGE)


def with_batch_tokens(recipe: Recipe, tokens: int) -> Recipe:
    """Return the recipe with another `train.batch_tokens`."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"batch_tokens": tokens})})


def resume(run: RunDirectory, updater: Updater, warn: Report = ignore) -> Progress:
    """Load the newest whole checkpoint into an updater; without checkpoints return a new Progress.

    Rank 0 renames damaged checkpoints that are newer, with a warning, before the others load. Raises DamagedError if
    all are damaged, ModelError if the ranks find different checkpoints.
    """
    distributed.on_rank_zero(lambda: _set_damaged_aside(run, warn))
    if saved := run.saved():
        progress = run.load(saved[-1], updater)
    else:
        progress = Progress()
        run.truncate_log(progress)
    check_same_step(run, progress)
    return progress


def _set_damaged_aside(run: RunDirectory, warn: Report) -> None:
    """Rename the checkpoints after the newest whole one. Raises DamagedError, and renames none, if none is whole."""
    damaged = []
    for directory in reversed(run.saved()):
        try:
            check_whole(directory)
            break
        except DamagedError as error:
            damaged.append((directory, error))
    else:
        if damaged:
            raise DamagedError(f"{damaged[0][1]}; no checkpoint here is whole: start over with --restart")
    for broken, damage in damaged:
        aside = broken.with_name(f"damaged-{broken.name}")
        remove_checkpoint(aside)
        broken.rename(aside)
        warn(f"{damage}; set aside as {aside.name}, resuming from {directory.name}")


def check_same_step(run: RunDirectory, progress: Progress) -> None:
    """Raise ModelError unless all ranks resume from the same step. Collective."""
    (furthest,) = distributed.all_reduce_max(progress.step)
    if progress.step != furthest:
        raise ModelError(
            f"{run.path}: rank {distributed.rank()} finds the run at step {progress.step:,}, another at "
            f"{furthest:,}; run: must be on a disk that all machines share"
        )
