"""A decoder in several processes, each of which works on one core at batches of its own.

Threads would do, were it not for Python: only one of them can run it at a time, and between two small products there is
always some of it to run. On two cores processes are a sixth faster than threads, and more on more.
"""

import ctypes
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
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

    Copying shares the weights, and takes no time. It wants a process that does nothing else meanwhile, as a command
    does: another thread might hold a lock that the copies would wait for for ever.
    """

    def __init__(self, decoder: Decoder, runtime: RuntimeSettings, count: int) -> None:
        self._decoder = decoder
        self._runtime = runtime
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    @property
    def longest(self) -> int | None:
        """As the decoder has it."""
        return self._decoder.longest

    @property
    def device(self) -> torch.device:
        """As the decoder has it."""
        return self._decoder.device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> Steps:
        """Begin in this process."""
        return self._decoder.start(source, source_mask, beam)

    def share_out(self, work: Callable[[Decoder, Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Do some work for each item in one of the processes, in order; `work` and what it returns are pickled.

        Raises what the work raises, and ModelError if a process is gone.
        """
        if self._pool is None:
            fork = multiprocessing.get_context("fork")
            mine = (self._decoder, self._runtime)
            self._pool = ProcessPoolExecutor(self._count, fork, initializer=_begin, initargs=mine)
        try:
            with warnings.catch_warnings():
                # newer Pythons warn of threads; here there are at most those that wait for torch's next product
                warnings.simplefilter("ignore", DeprecationWarning)
                results = self._pool.map(partial(_work, work), items)
            yield from results
        except BrokenProcessPool:
            raise ModelError(
                "a process that translated is gone: it was killed, perhaps for want of memory; give fewer --threads "
                "or a smaller --batch-tokens"
            ) from None
        except BaseException:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            raise


_own: list[tuple[Decoder, RuntimeSettings]] = []
"""What a copy of the process has been given."""


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
