"""`nmt train`: from a recipe to a run with checkpoints, and at the end to scores on the test text."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from errno import EEXIST
from importlib.util import find_spec
from pathlib import Path

from nmt.batching.batch_stream import BatchStream
from nmt.commands.prepare import prepare
from nmt.config import Recipe, load_recipe
from nmt.config.section import SettingError
from nmt.errors import DataError, NMTError
from nmt.evaluation.metrics import make_scorer
from nmt.kernels.device import check_machine, choose_device, oom_explained, set_threads
from nmt.kernels.machine import reuse_freed_ram
from nmt.model.checkpoint import load_model, write_settings
from nmt.model.stored import read_configuration
from nmt.report.run_records import read_test_scores, score_name
from nmt.system import distributed
from nmt.system.console import Console, counted
from nmt.system.files import json_digest, real_path, replace_link, write_output
from nmt.text.corpus import read_pairs
from nmt.text.languages import target_language
from nmt.text.manifest import PREPARED, Manifest
from nmt.text.prepared import PreparedCorpus
from nmt.text.tokenizer import initial_files
from nmt.training.loop import Training
from nmt.training.optimizer import check_freeze
from nmt.training.progress import RUN
from nmt.training.resume import changed_environment, check_may_continue, check_run_directory, check_same_text
from nmt.training.run import RunDirectory
from nmt.training.trial import choose_settings, estimate
from nmt.training.validation import ScoredText, evaluate

# Link in the current directory to the last trained run, the default model of `nmt translate`.
LATEST, BOARDS = Path("runs/latest"), Path("runs/tensorboard")

_MOST_WEIGHTS = 500  # for each target token; the shipped recipes have at most 200
_FEW_WEIGHTS = 15_000_000  # not too many for any text: the smallest models that `nmt init` proposes have fewer
_MOST_PASSES = 500  # over the text, without another limit; the shipped recipes have at most 20


def train(recipe: Recipe, console: Console, restart: bool = False) -> tuple[str, int | None]:
    """Prepare the corpus if needed, and train until a limit of `train.stop` or a signal; resume the run if it exists.

    Returns the reason to stop, and the signal, if one was the reason.
    If possible, errors are raised before the corpus is prepared and before anything is written: ConfigError if the
    run has another recipe or text, if its folder holds other files, or for what this machine cannot do; ModelError
    if another process trains there; DataError for a fault in the texts. Collective.
    """
    run, on_rank_zero = RunDirectory(recipe.run), distributed.on_rank_zero
    with console.status("checking the recipe, its texts and this machine"):
        tests = check_recipe(recipe, run, restart)
    with run.locked(console.warn):
        console.log = None if distributed.rank() else run.log_message
        corpus = prepared_corpus(recipe, run, console, restart)
        with oom_explained(choose_device(recipe.runtime)):
            recipe = with_measured_settings(recipe, corpus, run, console, restart)
            scored = on_rank_zero(lambda: not restart and is_scored(recipe, run, tests))
            on_rank_zero(lambda: run.open(recipe, restart))
            distributed.check_is_shared(run.path / RUN.name)
            if recipe.train.tensorboard:  # a folder without `latest`, which would be a second run there
                on_rank_zero(lambda: link(BOARDS / run.path.name, run.path / "tensorboard", console))
                console.info(f"to watch the training: tensorboard --logdir {BOARDS}")
            with console.status("building the model"):
                training = Training(recipe, corpus, run, console)
            reason, signal = training.progress.finished(recipe.train), None
            if reason is None and (changes := changed_environment(run, recipe.runtime)):
                console.warn(f"{run.path}: the result may differ from an uninterrupted training: {'; '.join(changes)}")
            on_rank_zero(lambda: run.record(recipe, training.progress))
            scored = scored and reason is not None and (run.path / "test.json").exists()  # else its model was damaged
            if not scored:
                on_rank_zero(run.remove_scores)
            if reason is None:
                training.print_sizes()
                reason, signal = training.train()
            else:
                console.info(f"{run.path}: finished after step {training.progress.step:,}: {reason}")
            on_rank_zero(lambda: link(LATEST, run.path, console))
            if scored:
                print_scores(run, console)
            elif signal is None:
                on_rank_zero(lambda: write_settings(run.best, training.loaded.decode))
                if tests:
                    evaluate_tests(recipe, tests, run, console)
        return reason, signal


def dry_run(recipe: Recipe, console: Console, restart: bool = False) -> str:
    """Return the cost of a training as lines, on rank 0; writes nothing except the prepared corpus. Collective."""
    run = RunDirectory(recipe.run)
    check_recipe(recipe, run, restart)
    corpus = prepared_corpus(recipe, run, console, restart)
    recipe = with_measured_settings(recipe, corpus, run, console, restart)
    console.info("making a few trial updates …")
    lines = estimate(recipe, corpus, choose_device(recipe.runtime))
    return "" if distributed.rank() else lines


def check_settings(recipe: Recipe) -> None:
    """Raise SettingError for settings that this machine or the model makes impossible."""
    check_machine(recipe)
    if recipe.train.tensorboard and find_spec("tensorboard") is None:
        message = "tensorboard is not installed; run: pip install tensorboard (or set it to false)"
        raise SettingError("train.tensorboard", message)
    if recipe.train.tensorboard == "all" and find_spec("PIL") is None:
        raise SettingError("train.tensorboard", "all needs pillow for its image; run: pip install pillow (or set true)")
    check_freeze(recipe)


def check_recipe(recipe: Recipe, run: RunDirectory, restart: bool) -> list[ScoredText]:
    """Raise ConfigError, DataError or ModelError for all that can be refused without a corpus; return test texts."""

    def check_files() -> None:
        check_run_directory(recipe)
        if not restart:
            check_may_continue(recipe, run)
        if recipe.train.init_from is not None and (restart or not run.saved()):
            read_configuration(recipe.train.init_from)  # checks the digests of its files

    distributed.on_rank_zero(check_files)
    check_settings(recipe)
    for code in recipe.languages.target if recipe.data.valid or recipe.data.test else ():
        make_scorer("bleu", target_language(code))  # raises ConfigError now, not at the first validation
    texts = []
    for key, corpus in recipe.data.test_texts.items():
        pairs = list(read_pairs(corpus, recipe.languages_of(corpus)))
        if not pairs:
            files = ", ".join(map(str, corpus.files.values()))
            raise DataError(f"{key}: {files}: no sentence pairs in it; expected one pair per line")
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        texts.append(ScoredText(sources, references, recipe.target_of(corpus), corpus.tag))
    return texts


def prepared_corpus(recipe: Recipe, run: RunDirectory, console: Console, restart: bool) -> PreparedCorpus:
    """Return the corpus of a recipe, which rank 0 prepares again if needed. Collective.

    Raises ConfigError if the run needs another corpus, ModelError if a rank does not find that of rank 0,
    DataError if it finds a different one.
    """
    prepared = list[PreparedCorpus]()  # by this rank: to open it again would compare all its digests again

    def prepare_if_needed() -> str:
        def check(manifest: Manifest) -> None:
            if not restart:
                check_same_text(recipe, run, manifest)

        prepared.append(prepare(recipe if restart else with_own_tokenizer(recipe, run), console, check=check))
        return prepared[0].manifest.fingerprint

    fingerprint = distributed.on_rank_zero(prepare_if_needed)
    distributed.check_is_shared(recipe.prepared_directory / PREPARED.name)
    corpus = prepared[0] if prepared else PreparedCorpus.open(recipe.prepared_directory, recipe)
    if corpus.manifest.fingerprint != fingerprint:
        raise DataError(
            f"{recipe.prepared_directory}: rank {distributed.rank()} reads another corpus here than rank 0; "
            "set `prepared` to a folder that all machines share"
        )
    return corpus


def with_own_tokenizer(recipe: Recipe, run: RunDirectory) -> Recipe:
    """Return a fine-tuning recipe that takes the tokenizer from a checkpoint of its run, if there is one."""
    if recipe.train.init_from is not None:
        for checkpoint in reversed(run.saved()):
            with suppress(NMTError):  # damaged: it is removed later
                if initial_files(checkpoint):
                    train = recipe.train.model_copy(update={"init_from": checkpoint})
                    return recipe.model_copy(update={"train": train})
    return recipe


def with_measured_settings(
    recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, console: Console, restart: bool
) -> Recipe:
    """Return the recipe with the precision and the batch size of the run; warn of doubtful settings.

    Starts torch's threads: before, the preparation of a large text forks processes.
    """
    set_threads(recipe.runtime)
    reuse_freed_ram()
    recipe = choose_settings(recipe, corpus, run, restart, console)
    for warning in doubtful_settings(recipe, corpus):
        console.warn(warning)
    return recipe


def doubtful_settings(recipe: Recipe, corpus: PreparedCorpus) -> Iterator[str]:
    """Yield a warning for each setting that probably does not fit the amount of text or the other settings."""
    tokens, train, stop = corpus.manifest.train.target.tokens, recipe.train, recipe.train.stop
    weights = recipe.model.weight_count(len(corpus.tokenizers.source), len(corpus.tokenizers.target))
    batch = min(train.budget, tokens * train.length_groups)  # each length group has the text once at most
    passes = (stop.steps or 0) * train.accumulate * batch / tokens
    advice = f"many for {tokens:,} target tokens of text; `nmt init` writes a recipe with settings that fit it"
    if train.init_from is None and weights > max(_FEW_WEIGHTS, _MOST_WEIGHTS * tokens):
        yield f"model: {weights / 1e6:,.1f} million weights are {advice}"
    if stop.patience is stop.seconds is stop.epochs is None and passes > _MOST_PASSES:
        yield f"train.stop.steps: {stop.steps:,} steps, which read the text {passes:,.0f} times, are {advice}"
    steps = stop.steps or math.inf
    if stop.epochs is not None:
        steps = min(steps, BatchStream.of_recipe(recipe, corpus).updates_in(stop.epochs, train.accumulate))
    if train.schedule.warmup >= steps:
        of_all = f"none of the about {steps:,.0f} training steps at the full rate"
        yield f"train.schedule.warmup: {train.schedule.warmup:,} steps of warm-up leave {of_all}; set it lower"


def is_scored(recipe: Recipe, run: RunDirectory, tests: Sequence[ScoredText]) -> bool:
    """Return whether the run has scores of this test text with these settings of the search."""
    scores = read_test_scores(run.path / "test.json")
    has_scores_of_text = bool(scores) and scores[0].get("text") == digest_of_texts(tests)
    return has_scores_of_text and load_recipe(run.recipe).decode == recipe.decode


def digest_of_texts(texts: Sequence[ScoredText]) -> str:
    """Return a digest of sources and references, by which the scores of another test text are recognized."""
    return json_digest([[text.language, text.tag, text.sources, text.references] for text in texts])


def evaluate_tests(recipe: Recipe, texts: list[ScoredText], run: RunDirectory, console: Console) -> None:
    """Translate the test texts with the best checkpoint as `nmt translate` does; write and print scores."""
    loaded = load_model(run.best, choose_device(recipe.runtime))
    sentences = sum(len(text.sources) for text in texts)
    console.info(f"translating {counted(sentences, 'test sentence')} with {run.best} …")
    with console.progress_through("testing", sentences, "sentences") as show:
        result = evaluate(loaded, recipe.runtime, texts, show)
    if distributed.rank() == 0:
        scores = [
            {"text": digest_of_texts(texts)} | ({"language": text.language} if len(texts) > 1 else {}) | asdict(score)
            for text, pair in zip(texts, result.scores, strict=True)
            for score in pair
        ]
        run.write_translations("test.txt", result.translations)
        write_output(run.path / "test.json", json.dumps(scores, indent=2) + "\n", follow=False)
        if run.board is not None:
            run.board.log_test(recipe, {"bleu": result.bleu, "chrf": result.chrf})
        print_scores(run, console)


def print_scores(run: RunDirectory, console: Console) -> None:
    """Print the recorded scores of the test text, then the signature of each metric."""
    scores = read_test_scores(run.path / "test.json")
    for score in scores:
        console.result(f"test {score_name(score)} {score['value']:.2f}")
    for name, signature in dict.fromkeys((score["name"], score["signature"]) for score in scores):
        console.result(f"signature of {name}: {signature}")


def link(place: Path, target: Path, console: Console) -> None:
    """Make a link in the current directory to a run or to a folder in it; warn if that is impossible."""
    try:
        if place.exists() and not place.is_symlink():
            raise FileExistsError(EEXIST, "it exists and is not a link")
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_link(real_path(place.parent) / place.name, real_path(target))  # `runs` may be a link to another disk
    except OSError as error:
        console.warn(f"{place}: cannot link it to {target}: {error.strerror}; name {target} itself")
