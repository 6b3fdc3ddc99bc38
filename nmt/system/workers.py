"""Worker processes: forked copies of this process, one core each.

Threads would share Python's interpreter lock, and between two small matrix products there is always Python code to run:
with two cores processes are a sixth faster than threads, and the difference grows with the number of cores.

No lock, queue or thread is common to two processes: each worker has a pipe to the first process. It gets one task at a
time, and only when it is idle. So every write has a reader, which reads all of it or has ended; and a read from an
ended process returns at once, because no other process holds that end of the pipe. Only the first process waits for
several pipes, and a signal interrupts that wait. So everything ends, whichever process is killed and whenever.
"""

import ctypes
import math
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from nmt.errors import ModelError, NMTError

_REQUEST = b"?"  # begins the message of a request; pickled results begin with b"\x80"
_PR_SET_PDEATHSIG = 1  # from Linux's sys/prctl.h

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use; in a container often fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([cores, *_cpu_quotas(root)])))


def _cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the CPU time per second that Linux permits the control groups of this process, of versions 1 and 2."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            path = mount / group.strip("/")  # a path on the host if the container has its own mount, but no namespace
            for folder in (path, *path.parents[: len(path.parts) - len(mount.parts)]):
                with suppress(OSError, ValueError):
                    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
                    quota, period = " ".join((folder / name).read_text() for name in names).split()
                    if quota not in ("max", "-1"):
                        yield int(quota) / int(period)


def can_fork() -> bool:
    """Return whether this process has no threads but Python's, so that a copy of it works."""
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.is_dir() else 0
    return threads == threading.active_count()


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last one may be shorter. Items are read when their list is needed."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


class WorkerPool(Generic[Item, Result]):
    """Maps a function over items in forked processes, which start and end with a call of `map`.

    The processes inherit the function and what it holds, such as models: forking shares their memory and takes no time.
    It requires that libraries such as torch have used one thread only in this process, because a forked process would
    wait forever for threads that it does not have. The workers end with the thread that started them.

    Each worker calls `on_start` first. `advice` ends the message about a worker that was killed. While a worker runs a
    task, it may `call` the first process, which returns `answer(requests)` for the requests that wait.
    """

    def __init__(
        self,
        function: Callable[[Item], Result],
        count: int,
        advice: str = "use fewer processes",
        on_start: Callable[[], object] = lambda: None,
        answer: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        self._function = function
        self._advice, self._on_start, self._answer = advice, on_start, answer
        self.count = count
        self._first_process: Connection | None = None  # in a worker
        self._workers: dict[int, Connection] = {}  # by process id, this end of its pipe
        weakref.finalize(self, _kill, self._workers)

    def map(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of the function for each item, in order. Items and results are pickled.

        One more item is read than the workers have. One call must be finished before the next.
        Raises what the function raises, and ModelError if a worker died.
        """
        try:
            self._fork()
            yield from self._results(pickle.dumps(item) for item in items)
        finally:
            _kill(self._workers)

    def _results(self, tasks: Iterator[bytes]) -> Iterator[Any]:
        """Yield the results of pickled tasks, in order."""
        ahead: bytes | None = None
        index = sent = 0
        idle = list(self._workers.values())
        running: dict[Connection, int] = {}
        finished: dict[int, bytes] = {}
        requests: dict[Connection, Any] = {}
        while True:
            while idle and (task := ahead or next(tasks, None)) is not None:
                pipe, ahead = idle.pop(), None
                with self._death_explained():
                    pipe.send_bytes(task)
                running[pipe] = sent
                sent += 1
            if index in finished:
                result, error = pickle.loads(finished.pop(index))
                if error is not None:
                    raise error
                yield result
                index += 1
                continue
            if not running:
                return
            ahead = ahead or next(tasks, None)
            ready = wait([pipe for pipe in running if pipe not in requests], 0 if requests else None)
            for pipe in [pipe for pipe in running if pipe in ready]:
                with self._death_explained():
                    message = pipe.recv_bytes()
                if message.startswith(_REQUEST):
                    requests[pipe] = pickle.loads(message[1:])
                else:
                    finished[running.pop(pipe)] = message
                    idle.append(pipe)
            if not ready:  # no further request has arrived, and every other worker runs a task
                self._reply(requests)
                requests.clear()

    def _reply(self, requests: dict[Connection, Any]) -> None:
        """Answer the requests of workers."""
        if requests and self._answer is not None:
            for pipe, answer in zip(requests, self._answer(list(requests.values())), strict=True):
                with self._death_explained():
                    pipe.send_bytes(pickle.dumps(answer))

    def call(self, request: object) -> Any:
        """Return what the first process answers to a request, in a worker that runs a task; both are pickled."""
        assert self._first_process is not None, "only workers call"
        self._first_process.send_bytes(_REQUEST + pickle.dumps(request))
        return pickle.loads(self._first_process.recv_bytes())

    def _fork(self) -> None:
        """Start the workers, with signals blocked until all can be killed; workers inherit the blocked signals."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            for _ in range(self.count):
                first_end, worker_end = Pipe()
                with warnings.catch_warnings():
                    # newer Pythons warn of threads; the only ones here are idle threads of torch
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
                if not pid:
                    self._serve(worker_end, first_end)
                self._workers[pid] = first_end
                worker_end.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _serve(self, pipe: Connection, parent_end: Connection) -> NoReturn:
        """Run the loop of a worker, which is killed with its parent, while signals that end the parent are blocked."""
        try:
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for end in (parent_end, *self._workers.values()):
                end.close()
            self._first_process = pipe
            self._on_start()
            while True:
                pipe.send_bytes(self._run_task(pipe.recv_bytes()))
        finally:
            os._exit(0)  # without the exit handlers, which would close files of the first process

    @contextmanager
    def _death_explained(self) -> Iterator[None]:
        """Turn the error of a pipe whose worker was killed into ModelError."""
        try:
            yield
        except (EOFError, OSError):
            reason = "a worker process died: it was killed, perhaps because the machine ran out of memory"
            raise ModelError(f"{reason}; {self._advice}") from None

    def _run_task(self, task: bytes) -> bytes:
        """Return the pickled pair of a task's result and its error; one of them is None."""
        try:
            return pickle.dumps((self._function(pickle.loads(task)), None))
        except Exception as error:
            portable = _portable(error)
            portable.add_note(f"In a worker process:\n{traceback.format_exc()}")
            return pickle.dumps((None, portable))


def _portable(error: Exception) -> Exception:
    """Return an error that pickling does not change: the same, or one of its kind with its type and message."""
    with suppress(Exception):
        copy = pickle.loads(pickle.dumps(error))
        if (type(copy), str(copy)) == (type(error), str(error)):
            return error
    return NMTError(str(error)) if isinstance(error, NMTError) else RuntimeError(f"{type(error).__name__}: {error}")


def _kill(workers: dict[int, Connection]) -> None:
    """Kill workers, whatever they do, wait for their end and remove them.

    A fork of their process, which has a copy of the pool, has no such children, and only closes its pipes.
    """
    removed = workers.copy()
    workers.clear()
    killed = []
    for pid, pipe in removed.items():
        pipe.close()
        with suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    for pid in killed:
        with suppress(ChildProcessError):  # where SIGCHLD is ignored, a dead child leaves no process to wait for
            os.waitpid(pid, 0)
