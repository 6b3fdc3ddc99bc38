"""The process of a command: exit codes, error messages, signals, closed streams.

Imports of rich and torch are inside the functions: help needs neither.
"""

import errno
import gc
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from nmt.errors import NMTError, is_oom

if TYPE_CHECKING:
    from nmt.system.console import Console

USER_ERROR, BUG = 2, 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received = list[int]()  # signals that interrupt the process
_STDOUT_CLOSED = "standard output is closed; redirect it to a file"


@contextmanager
def errors_explained(debug: bool, quiet: bool) -> Iterator["Console"]:
    """Yield the console of a command; turn its exceptions into a message and an exit code.

    Of several processes under torchrun, only the first prints anything but errors.
    """
    from nmt.system.console import Console, printable

    console = Console(quiet)
    is_first = os.environ.get("RANK", "0") == "0"
    try:
        yield console if is_first else Console(silent=True)
    except typer.Exit:
        raise
    except BrokenPipeError:
        _discard_stdout()
        raise typer.Exit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, NMTError) and not is_first:
            time.sleep(2)  # so that torchrun ends this process first, if rank 0 has printed the same error
        if debug:
            print(printable(traceback.format_exc()), end="", file=sys.stderr)
        code, message = _explain(error)
        console.error(message)
        raise typer.Exit(code) from None


def _explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an exception."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.args or _SIGNALS)[0], "interrupted"
    if isinstance(error, NMTError):
        return USER_ERROR, str(error)
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return USER_ERROR, _STDOUT_CLOSED
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.ENOENT) and not error.filename:
            reason += "; free some space, or set TMPDIR to a folder on another disk, for temporary files"
        return USER_ERROR, f"{error.filename}: {reason}" if error.filename else reason
    if is_oom(error):
        return USER_ERROR, f"out of memory; close other programs, or use a smaller model, batch or beam ({error})"
    return BUG, f"{type(error).__name__}: {error}\nThis is a bug in nmt; --debug shows where."


@contextmanager
def quick_imports() -> Iterator[None]:
    """Disable garbage collection during imports, which saves 0.1 s for torch, and the threads of numpy."""
    # numpy's threads would be idle, and a process that has threads is not forked (nmt.system.workers)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def run_to_exit(command_line: Callable[[], object]) -> None:
    """Run the command line and end the process; after a signal and under torchrun without the clean-up of Python.

    The clean-up waits for threads, which an interruption may block. Under torchrun, threads of torch.distributed
    may still run; their destruction sometimes aborts the process ("terminate called without an active exception"),
    which torchrun reports as a failed training.
    """
    code: object = 0
    _replace_closed_streams()
    for number in _SIGNALS[1:]:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character of a message
    try:
        try:
            _check_folder()
            command_line()
        except SystemExit as end:
            # before it calls a command, Typer takes each signal for Ctrl-C
            code = 128 + _received[0] if _received and end.code == 128 + signal.SIGINT else end.code
        sys.stdout.flush()
    except OSError as error:
        _discard_stdout()
        if not isinstance(error, BrokenPipeError):
            code = USER_ERROR
            reason = f"standard output: {error.strerror or error}"
            print(f"error: {_STDOUT_CLOSED if error.errno == errno.EBADF else reason}", file=sys.stderr)
    if code in [128 + number for number in _SIGNALS] or "TORCHELASTIC_RUN_ID" in os.environ:
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code)  # type: ignore[arg-type]


def _interrupt(number: int, _frame: object) -> None:
    """Raise KeyboardInterrupt, so that temporary files are removed; further signals do not interrupt that."""
    for other in _SIGNALS[1:]:
        signal.signal(other, signal.SIG_IGN)
    _received.append(number)
    raise KeyboardInterrupt(number)


def _check_folder() -> None:
    """End the process if the current folder was removed: relative paths would be invalid."""
    try:
        os.getcwd()
    except OSError as error:
        print(f"error: the current folder: {error.strerror}; change to another one", file=sys.stderr)
        sys.exit(USER_ERROR)


def _replace_closed_streams() -> None:
    """Replace closed standard streams by files whose use is an error, so that no file of a command gets their number.

    Messages to a closed stderr are discarded.
    """
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY), (1, "stdout", "w", os.O_RDONLY), (2, "stderr", "w", os.O_WRONLY),
    ):  # fmt: skip
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _discard_stdout() -> None:
    """Let Python's last flush of stdout succeed after its reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
