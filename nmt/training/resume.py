"""Whether a run may continue with a recipe, and how it continues: from its newest checkpoint that is not damaged."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from nmt.config import Recipe, RuntimeSettings, load_recipe
from nmt.config.section import Difference, differences
from nmt.errors import ConfigError, DamagedError
from nmt.kernels.device import environment
from nmt.model.stored import CONFIG_FILE, read_configuration
from nmt.system import distributed
from nmt.system.files import write_digested
from nmt.text.corpus import text_files
from nmt.text.manifest import Manifest
from nmt.training.checkpoint_files import OPTIMIZER_FILE, is_checkpoint, load_checkpoint, remove_checkpoint
from nmt.training.progress import PROGRESS_FILE, PROGRESS_VERSION, RUN, Progress, check_format, read_progress
from nmt.training.run import RunDirectory
from nmt.training.update import Updater

# settings and sections; a change of train.stop.steps affects only later updates, by a schedule that ends there, and one
# of data.test only the prepared corpus, which is compared separately
_FREE_TO_CHANGE = (
    "run", "prepared", "runtime", "decode", "data.test", "train.stop",
    "train.log_every", "train.validate_every", "train.keep_best", "train.tensorboard",
)  # fmt: skip


def check_run_directory(recipe: Recipe) -> None:
    """Raise ConfigError if the run's folder is neither absent, empty nor a run, or if it contains an input."""
    corpora = (*recipe.data.train, *recipe.data.valid, *recipe.data.test)
    inputs = [path for corpus in corpora for path in text_files(corpus).values()]
    if recipe.train.init_from is not None:
        inputs.append(recipe.train.init_from)
    RUN.check(recipe.run, beside=("prepared", "train.log"), inputs=inputs)


def check_may_continue(recipe: Recipe, run: RunDirectory) -> None:
    """Raise ConfigError unless the run has no checkpoints, or is of this format and recipe."""
    if not run.saved():
        return
    check_format(run.path)
    before = load_recipe(run.recipe)
    if recipe.train.batch_tokens == "auto":  # the number found when the run was started
        recipe = with_batch_tokens(recipe, before.train.budget)
    compared = before.model_dump(mode="json"), recipe.model_dump(mode="json")
    if changes := [change for change in differences(*compared) if not _may_change(change)]:
        lines = [
            f"{run.path}: this run was started with another recipe:",
            *(f"  {change}" for change in changes),
            "Undo the change, set 'run' to another folder, or start over with --restart.",
            f"Free to change in a run: {', '.join(_FREE_TO_CHANGE)}",
        ]
        raise ConfigError("\n".join(lines))


def changed_environment(run: RunDirectory, runtime: RuntimeSettings) -> list[str]:
    """Return the differences from the environment in which a run was trained; they may change rounding."""
    before = RUN.read(run.path).get("environment") if run.saved() else None
    now = {**environment(runtime), "processes": distributed.world_size()}
    return [str(difference) for difference in differences(before, now)] if isinstance(before, dict) else []


def check_same_text(recipe: Recipe, run: RunDirectory, manifest: Manifest) -> None:
    """Raise ConfigError if the run was trained on another text than that of a prepared corpus."""
    trained_on = ""
    for directory in run.saved():  # damaged checkpoints are removed later; an older one has the same fingerprint
        with suppress(DamagedError):
            trained_on = read_progress(directory).corpus
    if trained_on not in ("", manifest.training_fingerprint(recipe.data)):
        if load_recipe(run.recipe).data.test != recipe.data.test:
            raise ConfigError(
                f"data.test: {run.path} was trained on sentences of this test text, which its preparation would remove "
                "(rule leak): give another test text, or score this one with nmt translate and nmt score"
            )
        raise ConfigError(
            f"{run.path}: the texts or their preparation have changed since this run was started; undo the "
            "change, set 'run' to another folder, or start over with --restart"
        )


def _may_change(change: Difference) -> bool:
    key, (section, _, last) = change.key, change.key.rpartition(".")
    if key == "train.init_from" and change.before and change.now:  # a run, or a link to one of its checkpoints
        folders = map(Path, (change.before, change.now))
        return len({folder.parent if folder.name in ("best", "last") else folder for folder in folders}) == 1
    if section.startswith("data.") and last in ("file", "source", "target"):
        return True  # the path of a text; the fingerprint of the prepared corpus covers its content
    return any(key == free or key.startswith(free + ".") for free in _FREE_TO_CHANGE)


def with_batch_tokens(recipe: Recipe, tokens: int) -> Recipe:
    """Return the recipe with another `train.batch_tokens`."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"batch_tokens": tokens})})


def resume(run: RunDirectory, updater: Updater, warn: Callable[[str], None] = lambda message: None) -> Progress:
    """Load the newest whole checkpoint into an updater; without checkpoints return a new Progress. Collective.

    Newer ones that are damaged are removed, with a warning. Raises DamagedError if all are damaged, ModelError if a
    rank does not find the checkpoint of rank 0.
    """
    directory = distributed.on_rank_zero(lambda: _newest_whole(run, warn))
    if directory is None:
        return Progress()
    distributed.check_is_shared(directory / CONFIG_FILE)
    return load_checkpoint(directory, updater)


def _newest_whole(run: RunDirectory, warn: Callable[[str], None]) -> Path | None:
    """Return the newest checkpoint that is whole; remove damaged ones among newer ones and among the best.

    Raises DamagedError if all are damaged.
    """
    progress, damage = None, dict[Path, DamagedError]()
    for directory in reversed(run.saved()):
        progress = _progress_of_whole(run, directory, damage)
        if progress is not None:
            break
    if progress is None:
        for error in damage.values():
            raise DamagedError(f"{error}; no checkpoint here is whole: start over with --restart")
        return None
    newest = run.checkpoint(progress.step)
    for directory in (run.checkpoint(step) for *_, step in progress.best if step != progress.step):
        if is_checkpoint(directory) and _progress_of_whole(run, directory, damage) is not None:
            break  # the best one that is whole
    for directory, error in damage.items():
        resuming = f", resuming from {newest.name}" if directory > newest else ""
        warn(f"{str(error).partition(';')[0]}; this checkpoint is removed{resuming}")
        remove_checkpoint(directory)
    if damage:  # validations, translations and scores may be those of the best one
        progress.best = [entry for entry in progress.best if is_checkpoint(run.checkpoint(entry[-1]))]
        write_digested(newest / PROGRESS_FILE, PROGRESS_VERSION, asdict(progress))
        run.remove_scores()
        (run.path / "valid.txt").unlink(missing_ok=True)
    run.link(progress)
    return newest


def _progress_of_whole(run: RunDirectory, directory: Path, damage: dict[Path, DamagedError]) -> Progress | None:
    """Return the progress in a checkpoint; if it is damaged, add the error to `damage` and return None."""
    try:
        read_configuration(directory, [OPTIMIZER_FILE])  # checks the digests of the other files
        progress = read_progress(directory)
        if directory != run.checkpoint(progress.step):
            raise DamagedError(f"{directory / PROGRESS_FILE}: damaged: it is that of step {progress.step:,}")
    except DamagedError as error:
        damage[directory] = error
        return None
    return progress
