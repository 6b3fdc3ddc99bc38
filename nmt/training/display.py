"""What a person sees of a training: a line now and then, and on a terminal one that is always fresh."""

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
    """A table that fits 80 columns: where the training is, how it learns, how fast it is, and how long it will be.

    MFU is the share of the machine's matrix rate (`nmt.training.utilization`), wait the share of the time in which no
    batch was ready.
    """

    def __init__(self, console: Console, settings: TrainSettings) -> None:
        self.console = console
        self.settings = settings
        self._live: Live | None = None
        self._headed = False

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep one line up to date at the bottom of the terminal, where there is one."""
        if not self.console.live:
            yield
            return
        with self.console.live_line() as self._live:
            yield
        self._live = None

    def update(self, record: dict[str, Any], progress: Progress) -> None:
        """Refresh the live line with the means of the current window, after each step."""
        if self._live is not None:
            self._head()
            self._live.update(Text(self._line(record, progress), style="cyan"))

    def log(self, record: dict[str, Any], progress: Progress) -> None:
        """Print the means of a window that is complete."""
        self._say(self._line(record, progress))

    def validation(self, progress: Progress, validation: Validation, improved: bool) -> None:
        """Print a validation, marked if it is the best by the metric that decides."""
        best = f"  best {self.settings.best_metric}" if improved else ""
        self._say(
            f"{progress.step:>9,}  valid  loss {validation.loss:.3f}  perplexity {validation.perplexity:.2f}  "
            f"BLEU {validation.bleu:.2f}  chrF {validation.chrf:.2f}{best}"
        )

    def _say(self, line: str) -> None:
        """Print a line of the table."""
        self._head()
        self.console.say(line)

    def _head(self) -> None:
        """Print the table's head, once."""
        if not self._headed:
            self.console.say(HEAD)
            self._headed = True

    def _line(self, record: dict[str, Any], progress: Progress) -> str:
        return (
            f"{record['step']:>9,} {record['epoch']:>7.2f} {record['loss']:>7.3f} {record['perplexity']:>11.2f} "
            f"{record['rate']:>9.2e} {record['target_tokens_per_second']:>9,.0f} {record['utilization']:>5.0%} "
            f"{record['loader_wait']:>5.1%} {self.time_left(progress):>10}"
        )

    def time_left(self, progress: Progress) -> str:
        """Return the time until the first limit that time or steps set, as 1:23:45."""
        stop = self.settings.stop
        left = []
        if stop.hours is not None:
            left.append(stop.hours * 3600 - progress.seconds)
        if stop.steps is not None and progress.step:
            left.append((stop.steps - progress.step) * progress.seconds / progress.step)
        if stop.epochs is not None and progress.epoch:
            left.append((stop.epochs - progress.epoch) * progress.seconds / progress.epoch)
        return clock(max(0.0, min(left))) if left else "until stopped"


def clock(seconds: float) -> str:
    """Return seconds as h:mm:ss.

    >>> clock(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
