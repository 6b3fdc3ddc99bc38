"""Signals: the first one requests to save and stop, a second Ctrl-C stops at once; SIGUSR1 requests to save."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from nmt.system.distributed import all_reduce_max, world_size

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAVING = signal.SIGUSR1

Result = TypeVar("Result")


class Interruption:
    """The requests that this process received by signals, and those that all ranks have agreed on."""

    def __init__(
        self,
        notify: Callable[[str], None] = lambda message: None,
        stop_at_once: Callable[[int, FrameType | None], object] = signal.default_int_handler,
    ) -> None:
        """Take a function that prints a message in a signal handler, and the handler of a second Ctrl-C."""
        self._notify, self._stop_at_once = notify, stop_at_once
        self.signal: int | None = None
        """The signal to stop for, the same on all ranks."""
        self.save_requested = False
        """Whether to save now, the same on all ranks."""
        self._received: int | None = None
        self._received_saving = False
        self._cancellable = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. Ctrl-C after a first stopping signal raises KeyboardInterrupt."""
        if number == _SAVING:
            self._received_saving = True
        elif self._received is None:
            self._received = number
            name = "" if number == signal.SIGINT else f"{signal.Signals(number).name}: "
            doing = "stopping and saving" if self._cancellable else "saving after this step"
            self._notify(f"{name}{doing}; press Ctrl-C{'' if name else ' again'} to stop at once")
        elif number == signal.SIGINT:
            self._stop_at_once(number, frame)
        if world_size() == 1:
            self.synchronize()
        if self._cancellable and self._received is not None:
            self._cancellable = False
            raise _CancelledError

    def synchronize(self) -> None:
        """Update `signal` and `save_requested` from what any rank has received. Collective."""
        saving, self._received_saving = self._received_saving, False
        received, any_saving = all_reduce_max(self._received or 0, int(saving))
        self.signal = int(received) or None
        self.save_requested = self.save_requested or bool(any_saving)

    def unless_stopped(self, work: Callable[[], Result]) -> Result | None:
        """Run long work that has no side effects; return None if a stopping signal cancels it."""
        try:
            try:
                # with several ranks, the others would wait for this one in their collectives
                self._cancellable = self._received is None and world_size() == 1
                return work()
            finally:
                self._cancellable = False
        except _CancelledError:  # outside the inner block: it may be raised in `finally`
            return None


class _CancelledError(BaseException):
    """Not an Exception, which the cancelled work might catch."""


@contextmanager
def handled_signals(notify: Callable[[str], None] = lambda message: None) -> Iterator[Interruption]:
    """Handle SIGINT, SIGTERM, SIGHUP and SIGUSR1 within the block, except those that are ignored.

    The first of them that stops is reported to `notify`. A second Ctrl-C is left to the previous handler.
    """
    before = {number: signal.getsignal(number) for number in (*_STOPPING, _SAVING)}
    previous = before[signal.SIGINT]
    interruption = Interruption(notify, previous if callable(previous) else signal.default_int_handler)
    # nohup and shell scripts ignore some for their background processes
    handled = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    for number in handled:
        signal.signal(number, interruption.receive)
    try:
        yield interruption
    finally:
        for number, handler in handled.items():
            if signal.getsignal(number) == interruption.receive:  # the previous handler may have changed it
                signal.signal(number, handler)
