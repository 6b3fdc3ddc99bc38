"""The training loop: read batches, update, log, validate at intervals, until a limit is reached."""

import math
import time
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import torch

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream, DataPosition, Prefetcher, padding_share
from nmt.config import DecodeSettings, Recipe
from nmt.config.schedules import Falling
from nmt.model.checkpoint import LoadedModel
from nmt.system import distributed
from nmt.system.console import Console, counted
from nmt.system.device import choose_device, computes_in_bf16
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.training.display import TrainingDisplay
from nmt.training.divergence import (
    MAX_SKIPPED,
    DivergedError,
    DivergenceMonitor,
    check_rollback,
    rolled_back,
    write_batches,
)
from nmt.training.initialization import initial_model
from nmt.training.progress import IntervalSums, Progress
from nmt.training.resume import resume
from nmt.training.run import RunDirectory
from nmt.training.signals import Interruption
from nmt.training.step import DispatchedUpdate, Update, Updater
from nmt.training.validation import Evaluation, degeneration, evaluate, mean_loss, sharing_weights, validation_texts


def open_training(recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, console: Console) -> "Training":
    """Return a training of a new model, or of the newest checkpoint of the run.

    Damaged checkpoints are renamed and superfluous ones removed.
    """
    model = initial_model(recipe, corpus.tokenizers, pretrained=not run.saved())
    updater = Updater(model, recipe, choose_device(recipe.runtime))
    progress = resume(run, updater, console.warn)
    progress.corpus = corpus.manifest.training_fingerprint(recipe.data)
    falling, before = isinstance(recipe.train.schedule, Falling), progress.schedule_end
    if progress.end_schedule_at(recipe.train.stop.steps if falling else None):
        steps, following = recipe.train.stop.steps, progress.step + 1
        run.log({"type": "schedule", "step": following, "steps": steps, "steps_before": before})
        console.info(f"from step {following:,} on, the rate is that of a schedule of {steps:,} steps, not {before:,}")
    if progress.step:
        # in case the process was killed between saving and pruning
        run.prune(recipe.train.keep_best, recipe.train.keep_last, progress)
    return Training(updater, corpus, run, console, progress)


class Training:
    """A run in memory: the model, its optimizer, and the position in the corpus."""

    def __init__(
        self, updater: Updater, corpus: PreparedCorpus, run: RunDirectory, console: Console, progress: Progress
    ) -> None:
        self.updater, self.corpus, self.run, self.console, self.progress = updater, corpus, run, console, progress
        self.model = updater.model
        self.recipe = recipe = updater.recipe
        max_length = recipe.decode.max_length or corpus.manifest.max_length  # derived from the training text
        decode, longest = recipe.decode.model_copy(update={"max_length": max_length}), recipe.data.filters.max_tokens
        self.loaded = LoadedModel(self.model, corpus.tokenizers, recipe.languages, decode, longest_source=longest)
        self.stream = self._open_stream()
        self.epochs_read = self.stream.epochs_read  # of the training; the stream itself reads ahead
        self.display = TrainingDisplay(console, recipe.train)
        self.monitor = DivergenceMonitor(len(corpus.tokenizers.target))
        self._pending: tuple[DispatchedUpdate, Sequence[Batch]] | None = None  # whose results have not been read yet

    def print_sizes(self) -> None:
        """Print what is about to be trained, on what, and where it is written."""
        recipe, settings, model = self.recipe, self.recipe.train, self.recipe.model
        source_padding, target_padding = padding_share(self.stream.plan(), self.stream.split)
        updates = self.stream.batches_an_epoch / settings.accumulate
        device = self.updater.device
        threads = f" ({counted(torch.get_num_threads(), 'thread')})" if device.type == "cpu" else ""
        ranks = f"{distributed.world_size()} × " if distributed.world_size() > 1 else ""
        vocabulary = len(self.corpus.tokenizers.target)
        frozen = sum(weight.numel() for weight in self.model.parameters() if not weight.requires_grad)
        of_them = f" ({frozen:,} of them frozen)" if frozen else ""
        resumed = f", resuming after step {self.progress.step:,}" if self.progress.step else ""
        rows = (
            ("training", f"{recipe.name}, {recipe.languages.names}"),
            ("model", f"{self.model.parameter_count():,} parameters{of_them}: {model.encoder_layers} + "
                      f"{model.decoder_layers} layers, dim {model.dim}, {vocabulary:,} pieces"),
            ("device", f"{ranks}{device}{threads}, {'bf16' if computes_in_bf16(recipe.runtime, device) else 'fp32'}"),
            ("text", f"{counted(len(self.stream.split), 'pair')} in {updates:,.0f} updates per epoch, "
                     f"padding {source_padding:.1%} and {target_padding:.1%}"),
            ("run", f"{self.run.path}{resumed}"),
        )  # fmt: skip
        self.console.info("\n".join(f"{name:<10}{value}" for name, value in rows))

    def train(self, interruption: Interruption) -> str:
        """Update until a limit is reached or a signal comes; write a checkpoint; return the reason."""
        reason = None
        with self.display.live("compiling the model in the first update" if self.recipe.runtime.compile else ""):
            while reason is None:
                pin = self.updater.device.type == "cuda"
                prefetcher = Prefetcher(self.stream, self.recipe.train.accumulate, pin)
                try:
                    reason = self._train_until_stop(prefetcher, interruption)
                except DivergedError as error:
                    self._roll_back(str(error))
        self.save()
        self.console.info(f"stopped after step {self.progress.step:,}: {reason}; saved in {self.run.path}")
        return reason

    def _train_until_stop(self, prefetcher: Prefetcher, interruption: Interruption) -> str:
        """Update and validate until a limit is reached; return the reason. Raises DivergedError."""
        progress, every = self.progress, self.recipe.train.validate_every
        with prefetcher:
            while True:
                interruption.synchronize()
                reason = self.stop_reason(interruption)
                at_validation = progress.step // every > progress.validated_at // every
                if reason is not None or at_validation:
                    self.synchronize()
                if reason is not None:
                    due = progress.validated_at < progress.step
                else:
                    # not while updates are skipped: a rollback to such a checkpoint would gain nothing
                    due = at_validation and not progress.skipped_in_a_row
                # an interrupted validation is repeated when the run resumes
                if due and interruption.signal is None:
                    self.validate(interruption)
                elif reason is not None:
                    return reason
                else:
                    self.step(prefetcher)
                if interruption.save_requested:
                    self.synchronize()
                    interruption.save_requested = False
                    self.save()
                    self.console.info(f"saved step {progress.step:,} in {self.run.path}, as a signal requested")

    def step(self, prefetcher: Prefetcher) -> None:
        """Make one update and log its results; on a GPU log those of the update before, to keep the GPU busy."""
        started = time.perf_counter()
        progress = self.progress
        prefetched = prefetcher.next()
        progress.step += 1
        update = self.updater.dispatch(prefetched.batches, progress.step, progress.adjustments)
        progress.epoch, progress.group = astuple(prefetched.position)
        self.epochs_read = prefetched.epochs_read
        if update.adjustments != progress.adjustments:
            progress.adjustments = update.adjustments
            self.console.warn(
                f"step {progress.step:,}: the batch did not fit into the memory of {self.updater.device} and was "
                f"processed in parts; from now on batches of more than {update.adjustments.largest_batch:,} tokens, "
                "source and target with padding, are cut. Lower train.batch_tokens and raise train.accumulate for the "
                "same updates without cuts"
            )
        self.synchronize()  # the update before, while the device computes this one
        self._pending = update, prefetched.batches
        at_log = progress.step % self.recipe.train.log_every == 0
        if not self.updater.deferred or at_log:
            self.synchronize()
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.interval.seconds += seconds
        progress.interval.waited += prefetched.waited
        if progress.interval.steps:
            self._report(update.rate, at_log)

    def synchronize(self) -> None:
        """Read the results of the pending update and add them up. Raises DivergedError after too many skipped ones."""
        if self._pending is None:
            return
        (dispatched, batches), self._pending = self._pending, None
        update = dispatched.synchronized()
        if not update.finite:
            self._skip(update, batches)
            return
        progress, interval = self.progress, self.progress.interval
        progress.skipped_in_a_row = 0
        progress.target_tokens += update.target_tokens
        interval.loss += update.loss
        interval.likelihood += update.likelihood
        interval.gradient_norm += update.gradient_norm
        interval.steps += 1
        interval.source_tokens += update.source_tokens
        interval.target_tokens += update.target_tokens
        interval.padded_target_tokens += update.padded_target_tokens

    def _skip(self, update: Update, batches: Sequence[Batch]) -> None:
        """Log an update that changed nothing. Raises DivergedError after too many in a row."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        results = {"step": update.step, "loss": str(update.loss), "gradient_norm": str(update.gradient_norm)}
        file = write_batches(self.run.skipped, results, batches, self.corpus.tokenizers)
        self.run.log({"type": "skipped", **results})
        message = f"step {update.step:,}: loss {update.loss:g}, gradient norm {update.gradient_norm:g}"
        self.console.warn(f"{message}: skipped; its batch is in {file}")
        if progress.skipped_in_a_row >= MAX_SKIPPED:
            raise DivergedError(f"{message}, the {MAX_SKIPPED}th update in a row that is not finite")

    def _report(self, rate: float, at_log: bool) -> None:
        """Show the means of the interval, and log them at its end."""
        progress, interval = self.progress, self.progress.interval
        record = self._record("train", {**interval.means(), "rate": rate})
        if not at_log:
            self.display.update(record)
        else:
            self.run.log(record)
            self.display.log(record)
            self._warn_of_divergence(interval.likelihood / interval.target_tokens)
            progress.interval = IntervalSums()

    def _record(self, kind: str, figures: dict[str, float]) -> dict[str, Any]:
        """Return a line of the log."""
        progress = self.progress
        head = {"type": kind, "step": progress.step, "epoch": round(self.epochs_read, 4)}
        return {**head, **figures, "target_tokens": progress.target_tokens, "seconds": round(progress.seconds, 3)}

    def _warn_of_divergence(self, likelihood: float) -> None:
        """Print a warning if this mean negative log-likelihood per token, in nats, shows that training diverges."""
        warning = self.monitor.warning(likelihood)
        if warning is not None:
            self.console.warn(f"step {self.progress.step:,}: {warning}")

    def _roll_back(self, reason: str) -> None:
        """Return to the checkpoint of the last validation, at half the rate. Raises ModelError if that has failed."""
        before = self.progress
        self._pending = None  # computed from weights that are discarded
        check_rollback(before, reason, self.run.skipped)
        checkpoint = self.run.roll_back(before.validated_at, self.updater)
        self.progress = rolled_back(before, checkpoint)
        self.stream = self._open_stream()
        self.epochs_read = self.stream.epochs_read
        self.console.warn(
            f"{reason}; back to step {checkpoint.step:,}, with {self.progress.adjustments.rate:g} of the rate"
        )

    def _open_stream(self) -> BatchStream:
        """Return the stream of batches from the position of the training."""
        stream = BatchStream.of_recipe(self.recipe, self.corpus)
        stream.position = DataPosition(self.progress.epoch, self.progress.group)
        stream.rank, stream.world_size = distributed.rank(), distributed.world_size()
        return stream

    def validate(self, interruption: Interruption) -> None:
        """Measure the model on the validation text, if there is one, log it, and write a checkpoint.

        A signal cancels it without side effects. Raises DivergedError for a loss that is not finite.
        """
        if self.corpus.valid is not None:
            started = time.perf_counter()
            validation = interruption.unless_stopped(partial(self._measure, self.corpus.valid))
            if validation is None:
                return
            self._log_validation(validation, time.perf_counter() - started)
        self.progress.validated_at = self.progress.step
        self.save()
        self.run.prune(self.recipe.train.keep_best, self.recipe.train.keep_last, self.progress)

    def _measure(self, valid: PreparedSplit) -> Evaluation:
        """Compute the loss, and the scores of greedy translations."""
        recipe, decode = self.recipe, self.loaded.decode
        objective = self.updater.validation_objective()
        loss = mean_loss(objective, valid, recipe.train.budget, recipe.runtime)
        if not math.isfinite(loss):
            raise DivergedError(f"step {self.progress.step:,}: the loss on the validation text is {loss:g}")
        kept = {name: getattr(decode, name) for name in ("max_length", "protect", "typography", "batch_tokens")}
        greedy = DecodeSettings(beam=1, **kept)
        loaded = replace(self.loaded, model=sharing_weights(objective.model), decode=greedy)
        texts = validation_texts(recipe, self.corpus)
        with self.display.validating(sum(len(text.sources) for text in texts)) as show:
            return replace(evaluate(loaded, recipe.runtime, texts, show), loss=loss)

    def _log_validation(self, validation: Evaluation, seconds: float) -> None:
        progress, settings = self.progress, self.recipe.train
        metric = validation.metric(settings.best_metric)
        improved = progress.record_validation(metric, validation.loss, settings.keep_best)
        progress.seconds += seconds
        self.display.validation(progress.step, validation, improved)
        self._warn_of_divergence(validation.loss)
        if (fault := degeneration(validation.translations)) is not None:
            self.console.warn(f"step {progress.step:,}: {fault}; this is usual only when a training begins")
        figures = {name: getattr(validation, name) for name in ("loss", "perplexity", "bleu", "chrf")}
        for code, (bleu, chrf) in validation.by_language.items():
            figures |= {f"bleu_{code}": bleu, f"chrf_{code}": chrf}
        self.run.log(self._record("validation", figures))

    def save(self) -> None:
        """Write the checkpoint of the current step."""
        if self.progress.step:
            self.run.save(self.loaded, self.updater, self.progress)

    def stop_reason(self, interruption: Interruption) -> str | None:
        """Return why training ends now, None if it does not."""
        stop, progress = self.recipe.train.stop, self.progress
        if interruption.signal is not None:
            return "interrupted; the same command resumes it"
        if stop.steps is not None and progress.step >= stop.steps:
            return f"train.stop.steps is {stop.steps:,}"
        if stop.epochs is not None and progress.epoch >= stop.epochs:
            return f"train.stop.epochs is {stop.epochs}"
        if stop.hours is not None and distributed.all_reduce_max(progress.seconds)[0] >= stop.hours * 3600:
            return f"train.stop.hours is {stop.hours:g}"
        if stop.patience is not None and progress.validations_without_gain >= stop.patience:
            return f"no better {self.recipe.train.best_metric} in {counted(stop.patience, 'validation')}"
        return None
