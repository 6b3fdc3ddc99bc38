"""The progress of a training on the terminal: a table with a row for each logging interval and each validation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from nmt.config import Stop, TrainSettings
from nmt.system.console import AdvanceTo, Console
from nmt.training.validation import Evaluation

HEADER = "     step   epoch    loss  perplexity      rate  tokens/s  wait       left"


class TrainingDisplay:
    """A table of 74 columns.

    The loss, in nats per target token and without label smoothing, is the same quantity in training and validation;
    wait is the share of time in which no batch was ready.
    """

    def __init__(self, console: Console, settings: TrainSettings) -> None:
        self.console = console
        self.settings = settings
        self._live: Live | None = None
        self._header_printed = False

    @contextmanager
    def live(self, text: str) -> Iterator[None]:
        """Keep a row up to date at the bottom of a terminal; it shows a text before the first update."""
        if not self.console.live:
            yield
            return
        with self.console.live_line(text or "waiting for the first update") as self._live:
            yield
        self._live = None

    def update(self, record: dict[str, Any]) -> None:
        """Refresh the live row with the means of the current interval, after each step."""
        if self._live is not None:
            self._print_header()
            self._live.update(Text(self._row(record), style="cyan"))

    def log(self, record: dict[str, Any]) -> None:
        """Print the means of a complete interval, in place of the live row."""
        if self._live is not None:
            self._live.update("")
        self._print(self._row(record))

    @contextmanager
    def validating(self, sentences: int) -> Iterator[AdvanceTo]:
        """Show the progress of a validation in place of the live row."""
        if self._live is not None:
            self._live.update("", refresh=True)
            self._live.stop()
        with self.console.progress_through("validating", sentences, "sentences") as show:
            yield show
        if self._live is not None:
            self._live.start()

    def validation(self, step: int, validation: Evaluation, improved: bool) -> None:
        """Print a validation, marked if it is the best by `train.best_metric`, and samples of the translations."""
        best = f"  best {self.settings.best_metric}" if improved else ""
        self._print(
            f"{step:>9,}   valid {_loss_columns(validation.loss, validation.perplexity)}  "
            f"BLEU {validation.bleu:.2f}  chrF {validation.chrf:.2f}{best}"
        )
        for code, (bleu, chrf) in validation.by_language.items():
            self._print(f"{'':12}{code:<20}  BLEU {bleu:.2f}  chrF {chrf:.2f}")
        for evaluated in validation.texts:
            for name, text in evaluated.sample._asdict().items():
                start = f"{'':12}{name:<11}"
                self._print(start + (self.console.shortened(text, len(start)) or "(empty)"))

    def _print(self, row: str) -> None:
        self._print_header()
        self.console.info(row)

    def _print_header(self) -> None:
        """Print the table's head once."""
        if not self._header_printed:
            self.console.info(HEADER)
            self._header_printed = True

    def _row(self, record: dict[str, Any]) -> str:
        left = seconds_left(self.settings.stop, record["step"], record["epoch"], record["seconds"])
        return (
            f"{record['step']:>9,} {record['epoch']:>7.2f} {_loss_columns(record['loss'], record['perplexity'])} "
            f"{record['rate']:>9.2e} {record['target_tokens_per_second']:>9,.0f} "
            f"{record['loader_wait']:>5.1%} {'unknown' if left is None else format_seconds(left):>10}"
        )


def seconds_left(stop: Stop, step: int, epochs: float, seconds: float) -> float | None:
    """Return the seconds until the first limit on steps, epochs or time, after so many; None if there is no such limit.

    Epochs are counted with their fraction.
    """
    parts = [(step, stop.steps), (epochs, stop.epochs), (seconds, stop.hours and stop.hours * 3600)]
    left = [(limit - done) * seconds / done for done, limit in parts if limit is not None and done > 0]
    return max(0.0, min(left)) if left else None


def _loss_columns(loss: float, perplexity: float) -> str:
    """Return both as columns of 7 and 11 characters.

    >>> _loss_columns(1.5, 12.345), _loss_columns(2345.6, 1e304)
    ('  1.500       12.35', '2.3e+03 > 1,000,000')
    """
    shown = f"{perplexity:.2f}" if perplexity <= 1e6 else "> 1,000,000"
    return f"{format(loss, '.3f' if loss < 1000 else '.1e'):>7} {shown:>11}"


def format_seconds(seconds: float) -> str:
    """Return seconds as h:mm:ss.

    >>> format_seconds(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(min(seconds, 1e9)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
