"""The progress of a training on the terminal: a table with a row for each logging interval and each validation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from nmt.config import TrainSettings
from nmt.system.console import Console
from nmt.training.progress import Progress
from nmt.training.validation import Validation

HEAD = "     step   epoch    loss  perplexity      rate  tokens/s   MFU  wait       left"


class TrainingDisplay:
    """A table of 80 columns.

    The loss is the training loss, with label smoothing; perplexity is that of the plain likelihood, and so comparable
    with validation. MFU is the share of the machine's matrix rate (`nmt.training.utilization`), wait the share of time
    in which no batch was ready.
    """

    def __init__(self, console: Console, settings: TrainSettings) -> None:
        self.console = console
        self.settings = settings
        self._live: Live | None = None
        self._has_head = False

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep a row up to date at the bottom of a terminal."""
        if not self.console.live:
            yield
            return
        with self.console.live_line() as self._live:
            yield
        self._live = None

    def update(self, record: dict[str, Any], progress: Progress) -> None:
        """Refresh the live row with the means of the current interval, after each step."""
        if self._live is not None:
            self._print_head()
            self._live.update(Text(self._row(record, progress), style="cyan"))

    def log(self, record: dict[str, Any], progress: Progress) -> None:
        """Print the means of a complete interval."""
        self._print(self._row(record, progress))

    def validation(self, progress: Progress, validation: Validation, improved: bool) -> None:
        """Print a validation, marked if it is the best by `train.best_metric`."""
        best = f"  best {self.settings.best_metric}" if improved else ""
        self._print(
            f"{progress.step:>9,}  valid  loss {validation.loss:.3f}  "
            f"perplexity {format_perplexity(validation.perplexity)}  "
            f"BLEU {validation.bleu:.2f}  chrF {validation.chrf:.2f}{best}"
        )

    def _print(self, row: str) -> None:
        self._print_head()
        self.console.info(row)

    def _print_head(self) -> None:
        """Print the table's head once."""
        if not self._has_head:
            self.console.info(HEAD)
            self._has_head = True

    def _row(self, record: dict[str, Any], progress: Progress) -> str:
        loss = f"{record['loss']:.3f}" if record["loss"] < 1000 else f"{record['loss']:.1e}"
        return (
            f"{record['step']:>9,} {record['epoch']:>7.2f} {loss:>7} "
            f"{format_perplexity(record['perplexity']):>11} "
            f"{record['rate']:>9.2e} {record['target_tokens_per_second']:>9,.0f} {record['utilization']:>5.0%} "
            f"{record['loader_wait']:>5.1%} {self.time_left(progress):>10}"
        )

    def time_left(self, progress: Progress) -> str:
        """Return the time until the first limit on time, steps or epochs, as 1:23:45."""
        stop = self.settings.stop
        left = []
        if stop.hours is not None:
            left.append(stop.hours * 3600 - progress.seconds)
        if stop.steps is not None and progress.step:
            left.append((stop.steps - progress.step) * progress.seconds / progress.step)
        if stop.epochs is not None and progress.epoch:
            left.append((stop.epochs - progress.epoch) * progress.seconds / progress.epoch)
        return format_seconds(max(0.0, min(left))) if left else "until stopped"


def format_perplexity(value: float) -> str:
    """Return a perplexity in at most 11 columns.

    >>> format_perplexity(12.345), format_perplexity(1e304)
    ('12.35', '> 1,000,000')
    """
    return f"{value:.2f}" if value <= 1e6 else "> 1,000,000"


def format_seconds(seconds: float) -> str:
    """Return seconds as h:mm:ss.

    >>> format_seconds(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(min(seconds, 1e9)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
