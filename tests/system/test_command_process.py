"""Ctrl-C ends a command with one line, whenever it comes and whatever the command does."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli import app

MOMENTS = """
import faulthandler, os, signal, sys
import nmt.__main__

calls, callbacks, codes = 0, 0, []


def interrupt_copies(frame, event, argument):
    global calls, callbacks
    if event != "call":
        return
    calls += 1
    if calls % 10_007:
        if frame.f_code.co_name != "cb":  # of importlib's weak references, in which exceptions are discarded
            return
        callbacks += 1
        if callbacks % 100:
            return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return
    copy = os.fork()
    if copy:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))
        return
    sys.setprofile(None)
    faulthandler.dump_traceback_later(300, exit=True)  # a process that hangs writes where it does
    os.kill(os.getpid(), signal.SIGINT)


sys.argv[1:] = ["train", "--quiet", "--config", "missing.yaml"]
sys.setprofile(interrupt_copies)
try:
    nmt.__main__.main()
finally:
    sys.setprofile(None)
    print(*codes)
"""

COMMAND = """
import ctypes, faulthandler, os, signal, sys, threading
import nmt.__main__, nmt.commands.score
from nmt.system import command_process


class InterruptedDestructor:
    def __del__(self):
        interrupt()


def interrupt():
    signal.raise_signal(signal.SIGINT)


def wait():
    threading.Event().wait()


def wait_in_c():
    ctypes.pythonapi.PyThread_allocate_lock.restype = ctypes.c_void_p
    lock = ctypes.c_void_p(ctypes.pythonapi.PyThread_allocate_lock())
    for _ in range(2):
        ctypes.pythonapi.PyThread_acquire_lock(lock, 1)  # holds Python's interpreter lock, too


def fill_stdout():
    os.set_blocking(1, False)
    try:
        while True:
            os.write(1, bytes(2**16))
    except BlockingIOError:
        os.set_blocking(1, True)


def score(*_):
{body}


faulthandler.dump_traceback_later(300, exit=True)
command_process._CLEAN_UP_SECONDS = {seconds}
nmt.commands.score.score = score
sys.argv[1:] = ["score", "hypothesis", "reference"]
nmt.__main__.main()
"""
"""A command whose work is replaced by some statements."""


def start(program: str, repository: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a copy would lack threads
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=repository, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def command(*statements: str, seconds: float) -> str:
    return COMMAND.format(body="\n".join(f"    {statement}" for statement in statements), seconds=seconds)


def test_ctrl_c_at_many_moments_of_the_start_ends_the_command(repository: Path) -> None:
    """At moments in the imports of the command line, of the recipe and of torch, a copy of the process gets Ctrl-C."""
    with start(MOMENTS, repository) as process:
        out, err = process.communicate()
    codes = out.split()
    assert set(codes) == {"130"}, err
    assert len(codes) > 50
    # Python itself may write more, where it discards the exception outside of imports
    assert err.splitlines().count("error: interrupted") == len(codes)
    assert "missing.yaml: cannot read the recipe" in err.splitlines()[-1]


@pytest.mark.parametrize(
    "statements",
    [
        ["InterruptedDestructor()", "wait()"],  # Python discards the KeyboardInterrupt
        ["try: interrupt()", "finally: wait()"],
        ["try: interrupt()", "except BaseException: wait()"],
        ["print('a score')", "fill_stdout()", "interrupt()"],  # nobody reads the score
        ["sys.stdout = None", "interrupt()"],
    ],
    ids=["discarded", "waiting clean-up", "caught", "full pipe", "no stdout"],
)
def test_command_ends_whatever_it_does_after_ctrl_c(repository: Path, statements: list[str]) -> None:
    with start(command(*statements, seconds=0.05), repository) as process:
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait() == 130, err
    assert [line for line in err.splitlines() if line.startswith("error: ")] == ["error: interrupted"]
    assert err.endswith("error: interrupted\n")


def test_ctrl_c_waits_for_no_thread(repository: Path) -> None:
    with start(command("threading.Thread(target=wait).start()", "interrupt()", seconds=10**6), repository) as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "error: interrupted\n")


def test_second_ctrl_c_ends_a_process_that_executes_no_python(repository: Path) -> None:
    clean_up = "finally: print(flush=True); wait_in_c()"
    with start(command("try: interrupt()", clean_up, seconds=10**6), repository) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (-signal.SIGINT, "")


def test_terminal_shows_the_line_and_the_cursor(repository: Path) -> None:
    reading, terminal = pty.openpty()
    program = "import signal; import nmt.__main__ as m; signal.getsignal = lambda _: signal.default_int_handler"
    program += "; signal.signal = lambda number, handler: handler(); m.main()"
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repository, env=environment, stderr=terminal, check=False
    )  # fmt: skip
    os.close(terminal)
    assert done.returncode == 130
    assert os.read(reading, 1000) == b"\r\x1b[2K\x1b[?25herror: interrupted\r\n"
    os.close(reading)


def test_other_program_continues_after_an_interrupted_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a test or a notebook, in whose process the entry point did not run."""
    monkeypatch.setattr("nmt.commands.score.score", lambda *_: signal.raise_signal(signal.SIGINT))
    result = CliRunner().invoke(app, ["score", "hypothesis", "reference"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "error: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
