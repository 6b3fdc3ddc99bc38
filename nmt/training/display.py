"""The progress of a training on the terminal: a row for each logging interval and each validation, and a live line."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from nmt.config import Stop, TrainSettings
from nmt.system.console import Console
from nmt.training.progress import perplexity_text
from nmt.training.validation import Evaluation

HEADER = "     step   epoch    loss  perplexity      rate  tokens/s  wait       left"


class TrainingDisplay:
    """A table of 74 columns.

    The loss, in nats per target token and without label smoothing, is the same quantity in training and validation;
    wait is the share of time in which no batch was ready.
    """

    def __init__(self, console: Console, settings: TrainSettings) -> None:
        self.console, self.settings = console, settings
        self.last_step = math.inf  # of the training; infinity while it is not known
        self._live: Live | None = None

    @contextmanager
    def live(self, text: str) -> Iterator[None]:
        """Print the header of the table, and update a row below it, which shows `text` before the first update."""
        self.console.info(HEADER)
        if not self.console.live:
            yield
            return
        with self.console.live_line(text) as self._live:
            yield
        self._live = None

    def update(self, record: dict[str, Any], at_log: bool) -> None:
        """Print the means of the interval at its end, and show them in the live row before."""
        left = seconds_left(self.settings.stop, self.last_step, record["step"], record["epoch"], record["seconds"])
        row = (
            f"{record['step']:>9,} {record['epoch']:>7.2f} {_loss_columns(record['loss'])} "
            f"{record['rate']:>9.2e} {record['target_tokens_per_second']:>9,.0f} "
            f"{record['loader_wait']:>5.1%} {'unknown' if left is None else format_seconds(left):>10}"
        )
        if self._live is not None:
            self._live.update("" if at_log else Text(row, style="cyan"), refresh=at_log)  # no old row below the next
        if at_log:
            self.console.info(row)

    def validating(self, sentences: int) -> None:
        """Show in the live row that a text is being translated."""
        if self._live is not None:
            self._live.update(Text(f"validating: translating {sentences:,} sentences …", style="cyan"), refresh=True)

    def validation(self, step: int, evaluation: Evaluation, improved: bool) -> None:
        """Print a validation, marked if it is the best by `train.best_metric`, and a sample of each text."""
        best = f"  best {self.settings.best_metric}" if improved else ""
        self.console.info(
            f"{step:>9,}   valid {_loss_columns(evaluation.loss)}  "
            f"BLEU {evaluation.bleu:.2f}  chrF {evaluation.chrf:.2f}{best}"
        )
        for code, (bleu, chrf) in evaluation.by_language.items():
            self.console.info(f"{'':12}{code:<20}  BLEU {bleu:.2f}  chrF {chrf:.2f}")
        for sample in evaluation.samples:
            for name, text in zip(("source", "reference", "output"), sample, strict=True):
                start = f"{'':12}{name:<11}"
                self.console.info(start + (self.console.shortened(text, len(start)) or "(empty)"))


def seconds_left(stop: Stop, last_step: float, step: int, epochs: float, seconds: float) -> float | None:
    """Return the seconds until the last step or the limit on epochs or time, whichever is first; None without limits.

    Epochs are counted with their fraction.
    """
    parts = [(step, last_step), (epochs, stop.epochs or math.inf), (seconds, stop.seconds or math.inf)]
    left = min((limit - done) * seconds / done for done, limit in parts if done > 0)
    return None if math.isinf(left) else max(0.0, left)


def _loss_columns(loss: float) -> str:
    """Return a loss and its perplexity as columns of 7 and 11 characters.

    >>> _loss_columns(1.5), _loss_columns(2345.6)
    ('  1.500        4.48', '2.3e+03 > 1,000,000')
    """
    return f"{format(loss, '.3f' if loss < 1000 else '.1e'):>7} {perplexity_text(loss):>11}"


def format_seconds(seconds: float) -> str:
    """Return seconds as h:mm:ss.

    >>> format_seconds(3725)
    '1:02:05'
    """
    whole = round(min(seconds, 1e9))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
