"""The loop of training: next batches, one update, note it, validate now and then, until it is time to stop."""

import math
import time
from collections.abc import Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

import torch

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream, DataPosition, RankShard
from nmt.batching.plan import SentenceLengths, padding_share
from nmt.batching.prefetch import Prefetcher
from nmt.batching.resegmentation import Resegmentation
from nmt.config import DecodeSettings, Recipe
from nmt.config.schedules import Falling
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.console import Console
from nmt.system.device import choose_device, seed_for
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import Tokenizers
from nmt.training.data_parallel import check_same_place
from nmt.training.display import TrainingDisplay
from nmt.training.divergence import MOST_SKIPPED, DivergedError, check_rollback, keep_batches, rolled_back
from nmt.training.fine_tuning import freeze, init_from
from nmt.training.progress import Adjustments, IntervalSums
from nmt.training.run import RunDirectory
from nmt.training.signals import Interruption
from nmt.training.step import DispatchedUpdate, Update, Updater
from nmt.training.utilization import Utilization
from nmt.training.validation import Validation, evaluate, mean_loss


def first_model(recipe: Recipe, tokenizers: Tokenizers, goes_on: bool) -> Transformer:
    """Return the model that a training begins with: drawn at random, or unless it goes on what it starts from.

    Raises ConfigError and ModelError if it cannot begin so.
    """
    torch.manual_seed(seed_for("weights", recipe.seed))
    model = Transformer(recipe.model, len(tokenizers.source), len(tokenizers.target))
    if recipe.train.init_from is not None and not goes_on:
        init_from(model, recipe.train.init_from)
    freeze(model, recipe.train.freeze)
    return model


class Training:
    """A run in memory: the model, where its data is, and how far it is."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, console: Console) -> None:
        self.recipe, self.corpus, self.run, self.console = recipe, corpus, run, console
        self.tokenizers = corpus.tokenizers
        device = choose_device(recipe.runtime)
        self.model = first_model(recipe, self.tokenizers, goes_on=bool(run.saved()))
        self.updater = Updater(self.model, recipe, self.tokenizers.target.pad_id, device)
        self.average = None if self.updater.average is None else self.updater.average.model
        with distributed.first_goes_ahead():
            self.progress = run.resume(self.model, self.updater.optimizer, console.warn, self.average)
            self._prune()  # what was killed before it could
        check_same_place(run, self.progress)
        self._check_same_corpus()
        self.stream = self._open_stream()
        # from here on the stream itself runs ahead of the training
        self.epochs_read = self.stream.epochs_read
        self.utilization = Utilization(self.model, device, recipe.runtime)
        self.display = TrainingDisplay(console, recipe.train)
        self._unsettled: tuple[DispatchedUpdate, Sequence[Batch]] | None = None

    def introduce(self) -> None:
        """Say what is about to be trained, on what."""
        source_padding, target_padding = padding_share(self.stream.plan(), self.stream.lengths)
        groups_per_update = self.recipe.train.accumulate * self.recipe.train.length_groups
        device = self.updater.device
        threads = f" ({torch.get_num_threads()} threads)" if device.type == "cpu" else ""
        each = f"{distributed.size()} × " if distributed.size() > 1 else ""
        self.console.say(
            f"{self.recipe.name}: {self.model.parameter_count():,} parameters on {each}{device}{threads}, "
            f"{len(self.stream.lengths):,} pairs in "
            f"{len(self.stream.plan().groups) * self.stream.lengths.parts / groups_per_update:,.0f} updates an epoch, "
            f"padding {source_padding:.1%} source, {target_padding:.1%} target"
        )
        schedule, steps = self.recipe.train.schedule, self.recipe.train.stop.steps
        if isinstance(schedule, Falling) and steps is not None and schedule.warmup >= steps:
            rising = f"{schedule.warmup:,} steps of rising leave none of train.stop.steps, {steps:,}, to fall"
            self.console.warn(f"train.schedule.warmup: {rising}; for more than a trial, set it lower")
        if self.progress.step:
            self.console.say(f"resuming {self.run.path} after step {self.progress.step:,}")

    def loop(self, interruption: Interruption) -> str:
        """Update until it is time to stop; leave a checkpoint; return the reason."""
        reason = None
        with self.display.live():
            while reason is None:
                try:
                    with self._feed() as feed:
                        reason = self._go_on(feed, interruption)
                except DivergedError as divergence:
                    self._roll_back(str(divergence))
        self.save()
        self.console.say(f"stopped after step {self.progress.step:,}: {reason}; saved in {self.run.path}")
        return reason

    def _go_on(self, feed: Prefetcher, interruption: Interruption) -> str:
        """Update and validate until it is time to stop, return the reason. Raises DivergedError where this fails."""
        while True:
            interruption.agree()
            reason = self.time_to_stop(interruption)
            if reason is not None or self._has_come_to_a_validation():
                self.settle()
            # a run that was interrupted before, or in, a validation begins with it
            if interruption.signal is None and self._validation_is_due(reason is not None):
                self.validate(interruption)
            elif reason is not None:
                return reason
            else:
                self.step(feed)
            if interruption.save_wanted:
                self.settle()
                interruption.save_wanted = False
                self.save()
                self.console.say(f"saved step {self.progress.step:,} in {self.run.path}, as the signal asked")

    def _validation_is_due(self, at_the_end: bool) -> bool:
        if at_the_end:
            return self.progress.validated_at < self.progress.step
        # not while updates are skipped: what goes back to that checkpoint would be no better off
        return self._has_come_to_a_validation() and not self.progress.skipped_in_a_row

    def _has_come_to_a_validation(self) -> bool:
        every = self.recipe.train.validate_every
        return self.progress.step // every > self.progress.validated_at // every

    def step(self, feed: Prefetcher) -> None:
        """Make one update and note what it did; where that would let the device wait, what the one before did."""
        started = time.perf_counter()
        progress = self.progress
        reading = feed.next()
        progress.step += 1
        launched = self.updater.launch(reading.batches, progress.step, progress.adjustments)
        progress.epoch, progress.part, progress.group = astuple(reading.position)
        self.epochs_read = reading.epochs_read
        if launched.adjustments != progress.adjustments:
            self._cut_from_now_on(launched.adjustments)
        self.settle()  # the update before, while the device is at work on this one
        self._unsettled = launched, reading.batches
        if not self.updater.late or progress.step % self.recipe.train.log_every == 0:
            self.settle()
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.window.seconds += seconds
        progress.window.waited += reading.waited
        if progress.window.steps:
            self._report(self._window_record(launched.rate))

    def settle(self) -> None:
        """Note what the last update did, if that is still to be read. Raises DivergedError if training broke off."""
        if self._unsettled is None:
            return
        (launched, batches), self._unsettled = self._unsettled, None
        update = launched.settled()
        if update.finite:
            self._note(update)
        else:
            self._skip(update, batches)

    def _report(self, record: dict[str, Any]) -> None:
        self.display.update(record, self.progress)
        if self.progress.step % self.recipe.train.log_every == 0:
            self.run.log(record)
            self.display.log(record, self.progress)
            self.progress.window = IntervalSums()

    def _cut_from_now_on(self, adjustments: Adjustments) -> None:
        self.progress.adjustments = adjustments
        self.console.warn(
            f"step {self.progress.step:,}: the batch did not fit in the memory of {self.updater.device}, so it was "
            f"learnt in parts; from now on batches of more than {adjustments.largest_batch:,} tokens, source and target with "
            "padding, are cut. Lower train.batch_tokens and raise train.accumulate for the same updates without cuts"
        )

    def _skip(self, update: Update, batches: Sequence[Batch]) -> None:
        """Note an update that was not made. Raises DivergedError if there were too many in a row."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        figures = {"loss": str(update.loss), "gradient_norm": str(update.gradient_norm)}
        file = keep_batches(self.run.skipped, update, batches, self.tokenizers)
        self.run.log({"type": "skipped", "step": update.step, **figures})
        said = f"step {update.step:,}: loss {update.loss:g}, gradient norm {update.gradient_norm:g}"
        self.console.warn(f"{said}: skipped; its batch is in {file}")
        if progress.skipped_in_a_row >= MOST_SKIPPED:
            raise DivergedError(f"{said}, the {MOST_SKIPPED}th update in a row that is not finite")

    def _roll_back(self, reason: str) -> None:
        """Go back to the last validation's checkpoint, and on from there at half the rate. May raise ModelError."""
        before = self.progress
        self._unsettled = None  # made of weights that are gone
        check_rollback(before, reason, self.run.skipped)
        optimizer = self.updater.optimizer
        checkpoint = self.run.roll_back(before.validated_at, self.model, optimizer, self.average)
        self.progress = rolled_back(before, checkpoint)
        self.stream = self._open_stream()
        self.epochs_read = self.stream.epochs_read
        self.console.warn(
            f"{reason}; back to step {checkpoint.step:,} and on with {self.progress.adjustments.rate:g} of the rate"
        )

    def _open_stream(self) -> BatchStream:
        """Return the stream of batches from where the training is."""
        recipe, progress = self.recipe, self.progress
        return BatchStream(
            self.corpus.train,
            SentenceLengths.of(self.corpus.train),
            recipe.train.group_budget,
            recipe.seed,
            recipe.train.length_groups,
            DataPosition(progress.epoch, progress.part, progress.group),
            Resegmentation.of_recipe(recipe, self.tokenizers),
            RankShard(distributed.rank(), distributed.size()),
        )

    def _feed(self) -> Prefetcher:
        return Prefetcher(self.stream, self.recipe.train.accumulate, self.updater.device.type == "cuda")

    def validate(self, interruption: Interruption) -> None:
        """Measure the model on the validation text, if there is one, log it, and save a checkpoint, maybe the best.

        A signal breaks it off, without a trace. Raises DivergedError if the model is broken.
        """
        if self.corpus.valid is not None:
            started = time.perf_counter()
            validation = interruption.unless_stopped(partial(self._measure, self.corpus.valid))
            if validation is None:
                return
            self._note_validation(validation, time.perf_counter() - started)
        self.progress.validated_at = self.progress.step
        self.save()
        self._prune()

    def _prune(self) -> None:
        self.run.prune(self.recipe.train.keep_best, self.recipe.train.keep_last, self.progress)

    def _measure(self, valid: PreparedSplit) -> Validation:
        objective = self.updater.validated()
        loss = mean_loss(objective, valid, self.tokenizers, self.recipe.train.budget, self.recipe.runtime)
        if not math.isfinite(loss):
            raise DivergedError(f"step {self.progress.step:,}: the loss on the validation text is {loss:g}")
        greedy = SearchOptions.from_settings(DecodeSettings(beam=1, max_length=self.recipe.decode.max_length))
        assert self.recipe.data.valid is not None
        tag = self.recipe.data.valid.tag
        loaded = self.loaded(objective.model)
        scores = evaluate(loaded, self.corpus.valid_sources, self.corpus.valid_references, greedy, tag)
        return Validation(loss, scores.bleu.value, scores.chrf.value)

    def _note_validation(self, validation: Validation, seconds: float) -> None:
        progress, settings = self.progress, self.recipe.train
        value = validation.better_is_higher(settings.best_metric)
        improved = not progress.best or value > progress.best[0][0]
        progress.validations_without_gain = 0 if improved else progress.validations_without_gain + 1
        progress.best = sorted([*progress.best, (value, progress.step)], reverse=True)[: settings.keep_best]
        progress.seconds += seconds
        self.display.validation(progress, validation, improved)
        self.run.log(
            {
                "type": "validation",
                "step": progress.step,
                "epoch": round(self.epochs_read, 4),
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
            self.run.save(self.loaded(self.model), self.updater.optimizer, self.progress, self.average)

    def loaded(self, model: Transformer) -> LoadedModel:
        """Return a model, as it is now, with what it needs to translate."""
        return LoadedModel(model, self.tokenizers, self.recipe.languages, self.recipe.decode)

    def time_to_stop(self, interruption: Interruption) -> str | None:
        """Return why training is over, None if it is not."""
        stop, progress = self.recipe.train.stop, self.progress
        if interruption.signal is not None:
            return "interrupted, the same command goes on from here"
        if stop.steps is not None and progress.step >= stop.steps:
            return f"train.stop.steps is {stop.steps:,}"
        if stop.epochs is not None and progress.epoch >= stop.epochs:
            return f"train.stop.epochs is {stop.epochs}"
        if stop.hours is not None and distributed.all_reduce_max(progress.seconds)[0] >= stop.hours * 3600:
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

    def _note(self, update: Update) -> None:
        progress, window = self.progress, self.progress.window
        progress.skipped_in_a_row = 0
        progress.target_tokens += update.target_tokens
        window.loss += update.loss
        window.likelihood += update.likelihood
        window.gradient_norm += update.gradient_norm
        window.steps += 1
        window.source_tokens += update.source_tokens
        window.target_tokens += update.target_tokens
        window.padded_target_tokens += update.padded_target_tokens

    def _window_record(self, rate: float) -> dict[str, Any]:
        """Return what happened since the last line of the log."""
        progress, window = self.progress, self.progress.window
        used = self.utilization.share(window.source_tokens, window.target_tokens, window.seconds)
        return {
            "type": "train",
            "step": progress.step,
            "epoch": round(self.epochs_read, 4),
            **window.means(),
            "rate": rate,
            "utilization": round(used, 4),
            "target_tokens": progress.target_tokens,
            "seconds": round(progress.seconds, 1),
        }
