"""The training loop: read batches, update, log, validate at intervals, until a limit is reached."""

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any

import torch

from nmt.batching.batch_stream import BatchStream, DataPosition, PrefetchedBatches, Prefetcher
from nmt.config import DecodeSettings, MaxLength, Recipe
from nmt.errors import ModelError
from nmt.kernels.device import choose_device
from nmt.model.checkpoint import TorchModel
from nmt.model.stored import description_of, largest_limits
from nmt.model.transformer import attention_weights
from nmt.system import distributed
from nmt.system.console import Console, counted
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import BOS, EOS
from nmt.training.display import TrainingDisplay, format_seconds
from nmt.training.optimizer import initial_model
from nmt.training.progress import IntervalSums, perplexity
from nmt.training.resume import resume
from nmt.training.run import RunDirectory
from nmt.training.tensorboard import TensorBoard
from nmt.training.trial import check_largest_batches
from nmt.training.update import Update, Updater
from nmt.training.validation import Evaluation, evaluate, mean_loss, validation_texts

MAX_SKIPPED = 5  # updates in a row that are not finite, after which training ends


class Training:
    """A run in memory: the model, its optimizer, and the position in the corpus."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, console: Console) -> None:
        """Begin with a new model, or with the newest checkpoint of the run. Collective."""
        self.recipe, self.corpus, self.run, self.console = recipe, corpus, run, console
        self.model = initial_model(recipe, corpus.tokenizers, pretrained=not run.saved())
        self.updater = Updater(self.model, recipe, choose_device(recipe.runtime))
        self.progress = resume(run, self.updater, console.warn)
        self.progress.corpus = corpus.manifest.training_fingerprint(recipe.data)
        self.stream = BatchStream.of_recipe(recipe, corpus)
        self.stream.position = DataPosition(self.progress.epoch, self.progress.window, self.progress.group)
        self.stream.sizes = self.updater.kernels.sizes
        self.epochs_read = self.stream.epochs_read  # of the training; the stream itself reads ahead
        self.updates_an_epoch = self.stream.batches_an_epoch / recipe.train.accumulate
        # updates whose results are not read yet, their target tokens without and with fillers, and positions after them
        self.pending: deque[tuple[Update, tuple[int, int], DataPosition]] = deque()
        self.display = TrainingDisplay(console, recipe.train)
        self._set_last_step()
        max_length, longest_source = self._length_limits()
        decode = recipe.decode.model_copy(update={"max_length": recipe.decode.max_length or max_length})
        described = recipe.model, corpus.tokenizers, recipe.languages, decode, longest_source
        self.loaded = TorchModel(*described, in_torch=self.model)
        self._last_lap = 0.0
        self._problem: str | None = None  # the problem of the kernels that was printed last

    def _length_limits(self) -> tuple[MaxLength | None, int]:
        """Return the longest translation and source of the training text, or of the initial model if this is longer."""
        manifest, before = self.corpus.manifest, self.recipe.train.init_from
        limits: list[tuple[MaxLength | None, int]] = [(manifest.max_length, manifest.longest_source)]
        if before is not None:
            initial = description_of(self.run.checkpoint(self.progress.step) if self.progress.step else before)
            limits.append((initial.decode.max_length, initial.longest_source))
        return largest_limits(limits)

    def print_sizes(self) -> None:
        """Print what is about to be trained, on what, and where it is written."""
        recipe, model, device = self.recipe, self.model, self.updater.device
        threads = f" ({counted(torch.get_num_threads(), 'thread')})" if str(device) == "cpu" else ""
        ranks = f"{distributed.world_size()} × " if distributed.world_size() > 1 else ""
        frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
        frozen_note = f" ({frozen:,} of them frozen)" if frozen else ""
        resumed = f", resuming after step {self.progress.step:,}" if self.progress.step else ""
        updates = f"{self.updates_an_epoch:,.{0 if self.updates_an_epoch >= 10 else 1}f}"
        rows = (
            ("training", f"{recipe.name}, {recipe.languages.names}"),
            ("model", f"{model.parameter_count():,} parameters{frozen_note}: {recipe.model.encoder_layers} + "
                      f"{recipe.model.decoder_layers} layers, dim {recipe.model.dim}, "
                      f"{len(self.corpus.tokenizers.target):,} pieces"),
            ("device", f"{ranks}{device}{threads}, {self.updater.kernels.precision}"),
            ("text", f"{counted(len(self.stream.split), 'pair')} in {updates} updates per epoch"),
            ("run", f"{self.run.path}{resumed}"),
        )  # fmt: skip
        self.console.info("\n".join(f"{name:<10}{value}" for name, value in rows))
        self._warn_of_kernels()

    def train(self) -> tuple[str, int | None]:
        """Update until a limit is reached or a signal comes; write a checkpoint; return the reason and the signal.

        Raises ConfigError if the largest batches do not fit into memory, ModelError after several updates that are
        not finite.
        """
        progress, settings = self.progress, self.recipe.train
        check_largest_batches(self.updater, self.stream)
        prefetcher = Prefetcher(self.stream, settings.accumulate)
        self._lap()
        with (
            interruptible(self.console.info_at_once) as interruption,
            self.display.live("waiting for the first update"),
            prefetcher,
        ):
            while True:
                prefetched = prefetcher.next()
                tokens, received_signal, seconds = self._exchange(prefetched, interruption.signal)
                self._decide_last_step(seconds)
                reason = progress.reached_limit(settings)
                if received_signal is not None:
                    reason = "interrupted; the same command resumes it"
                if reason is not None:
                    break
                epoch, every = progress.epoch, settings.validate_every
                self.step(prefetched, tokens)
                is_due = progress.epoch > epoch if every == "epoch" else progress.step % every == 0
                if is_due:
                    self.validate()
            self._read_results()
            if received_signal is None and progress.validated_at < progress.step:
                self.validate()
            self.save()
            received_signal = int(max(number for (number,) in distributed.exchange(interruption.signal or 0))) or None
        if progress.skipped_in_a_row:
            last = counted(progress.skipped_in_a_row, "last update")
            self.console.warn(f"not finite: {last}; the training diverges: lower the rate of train.schedule")
        self.console.info(f"stopped after step {progress.step:,}: {reason}; saved in {self.run.path}")
        return reason, received_signal

    def _exchange(
        self, prefetched: PrefetchedBatches, received: int | None
    ) -> tuple[tuple[int, int], int | None, float]:
        """Return what all ranks need before an update, from one exchange between them.

        These are the numbers of target tokens of all ranks together, without and with fillers, a signal that any
        rank has received, and the seconds of training of the slowest rank.
        """
        tokens = sum(batch.target_tokens for batch in prefetched.batches)
        filled = sum(len(batch.labels) for batch in prefetched.batches)
        of_ranks = distributed.exchange(tokens, filled, received or 0, self.progress.seconds)
        all_tokens, all_filled, signals, seconds = zip(*of_ranks, strict=True)
        return (int(sum(all_tokens)), int(sum(all_filled))), int(max(signals)) or None, max(seconds)

    def _decide_last_step(self, seconds: float) -> None:
        """Convert the time limit to a last step, once the schedule needs it, and record it in a checkpoint. Collective.

        That is after 80 % of the part of the schedule whose rate does not depend on the last step, but not before a
        tenth of the time limit, so that the speed is measured. Since the step is recorded, a resumed training ends its
        schedule at the same step, whatever its speed.
        """
        progress, settings = self.progress, self.recipe.train
        limit, every = settings.stop.seconds, settings.validate_every
        decided_at = max(0.1, 0.8 * settings.schedule.steady_share)
        if limit is None or limit == progress.time_limit or not progress.step or seconds < decided_at * limit:
            return
        if not progress.validation_seconds:
            self.validate()
        self._read_results()
        updates = self.updates_an_epoch if every == "epoch" else every
        progress.last_step = distributed.on_rank_zero(lambda: progress.last_step_within(limit, updates))
        progress.time_limit = limit
        self._set_last_step()
        self.save()
        self._lap()  # not a part of the next interval
        if progress.last_step > progress.step:
            self.console.info(f"the limit of {format_seconds(limit)} will be reached at step {progress.last_step:,}")
        if settings.schedule.warmup >= progress.last_step:
            self.console.warn(f"train.schedule.warmup: {settings.schedule.warmup:,} steps are all of this training")

    def _set_last_step(self) -> None:
        """Set the end of the schedule to the first of the known limits of steps, epochs and time."""
        stop, progress = self.recipe.train.stop, self.progress
        limits = [stop.steps, progress.last_step if stop.seconds == progress.time_limit else None]
        if stop.epochs is not None and self.recipe.train.schedule.falls:
            limits.append(self.stream.updates_in(stop.epochs, self.recipe.train.accumulate))
        self.updater.last_step = self.display.last_step = min(filter(None, limits), default=math.inf)

    def step(self, prefetched: PrefetchedBatches, tokens: tuple[int, int]) -> None:
        """Make one update and log the results of the one before, so that the host does not wait for a device."""
        progress = self.progress
        progress.step += 1
        update = self.updater.update(prefetched.batches, progress.step, tokens[0])
        self.pending.append((update, tokens, prefetched.position))
        progress.epoch, progress.window, progress.group = astuple(prefetched.position)
        self.epochs_read = prefetched.epochs_read
        at_log = progress.step % self.recipe.train.log_every == 0
        self._read_results(keep=0 if at_log else 1)
        progress.interval.seconds += self._lap()
        progress.interval.waited += prefetched.waited
        if progress.interval.steps:
            record = self._record("train", {**progress.interval.means(), "rate": update.rate})
            self.display.update(record, at_log)
            if at_log:
                self._warn_of_kernels()
                self.run.log(record)
                progress.interval = IntervalSums()

    def _read_results(self, keep: int = 0) -> None:
        """Read the results of all pending updates except the last few, and add them up.

        Raises ModelError after too many updates in a row that are not finite.
        """
        progress, interval = self.progress, self.progress.interval
        while len(self.pending) > keep:
            update, (tokens, filled), position = self.pending.popleft()
            loss, nll, norm = update.results()
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._skip(update.step, loss, norm, position)
                continue
            progress.skipped_in_a_row = 0
            progress.target_tokens += tokens
            interval.loss += loss
            interval.nll += nll
            interval.gradient_norm += norm
            interval.steps += 1
            interval.target_tokens += tokens
            interval.padded_target_tokens += filled

    def _skip(self, step: int, loss: float, norm: float, position: DataPosition) -> None:
        """Log an update that changed nothing. Raises ModelError after too many in a row."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        results = {"loss": str(loss), "gradient_norm": str(norm)}
        # its batches can be read again: they end before this position
        next_group = position.epoch, position.group, position.window
        self.run.log({"type": "skipped", "step": step, **results, "next_group": next_group})
        self.console.warn(f"step {step:,}: loss {loss:g}, gradient norm {norm:g}: skipped")
        if progress.skipped_in_a_row >= MAX_SKIPPED:
            raise self._diverged(f"step {step:,}: the {MAX_SKIPPED}th update in a row that is not finite")

    def _diverged(self, reason: str) -> ModelError:
        """Log that the training diverged, and return the error that ends it."""
        self.run.log({"type": "diverged", "step": self.progress.step})
        older = f"; the older checkpoints in {self.run.path} precede that" if self.run.saved() else ""
        return ModelError(
            f"{reason}: lower train.schedule's rate or lengthen its warmup, and start over with --restart or with "
            f"'run' set to another folder{older}"
        )

    def _warn_of_kernels(self) -> None:
        """Warn once if fast kernels cannot be used here."""
        if self.updater.kernels.problem not in (None, self._problem):
            self._problem = self.updater.kernels.problem
            self.console.warn(f"{self._problem}")

    def _lap(self) -> float:
        """Return the seconds since the last call, which are added to those of the training."""
        before, self._last_lap = self._last_lap, time.perf_counter()
        seconds = self._last_lap - before if before else 0.0
        self.progress.seconds += seconds
        return seconds

    def _record(self, kind: str, figures: dict[str, float]) -> dict[str, Any]:
        """Return a line of the log."""
        progress = self.progress
        head = {"type": kind, "step": progress.step, "epoch": round(self.epochs_read, 4)}
        return {**head, **figures, "target_tokens": progress.target_tokens, "seconds": round(progress.seconds, 3)}

    def validate(self) -> None:
        """Measure the model on the validation text, if there is one, log it, and write a checkpoint.

        Raises ModelError for a loss that is not finite.
        """
        self._read_results()
        progress, settings = self.progress, self.recipe.train
        if self.corpus.valid is not None:
            evaluation = self._evaluate(self.corpus.valid)
            metric = evaluation.metric(settings.best_metric)
            improved = progress.record_validation(metric, evaluation.loss)
            if improved:
                self.run.write_translations("valid.txt", evaluation.translations)
            progress.last_validation = self._lap()
            progress.validation_seconds += progress.last_validation
            self.display.validation(progress.step, evaluation, improved)
            figures = {name: getattr(evaluation, name) for name in ("loss", "bleu", "chrf")}
            figures["perplexity"] = perplexity(evaluation.loss)
            for code, (bleu, chrf) in evaluation.by_language.items():
                figures |= {f"bleu_{code}": bleu, f"chrf_{code}": chrf}
            self.run.log(self._record("validation", figures))
            if self.run.board is not None:
                self.run.board.log_samples(progress.step, evaluation.samples)
                if settings.tensorboard == "all":
                    self._log_tensors(self.run.board, evaluation)
        progress.validated_at = progress.step
        self.save()
        self._lap()  # not a part of the next interval

    def _evaluate(self, valid: PreparedSplit) -> Evaluation:
        """Compute the loss, and the scores of greedy translations."""
        recipe, decode = self.recipe, self.loaded.decode
        budget = max(1, recipe.train.budget // distributed.world_size())
        loss = self.updater.with_released_memory(lambda: mean_loss(self.model, valid, budget))
        if not math.isfinite(loss):
            raise self._diverged(f"step {self.progress.step:,}: the loss on the validation text is {loss:g}")
        shared = {name: getattr(decode, name) for name in ("max_length", "protect", "typography", "batch_tokens")}
        greedy = DecodeSettings(beam=1, **shared)
        loaded = replace(self.loaded, decode=greedy)
        texts = validation_texts(recipe, self.corpus)
        self.display.validating(sum(len(text.sources) for text in texts))
        return replace(evaluate(loaded, recipe.runtime, texts), loss=loss)

    def _log_tensors(self, board: TensorBoard, evaluation: Evaluation) -> None:
        """Write weights, gradients of the last update, and the attention of a sample to TensorBoard."""
        weights, (source, _, translation) = self.updater.weights, evaluation.samples[0]
        tensors = {"weights": weights.views(weights.all.detach()), "gradients": weights.views(weights.gradient)}
        tokenizers = self.loaded.tokenizers
        tag = self.recipe.languages.target_tag(evaluation.texts[0].language)
        ids = [*tokenizers.source.tag_ids([tag, evaluation.texts[0].tag]), *tokenizers.source.encode(source), EOS]
        target = [BOS, *tokenizers.target.encode(translation)]
        board.log_tensors(self.progress.step, tensors, attention_weights(self.model, ids, target).cross)

    def save(self) -> None:
        """Write the checkpoint of the current step. Collective: no rank returns before it is on the disk."""
        if self.progress.step:
            keep = self.recipe.train.keep_best
            distributed.on_rank_zero(lambda: self.run.save(self.loaded, self.updater, self.progress, keep))


class Interruption:
    """The signal that was received first, None before."""

    signal: int | None = None


@contextmanager
def interruptible(notify: Callable[[str], None]) -> Iterator[Interruption]:
    """Yield an interruption that the first SIGINT, SIGTERM or SIGHUP sets; then only SIGINT has its usual effect.

    A terminal that is closed may send SIGHUP twice. `notify` is called in a signal handler.
    """
    interruption = Interruption()

    def receive(number: int, frame: object) -> None:
        if interruption.signal is None:
            interruption.signal = number
            signal.signal(signal.SIGINT, handlers[signal.SIGINT])
            notify("saving after this step; press Ctrl-C again to stop at once")

    # shell scripts ignore SIGINT, and nohup SIGHUP, for background processes
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    previous = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    for number in previous:
        signal.signal(number, receive)
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
