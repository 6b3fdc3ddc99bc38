"""A decoder in several processes, each of which works on one core at batches of its own.

Threads would do, were it not for Python: only one of them can run it at a time, and between two small products there is
always some of it to run. On two cores processes are a sixth faster than threads, and more on more.
"""

import ctypes
import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from nmt.config import RuntimeSettings
from nmt.decoding.decoder import Decoder, Steps
from nmt.errors import ModelError
from nmt.runtime import autocast

_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A decoder on the CPU, and as many copies of this process as are wanted, once there is something for them to do.

    Copying shares the weights, and takes no time. It wants a process that does nothing else, and whose torch has
    used one thread only, as a command sees to: for copies would wait for ever for threads that are not copied.
    """

    def __init__(self, decoder: Decoder, runtime: RuntimeSettings, count: int) -> None:
        self.decoder = decoder
        self._runtime = runtime
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    @property
    def ready(self) -> bool:
        """Whether there are copies, or may be: there are no threads but Python's own."""
        return self._pool is not None or _threads() == threading.active_count()

    @property
    def longest(self) -> int | None:
        """As the decoder has it."""
        return self.decoder.longest

    @property
    def device(self) -> torch.device:
        """As the decoder has it."""
        return self.decoder.device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> Steps:
        """Begin in this process."""
        return self.decoder.start(source, source_mask, beam)

    def share_out(self, work: Callable[[Decoder, Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Do some work for each item in one of the processes, in order; `work` and what it returns are pickled.

        Raises what the work raises, and ModelError if a process is gone.
        """
        if self._pool is None:
            fork = multiprocessing.get_context("fork")
            mine = (self.decoder, self._runtime)
            self._pool = ProcessPoolExecutor(self._count, fork, initializer=_begin, initargs=mine)
        try:
            with warnings.catch_warnings():
                # newer Pythons warn of threads; here there are at most those that wait for torch's next product
                warnings.simplefilter("ignore", DeprecationWarning)
                futures = [self._pool.submit(_work, work, item) for item in items]
            for future in futures:
                yield future.result()
        except BrokenProcessPool:
            self._pool = None
            raise ModelError(
                "a process that translated is gone: it was killed, perhaps for want of memory; give fewer --threads "
                "or a smaller --batch-tokens"
            ) from None
        except BaseException:
            # whoever pressed Ctrl-C would wait for what the others are at, and pressing it again hangs for ever
            for process in list(self._pool._processes.values()):
                process.kill()
            self._pool = None
            raise


_own: list[tuple[Decoder, RuntimeSettings]] = []
"""What a copy of the process has been given."""


def _threads() -> int:
    """Return how many threads this process has; 0 where nothing tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 0


def _begin(decoder: Decoder, runtime: RuntimeSettings) -> None:
    """Make a process one of those that work: on one core, silent on Ctrl-C, gone when the first one is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _own.append((decoder, runtime))


def _work(work: Callable[[Decoder, Item], Result], item: Item) -> Result:
    decoder, runtime = _own[-1]
    with autocast(runtime, decoder.device):
        return work(decoder, item)
