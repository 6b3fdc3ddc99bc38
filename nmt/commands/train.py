"""Stage 2: from a prepared corpus to a run with checkpoints, and at the end to scores on the test text."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nmt.config import Recipe
from nmt.decoding.alignment_heads import best_heads
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError, DataError
from nmt.model.checkpoint import keep_alignment, load_model
from nmt.system import distributed
from nmt.system.console import Console
from nmt.system.device import choose_device, reuse_freed_memory, set_threads
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.prepared import PreparedCorpus
from nmt.training.auto_batch import settle_batch_tokens
from nmt.training.data_parallel import run_directory
from nmt.training.dry_run import estimate, render
from nmt.training.loop import Training, first_model
from nmt.training.oom import memory_explained
from nmt.training.run import RunDirectory, point
from nmt.training.signals import polite_interruption
from nmt.training.validation import Evaluation, evaluate

LATEST = Path("runs/latest")
"""Link in the current directory to the last trained run, where `nmt translate` looks for a model."""


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    step: int
    reason: str
    signal: int | None
    test: Evaluation | None


def train(recipe: Recipe, console: Console, restart: bool = False) -> Outcome:
    """Train until a limit of `train.stop` is met or a signal comes; go on from the last checkpoint if there is one.

    Needs the prepared corpus to be there. Raises ConfigError if the run was made by another recipe or a batch does not
    fit in the memory, ModelError if another process trains there, DataError if there is something wrong with the texts.
    """
    set_threads(recipe.runtime)
    reuse_freed_memory()
    test_pairs = read_test(recipe)
    corpus = PreparedCorpus.open(recipe.prepared_directory)
    run = run_directory(recipe.run)
    with run.locked(console.warn), polite_interruption() as interruption:
        if restart:
            check_can_begin(recipe, corpus)
        recipe = settle_batch_tokens(recipe, corpus, run, restart, console.say)
        with distributed.first_goes_ahead():
            run.begin(recipe, restart)
        recipe = with_learnt_limit(recipe, corpus)
        test = None
        with memory_explained(choose_device(recipe.runtime)):
            training = Training(recipe, corpus, run, console)
            training.introduce()
            reason = training.loop(interruption)
            if distributed.rank() == 0:
                link_latest(run.path, console)
            interruption.agree()  # and all wait until the last checkpoint is on the disk
            if interruption.signal is None and corpus.valid is not None:
                interruption.unless_stopped(partial(note_alignment, recipe, corpus, run))
            if interruption.signal is None and test_pairs:
                test = interruption.unless_stopped(partial(report_test, recipe, test_pairs, run, console))
    return Outcome(training.progress.step, reason, interruption.signal, test)


def check_can_begin(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """Make sure that a run may be emptied for a new training. Raises the errors that would end that at once."""
    start = recipe.train.init_from
    if start is not None and start.resolve().is_relative_to(recipe.run.resolve()):
        raise ConfigError(
            f"train.init_from: {start} is in the run that --restart empties; choose another run:, or copy the model"
        )
    with memory_explained(choose_device(recipe.runtime)):
        first_model(recipe, corpus.tokenizers, goes_on=False)


def check_may_prepare(recipe: Recipe, reason: str | None, restart: bool) -> None:
    """Keep the corpus that a run was trained on from being replaced, where there is a reason to prepare it anew.

    Raises ModelError if a training is at it, ConfigError if there is one that could go on with it.
    """
    run = RunDirectory(recipe.run)
    if reason is None or not run.path.exists():
        return
    try:
        PreparedCorpus.open(recipe.prepared_directory)
    except DataError:
        return  # there is none, or none that is of any use
    with run.locked():
        if run.saved() and not restart:
            raise ConfigError(
                f"{run.path}: this run was started with another text, or another way to prepare it: {reason}; "
                "undo the change, choose another run:, or start over with --restart"
            )


def with_learnt_limit(recipe: Recipe, corpus: PreparedCorpus) -> Recipe:
    """Return the recipe with the longest translation that the text teaches, where it names none."""
    longest = recipe.decode.max_length or corpus.manifest.max_length
    return recipe.model_copy(update={"decode": recipe.decode.model_copy(update={"max_length": longest})})


def note_alignment(recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory) -> None:
    """Measure on the validation text which heads of the best checkpoint align words best, and note that in it."""
    directory = _best(run)
    loaded = load_model(directory, choose_device(recipe.runtime))
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    pairs = zip(corpus.valid_sources, corpus.valid_references, strict=True)
    encoded = [(source.encode(line), target.encode(text)) for line, text in pairs]
    found = best_heads(loaded.model, encoded, loaded.decode.batch_tokens)
    if found is not None and distributed.rank() == 0:
        keep_alignment(directory, found)


def _best(run: RunDirectory) -> Path:
    """Return the best checkpoint, where nothing was validated the last."""
    return run.path / ("best" if (run.path / "best").exists() else "last")


def dry_run(recipe: Recipe, console: Console) -> str:
    """Return what a training would take, laid out for people. Writes nothing and disturbs no run.

    Raises ConfigError and DataError as `train` would.
    """
    set_threads(recipe.runtime)
    reuse_freed_memory()
    read_test(recipe)
    corpus = PreparedCorpus.open(recipe.prepared_directory)
    recipe = settle_batch_tokens(recipe, corpus, RunDirectory(recipe.run), restart=False, say=console.say)
    console.say("making a few trial updates …")
    return render(estimate(recipe, corpus, choose_device(recipe.runtime)))


def read_test(recipe: Recipe) -> list[SentencePair]:
    """Read the test text, if there is one: what is wrong with it shall show before hours of training, not after."""
    if recipe.data.test is None:
        return []
    pairs = list(read_pairs(recipe.data.test))
    if not pairs:
        files = ", ".join(map(str, recipe.data.test.files.values()))
        raise DataError(f"data.test: {files}: no sentence pairs in it; expected one pair a line")
    return pairs


def report_test(recipe: Recipe, pairs: list[SentencePair], run: RunDirectory, console: Console) -> Evaluation:
    """Translate the test text with the best checkpoint as the recipe decodes, and keep scores and output in the run."""
    assert recipe.data.test is not None
    directory = _best(run)
    loaded = load_model(directory, choose_device(recipe.runtime))
    options = SearchOptions.from_settings(recipe.decode)
    console.say(f"translating {len(pairs):,} test sentences with {directory} …")
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    result = evaluate(loaded, sources, references, options, recipe.data.test.tag)
    if distributed.rank() == 0:
        result.write(run.path / "test.txt", run.path / "test.json")
    for score in result.scores:
        console.say(f"test {score.name} {score.value:.2f}  {score.signature}")
    return result


def link_latest(run: Path, console: Console) -> None:
    """Let `runs/latest` in the current directory mean this run; where that cannot be, say so and go on."""
    try:
        LATEST.parent.mkdir(exist_ok=True)
        if not LATEST.exists() or LATEST.is_symlink():
            point(LATEST, run.absolute())
            return
        reason = "it is there and is no link"
    except OSError as error:
        reason = str(error.strerror)
    console.warn(f"{LATEST}: cannot link it to {run}: {reason}; pass --model {run} to translate")
