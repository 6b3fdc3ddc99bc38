"""The first SIGINT or SIGTERM asks the training loop to save and to end; a second one has its usual effect."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interruption:
    """The signal that was received first, None before."""

    signal: int | None = None


@contextmanager
def interruptible(notify: Callable[[str], None]) -> Iterator[Interruption]:
    """Yield an interruption that the first signal sets; `notify` prints in a signal handler."""
    interruption = Interruption()

    def receive(number: int, frame: object) -> None:
        interruption.signal = number
        restore()
        notify("saving after this step; press Ctrl-C again to stop at once")

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    # nohup and shell scripts ignore SIGINT for their background processes
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    previous = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    for number in previous:
        signal.signal(number, receive)
    try:
        yield interruption
    finally:
        restore()
