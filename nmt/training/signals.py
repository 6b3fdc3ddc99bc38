"""Signals: the first one requests to save and stop, a second Ctrl-C stops at once; SIGUSR1 requests to save."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Self, TypeVar

from nmt.system.distributed import all_reduce_max, world_size

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAVING = signal.SIGUSR1

Result = TypeVar("Result")


class Interruption:
    """The requests that this process received by signals, and those that all ranks have agreed on.

    A block handles SIGINT, SIGTERM, SIGHUP and SIGUSR1, except those that are ignored. The first of them that stops is
    reported to `notify`. A second Ctrl-C is left to the previous handler.
    """

    def __init__(self, notify: Callable[[str], None] = lambda message: None) -> None:
        """Take a function that prints a message in a signal handler."""
        self._notify = notify
        self.signal: int | None = None
        """The signal to stop for, the same on all ranks."""
        self.save_requested = False
        """Whether to save now, the same on all ranks."""
        self._received: int | None = None
        self._received_saving = False
        self._cancellable = False

    def __enter__(self) -> Self:
        self._previous = {number: signal.getsignal(number) for number in (*_STOPPING, _SAVING)}
        for number, handler in self._previous.items():
            if handler != signal.SIG_IGN:  # nohup and shell scripts ignore some for their background processes
                signal.signal(number, self.receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            if signal.getsignal(number) == self.receive:  # the previous handler may have changed it
                signal.signal(number, handler)

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
            previous = self._previous[signal.SIGINT]
            (previous if callable(previous) else signal.default_int_handler)(number, frame)
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
