"""Being stopped politely: the first signal asks the loop to save and end, a second Ctrl-C ends it at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from nmt.system.distributed import all_reduce_max, size

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAVING = signal.SIGUSR1

Result = TypeVar("Result")


class Interruption:
    """Whether, and by which signal, this process was asked to stop, and whether to save what it has."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.save_wanted = False
        self._told: int | None = None
        self._told_to_save = False
        self._breakable = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; raise KeyboardInterrupt at Ctrl-C while stopping already."""
        if number == _SAVING:
            self._told_to_save = True
        elif self._told is None:
            self._told = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        if size() == 1:
            self.agree()
        if self._breakable and self._told is not None:
            self._breakable = False
            raise _BrokenOff

    def agree(self) -> None:
        """Act from now on as the signals demand that this process was sent, or any other that trains with it.

        All processes must ask together.
        """
        saving, self._told_to_save = self._told_to_save, False
        told, saving_told = all_reduce_max(self._told or 0, int(saving))
        self.signal = int(told) or None
        self.save_wanted = self.save_wanted or bool(saving_told)

    def unless_stopped(self, work: Callable[[], Result]) -> Result | None:
        """Do some long work that leaves nothing half done; if asked to stop meanwhile, break it off and return None."""
        try:
            try:
                # where other processes do a part of the work, they would wait for this one
                self._breakable = self._told is None and size() == 1
                return work()
            finally:
                self._breakable = False
        except _BrokenOff:  # outside, for it may come even while the line above is run
            return None


class _BrokenOff(BaseException):
    """The work is to end; no exception of the usual kind, which the work itself might catch."""


@contextmanager
def polite_interruption() -> Iterator[Interruption]:
    """Catch SIGINT, SIGTERM, SIGHUP and SIGUSR1 within the block, but for those that this process is to ignore."""
    interruption = Interruption()
    before = {number: signal.getsignal(number) for number in (*_STOPPING, _SAVING)}
    # under nohup, or in the background of a script, some are ignored on purpose
    caught = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    for number in caught:
        signal.signal(number, interruption.receive)
    try:
        yield interruption
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
