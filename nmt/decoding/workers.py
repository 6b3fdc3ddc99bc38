"""A decoder in several processes, each of which works on one core at batches of its own.

Threads would do, were it not for Python: only one of them can run it at a time, and between two small products there is
always some of it to run. On two cores processes are a sixth faster than threads, and more on more.

That everything ends, whoever is killed and whenever, follows from how little is shared: each process has a line of its
own to the first one, and no lock, queue or thread is common to two. It gets one item at a time, and only when it waits
for one. So whoever writes has a reader, which takes all of it or is dead, and whoever waits for a dead one reads the
end of its line: nobody else holds that end. Only the first process waits for several, and a signal ends its waiting.
"""

import ctypes
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import torch
from torch import Tensor

from nmt.config import RuntimeSettings
from nmt.decoding.step_model import DecoderState, StepModel
from nmt.errors import ModelError
from nmt.system.device import autocast

_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Process(NamedTuple):
    """A copy of this process, and the line to it."""

    number: int
    line: Connection


class Workers:
    """A decoder on the CPU, and as many copies of this process as are wanted, once there is something for them to do.

    Copying shares the weights, and takes no time. It wants a process that does nothing else, and whose torch has
    used one thread only, as a command sees to: for copies would wait for ever for threads that are not copied. They
    live no longer than the thread that asked for them first.
    """

    def __init__(self, decoder: StepModel, runtime: RuntimeSettings, count: int) -> None:
        self.decoder = decoder
        self._runtime = runtime
        self.count = count
        self._processes: list[_Process] = []
        weakref.finalize(self, _end, self._processes)

    @property
    def ready(self) -> bool:
        """Whether there are copies, or may be: there are no threads but Python's own."""
        return bool(self._processes) or _threads() == threading.active_count()

    @property
    def longest(self) -> int | None:
        """As the decoder has it."""
        return self.decoder.longest

    @property
    def device(self) -> torch.device:
        """As the decoder has it."""
        return self.decoder.device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> DecoderState:
        """Begin in this process."""
        return self.decoder.start(source, source_mask, beam)

    def share_out(self, work: Callable[[StepModel, Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Do some work for each item in one of the processes, in order; `work` and what it returns are pickled.

        One call must be through before the next. Raises what the work raises, and ModelError if a process is gone.
        """
        tasks = enumerate(items)
        at_work: dict[Connection, int] = {}
        done: dict[int, bytes] = {}

        def hand_on(line: Connection) -> None:
            for place, item in islice(tasks, 1):
                _send(line, pickle.dumps((work, item)))
                at_work[line] = place

        try:
            if not self._processes:
                self._copy()
            for process in self._processes:
                hand_on(process.line)
            for place in range(len(items)):
                while place not in done:
                    ready = wait(list(at_work))
                    for line in [line for line in at_work if line in ready]:
                        done[at_work.pop(line)] = _received(line)
                        hand_on(line)
                result, error = pickle.loads(done.pop(place))
                if error is not None:
                    raise error
                yield result
        except BaseException:
            # whoever pressed Ctrl-C would wait for what they are at, and what comes of it would be taken for an answer
            _end(self._processes)
            raise

    def _copy(self) -> None:
        """Make the copies. A signal that comes meanwhile waits: it would find one that nobody knows of yet."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(self.count):
                mine, theirs = Pipe()
                with theirs, warnings.catch_warnings():
                    # newer Pythons warn of threads; here there are at most those that wait for torch's next product
                    warnings.simplefilter("ignore", DeprecationWarning)
                    number = os.fork()
                    if not number:
                        self._serve(theirs, mine)
                    self._processes.append(_Process(number, mine))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _serve(self, line: Connection, others_end: Connection) -> NoReturn:
        """Be a copy: on one core, deaf to Ctrl-C as the first process was on copying, gone when that is."""
        try:
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)
            for end in (others_end, *(process.line for process in self._processes)):
                end.close()
            torch.set_num_threads(1)
            while True:
                line.send_bytes(self._answer(line.recv_bytes()))
        finally:
            os._exit(0)  # at once: nothing that the first process opened, or would do at its end, is this one's

    def _answer(self, task: bytes) -> bytes:
        """Return what comes of a task, or the error that does."""
        try:
            work, item = pickle.loads(task)
            with autocast(self._runtime, self.decoder.device):
                return pickle.dumps((work(self.decoder, item), None))
        except Exception as error:
            error.add_note(f"In a process that translates:\n{traceback.format_exc()}")
            return pickle.dumps((None, error))


def _send(line: Connection, data: bytes) -> None:
    try:
        line.send_bytes(data)
    except OSError:
        raise _gone() from None


def _received(line: Connection) -> bytes:
    try:
        return line.recv_bytes()
    except (EOFError, OSError):  # killed before or while it wrote
        raise _gone() from None


def _gone() -> ModelError:
    return ModelError(
        "a process that translated is gone: it was killed, perhaps for want of memory; give fewer --threads "
        "or a smaller --batch-tokens"
    )


def _end(processes: list[_Process]) -> None:
    """Kill processes, whatever they are at, and forget them."""
    ended = processes.copy()
    processes.clear()
    for number, line in ended:
        line.close()
        with suppress(ProcessLookupError):  # where whoever started us wants children to vanish by themselves
            os.kill(number, signal.SIGKILL)
    for number, _ in ended:
        with suppress(ChildProcessError):
            os.waitpid(number, 0)


def _threads() -> int:
    """Return how many threads this process has; 0 where nothing tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 0
