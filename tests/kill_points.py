"""Kill a process at a point that depends on the work it has done and not on the clock."""

import os
import signal
import sys
from types import FrameType
from typing import Any

_AGAIN = 5_000


def kill_at_call(
    calls: int, number: signal.Signals = signal.SIGKILL, *, after: tuple[Any, str], times: int = 1
) -> None:
    """Send this process a signal at a function call of the main thread.

    `after` is the owner and the name of a function. From the call of that function given by `times` on, `calls` calls
    are counted, of Python and of C functions, so system calls are among the points. A process that continues, because
    Python ignores exceptions in a destructor, receives the signal again later.
    """
    owner, name = after
    function, remaining = getattr(owner, name), calls

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal remaining
        if event in ("call", "c_call"):
            if remaining % _AGAIN == 0 and remaining <= 0:
                os.kill(os.getpid(), number)
            remaining -= 1

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal times
        times -= 1
        if times == 0:
            sys.setprofile(count)  # only now, since it makes all calls several times slower
        return function(*arguments, **options)

    setattr(owner, name, counted)
