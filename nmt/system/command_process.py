"""The process of a command: exit codes, error messages, Ctrl-C, closed pipes.

Imports of rich and torch are inside the functions: help needs neither.
"""

import _thread
import gc
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import typer

from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.system.console import Console

USER_ERROR, BUG, INTERRUPTED = 2, 1, 130

_CLEAN_UP_SECONDS = 5.0
"""Seconds after Ctrl-C, after which the process ends whatever it does."""


@contextmanager
def errors_explained(debug: bool, quiet: bool) -> Iterator["Console"]:
    """Yield the console of a command; turn its exceptions into a message and an exit code.

    Of several processes under torchrun, only the first prints anything but errors.
    """
    from nmt.system.console import Console, printable

    console = Console(quiet)
    is_first = os.environ.get("RANK", "0") == "0"
    try:
        with _interruptible():
            yield console if is_first else Console(silent=True)
        _flush_stdout()
    except typer.Exit:
        raise
    except BrokenPipeError:
        _discard_stdout()
        raise typer.Exit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, NMTError) and not is_first:
            time.sleep(2)  # torchrun ends this process before, if the first process has printed the same error
        if debug:
            print(printable(traceback.format_exc()), end="", file=sys.stderr)
        code, message = _explain(error)
        if code == INTERRUPTED:
            with suppress(OSError):
                _flush_stdout()  # before the message, because it waits if the reader has stopped reading
            console.erase_line()
        console.error(message)
        raise typer.Exit(code) from None


def _explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, NMTError):
        return USER_ERROR, str(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return USER_ERROR, f"{error.filename}: {reason}" if error.filename else reason
    if _is_oom(error):
        return USER_ERROR, f"out of memory; close other programs, or use a smaller model, batch or beam ({error})"
    return BUG, f"{type(error).__name__}: {error}\nThis is a bug in nmt; --debug shows where."


def _is_oom(error: BaseException) -> bool:
    if isinstance(error, ImportError):  # the system refused memory for a library
        return "failed to map segment" in str(error) or "cannot allocate memory" in str(error).lower()
    if "torch" in sys.modules:
        from nmt.system.device import is_oom

        return is_oom(error)
    return isinstance(error, MemoryError)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C, so that the command cleans up; a second one kills the process.

    The KeyboardInterrupt alone is not reliable: Python discards it in a destructor or in the callback of a weak
    reference, and the clean-up may wait for a lock or a pipe. So a process that still runs a few seconds later ends
    as during its start. An import ends it at once: importlib has such callbacks, and locks that would stay held.
    The files can be used as after a kill.
    """
    before = signal.getsignal(signal.SIGINT)
    # a background job of a shell script ignores it; only the main thread can handle signals
    if before is None or before == signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    # that of the entry point; the process of a test or a notebook continues after the command
    end_process = before if callable(before) and before is not signal.default_int_handler else None

    def end_later() -> None:
        time.sleep(_CLEAN_UP_SECONDS)
        if end_process is not None:
            end_process(signal.SIGINT, None)

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a handler in Python would wait for the end of a call into C
        if end_process is not None:
            if _is_importing(frame):
                end_process(number, frame)
            with suppress(RuntimeError):  # the system refuses another thread
                _thread.start_new_thread(end_later, ())  # threading.Thread has locks, which this signal may interrupt
        _show_cursor()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if end_process is None or signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, before)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether an import is among the calls that lead to a frame."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import torch 0.1 s faster: without garbage collection of the many objects that an import makes and keeps."""
    # numpy's threads would be idle, and a process that has threads is not forked (nmt.system.workers)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def run_to_exit(command_line: Callable[[], object]) -> None:
    """Run the command line and end the process; after Ctrl-C and under torchrun without the clean-up of Python.

    That waits for threads, which an interruption may have left waiting. Under torchrun, threads of torch.distributed
    may still run; their destruction sometimes aborts the process ("terminate called without an active exception"),
    which torchrun reports as a failed training.
    """
    code: object = 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character of a message
    try:
        command_line()
    except SystemExit as end:
        code = end.code
    except OSError as error:
        code = _write_error(error)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError as error:
        code = code or _write_error(error)
        _discard_stdout()
    if code == INTERRUPTED or "TORCHELASTIC_RUN_ID" in os.environ:
        os._exit(code if isinstance(code, int) else int(code is not None))
    sys.exit(code)  # type: ignore[arg-type]


def _show_cursor() -> None:
    """Show the cursor of the terminal, which a progress bar hides."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h")


def _flush_stdout() -> None:
    if sys.stdout is not None:  # None if the parent process closed it
        sys.stdout.flush()


def _discard_stdout() -> None:
    """Let Python's last flush of stdout succeed after its reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_error(error: OSError) -> int:
    """Report that help or a version could not be written; a closed pipe is no error."""
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"error: standard output: {error.strerror or error}", file=sys.stderr)
    return USER_ERROR
