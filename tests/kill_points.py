"""Kill a process at a point that depends on the work it has done and not on the clock."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

_AGAIN = 5_000


def kill_at_call(
    calls: int, number: signal.Signals = signal.SIGKILL, *, begun: Callable[[], bool] = lambda: True, every: int = 1
) -> None:
    """Send this process a signal at a function call of the main thread: `calls` calls after `begun` returns true.

    Calls of Python and of C functions count, so system calls are among the points. `begun` is evaluated once in `every`
    calls. A process that continues, because Python ignores exceptions in a destructor, receives the signal again later.
    """
    counted, remaining, started = 0, calls, False

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal counted, remaining, started
        if event not in ("call", "c_call"):
            return
        counted += 1
        if not started and counted % every == 0:
            started = begun()
        if started:
            if remaining % _AGAIN == 0 and remaining <= 0:
                os.kill(os.getpid(), number)
            remaining -= 1

    sys.setprofile(count)
