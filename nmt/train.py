"""Stage 2: from a prepared corpus to a run with checkpoints.

The loop reads: next batches, one update, note it, validate now and then, until a limit is met or someone says stop.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.batching.plan import padding_share
from nmt.batching.stream import BatchStream
from nmt.config import Recipe
from nmt.console import Console
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError, DataError, ModelError
from nmt.learning.display import TrainingDisplay
from nmt.learning.interruption import Interruption, polite_interruption
from nmt.learning.run import RunDirectory, Window, point
from nmt.learning.update import Update, Updater
from nmt.learning.validation import Evaluation, Validation, evaluate, mean_loss, sentence_lengths
from nmt.model.checkpoint import LoadedModel, load_model
from nmt.model.transformer import Transformer
from nmt.runtime import choose_device, seed_for, set_threads
from nmt.text.corpus import SentencePair, input_files, read_pairs
from nmt.text.prepared import PreparedCorpus, PreparedSplit

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
    test_pairs = read_test(recipe)
    corpus = PreparedCorpus.open(recipe.prepared_directory)
    run = RunDirectory(recipe.run)
    with run.locked(), polite_interruption() as interruption:
        run.begin(recipe, restart)
        training = Training(recipe, corpus, run, console)
        training.introduce()
        reason = training.loop(interruption)
        link_latest(run.path, console)
        test = None
        if interruption.signal is None and test_pairs:
            test = report_test(recipe, test_pairs, run, console)
    return Outcome(training.progress.step, reason, interruption.signal, test)


class Training:
    """A run in memory: the model, where its data is, and how far it is."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, console: Console) -> None:
        self.recipe, self.corpus, self.run, self.console = recipe, corpus, run, console
        self.tokenizers = corpus.tokenizers
        device = choose_device(recipe.runtime)
        torch.manual_seed(seed_for("weights", recipe.seed))
        self.model = Transformer(recipe.model, len(self.tokenizers.source), len(self.tokenizers.target))
        self.updater = Updater(self.model, recipe, self.tokenizers.target.pad_id, device)
        self.progress = run.resume(self.model, self.updater.optimizer, console.warn)
        self._check_same_corpus()
        self.stream = BatchStream(
            corpus.train,
            sentence_lengths(corpus.train),
            self.tokenizers,
            max(1, recipe.train.batch_tokens // recipe.train.length_groups),
            recipe.seed,
            recipe.train.length_groups,
            self.progress.epoch,
            self.progress.group,
        )
        self.display = TrainingDisplay(console, recipe.train)

    def introduce(self) -> None:
        """Say what is about to be trained, on what."""
        source_padding, target_padding = padding_share(self.stream.plan(), self.stream.lengths)
        groups_per_update = self.recipe.train.accumulate * self.recipe.train.length_groups
        device = self.updater.device
        threads = f" ({torch.get_num_threads()} threads)" if device.type == "cpu" else ""
        self.console.say(
            f"{self.recipe.name}: {self.model.parameter_count():,} parameters on {device}{threads}, "
            f"{len(self.stream.lengths.target):,} pairs in "
            f"{len(self.stream.plan().groups) / groups_per_update:,.0f} updates an epoch, "
            f"padding {source_padding:.1%} source, {target_padding:.1%} target"
        )
        if self.progress.step:
            self.console.say(f"resuming {self.run.path} after step {self.progress.step:,}")

    def loop(self, interruption: Interruption) -> str:
        """Update until it is time to stop; leave a checkpoint; return the reason."""
        with self.display.live():
            while (reason := self.time_to_stop(interruption)) is None:
                self.step()
                if self.progress.step % self.recipe.train.validate_every == 0:
                    self.validate()
            if interruption.signal is None and self.progress.validated_at < self.progress.step:
                self.validate()
        self.save()
        self.console.say(f"stopped after step {self.progress.step:,}: {reason}; saved in {self.run.path}")
        return reason

    def step(self) -> None:
        """Make one update and note what it did."""
        started = time.perf_counter()
        progress = self.progress
        batches = [self.stream.next() for _ in range(self.recipe.train.accumulate)]
        progress.step += 1
        try:
            update = self.updater.update(batches, progress.step)
        except torch.OutOfMemoryError:
            raise ConfigError(
                f"train.batch_tokens: {self.recipe.train.batch_tokens} do not fit in the memory of "
                f"{self.updater.device}; halve them and double train.accumulate, which makes updates of the same size"
            ) from None
        # before anything of it is logged or saved
        if not math.isfinite(update.loss + update.gradient_norm):
            raise ModelError(
                f"the loss or its gradient is not finite at step {progress.step}; "
                "lower train.schedule's rate or lengthen its warmup"
            )
        progress.epoch, progress.group = self.stream.epoch, self.stream.group
        progress.target_tokens += update.target_tokens
        self._note(update, time.perf_counter() - started)
        record = self._window_record(update.rate)
        self.display.update(record, progress)
        if progress.step % self.recipe.train.log_every == 0:
            self.run.log(record)
            self.display.log(record, progress)
            progress.window = Window()

    def validate(self) -> None:
        """Measure the model on the validation text, if there is one, log it, and save a checkpoint, maybe the best."""
        if self.corpus.valid is not None:
            self._measure(self.corpus.valid)
        self.progress.validated_at = self.progress.step
        self.save()
        self.run.prune(self.recipe.train.keep_best, self.progress)

    def _measure(self, valid: PreparedSplit) -> None:
        started = time.perf_counter()
        loss = mean_loss(self.updater, valid, self.tokenizers, self.recipe.train.batch_tokens)
        greedy = SearchOptions(beam=1)
        assert self.recipe.data.valid is not None
        tag = self.recipe.data.valid.tag
        scores = evaluate(self.loaded(), self.corpus.valid_sources, self.corpus.valid_references, greedy, tag)
        validation = Validation(loss, scores.bleu.value, scores.chrf.value)
        self.model.train()
        progress, settings = self.progress, self.recipe.train
        value = validation.better_is_higher(settings.best_metric)
        improved = not progress.best or value > progress.best[0][0]
        progress.validations_without_gain = 0 if improved else progress.validations_without_gain + 1
        progress.best = sorted([*progress.best, (value, progress.step)], reverse=True)[: settings.keep_best]
        progress.seconds += time.perf_counter() - started
        self.display.validation(progress, validation, improved)
        self.run.log(
            {
                "type": "validation",
                "step": progress.step,
                "epoch": round(self.stream.epochs_read, 4),
                "loss": validation.loss,
                "perplexity": validation.perplexity,
                "bleu": validation.bleu,
                "chrf": validation.chrf,
                "target_tokens": progress.target_tokens,
                "seconds": round(progress.seconds, 1),
            }
        )

    def save(self) -> None:
        """Write the current step's checkpoint."""
        if self.progress.step:
            self.run.save(self.loaded(), self.updater.optimizer, self.progress)

    def loaded(self) -> LoadedModel:
        """Return the model as it is now, with what it needs to translate."""
        return LoadedModel(self.model, self.tokenizers, self.recipe.languages, self.recipe.decode)

    def time_to_stop(self, interruption: Interruption) -> str | None:
        """Return why training is over, None if it is not."""
        stop, progress = self.recipe.train.stop, self.progress
        if interruption.signal is not None:
            return "interrupted, the same command goes on from here"
        if stop.steps is not None and progress.step >= stop.steps:
            return f"train.stop.steps is {stop.steps:,}"
        if stop.epochs is not None and progress.epoch >= stop.epochs:
            return f"train.stop.epochs is {stop.epochs}"
        if stop.hours is not None and progress.seconds >= stop.hours * 3600:
            return f"train.stop.hours is {stop.hours:g}"
        if stop.patience is not None and progress.validations_without_gain >= stop.patience:
            return f"no better {self.recipe.train.best_metric} in {stop.patience} validations"
        return None

    def _check_same_corpus(self) -> None:
        """Refuse to go on with other text: the tokenizer, so the meaning of every id, would be another."""
        fingerprint = self.corpus.manifest.fingerprint
        if self.progress.corpus not in ("", fingerprint):
            raise ConfigError(
                f"{self.run.path}: the training or validation text has changed since this run was started; "
                "bring back the old text, choose another run:, or start over with --restart"
            )
        self.progress.corpus = fingerprint

    def _note(self, update: Update, seconds: float) -> None:
        window = self.progress.window
        window.loss += update.loss
        window.likelihood += update.likelihood
        window.gradient_norm += update.gradient_norm
        window.steps += 1
        window.target_tokens += update.target_tokens
        window.padded_target_tokens += update.padded_target_tokens
        window.seconds += seconds
        self.progress.seconds += seconds

    def _window_record(self, rate: float) -> dict[str, Any]:
        """Return the means since the last line of the log."""
        progress, window = self.progress, self.progress.window
        return {
            "type": "train",
            "step": progress.step,
            "epoch": round(self.stream.epochs_read, 4),
            "loss": window.loss / window.target_tokens,
            "perplexity": math.exp(min(window.likelihood / window.target_tokens, 700)),
            "rate": rate,
            "gradient_norm": window.gradient_norm / window.steps,
            "padding": 1 - window.target_tokens / window.padded_target_tokens,
            "target_tokens": progress.target_tokens,
            "target_tokens_per_second": round(window.target_tokens / window.seconds, 1),
            "seconds": round(progress.seconds, 1),
        }


def read_test(recipe: Recipe) -> list[SentencePair]:
    """Read the test text, if there is one: what is wrong with it shall show before hours of training, not after."""
    if recipe.data.test is None:
        return []
    pairs = list(read_pairs(recipe.data.test))
    if not pairs:
        files = ", ".join(map(str, input_files(recipe.data.test)))
        raise DataError(f"data.test: {files}: no sentence pairs in it; expected one pair a line")
    return pairs


def report_test(recipe: Recipe, pairs: list[SentencePair], run: RunDirectory, console: Console) -> Evaluation:
    """Translate the test text with the best checkpoint as the recipe decodes, and keep scores and output in the run."""
    assert recipe.data.test is not None
    directory = run.path / ("best" if (run.path / "best").exists() else "last")
    loaded = load_model(directory, choose_device(recipe.runtime))
    options = SearchOptions.from_settings(recipe.decode)
    console.say(f"translating {len(pairs):,} test sentences with {directory} …")
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    result = evaluate(loaded, sources, references, options, recipe.data.test.tag)
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
