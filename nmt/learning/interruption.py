"""Being stopped politely: the first signal asks the loop to save and end, the second ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether, and by which signal, this process was asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; raise KeyboardInterrupt at the second."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def polite_interruption() -> Iterator[Interruption]:
    """Catch SIGINT and SIGTERM within the block."""
    interruption = Interruption()
    caught = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interruption.receive) for number in caught]
    try:
        yield interruption
    finally:
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)
