"""`python`, `nmt` and `torchrun` for tests, without the seconds that importing torch takes for each process.

A server imports everything once. The executables send it their arguments, environment, folder and open files, and each
command runs in a fork of the server: a process of its own, of one thread, that reads and writes the same pipes and
files. The executable passes on the signals that it receives, and ends as the command does, also by a signal; if it is
killed, so is the command.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import runpy
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from typer.main import get_command

from nmt.text.languages import identify

IMPORTED = [
    "nmt.cli", "nmt.commands.train", "nmt.commands.translate", "nmt.commands.conversion", "nmt.commands.score",
    "sacrebleu", "nmt.commands.report", "nmt.commands.figures", "torch._dynamo", "torch.distributed.run",
]  # fmt: skip
"""What trainings, translations, scores and pages import."""
CLIENT = """# json, socket and signal would take longer to import than all else takes
import marshal, os, sys
import _signal as signal, _socket as socket

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until there is a command that gets them
with os.scandir("/proc/self/fd") as entries:  # more than three for a process substitution of the shell
    files = [int(entry.name) for entry in entries]
files = [file for file in files if os.path.exists(f"/proc/self/fd/{{file}}")]  # without that of the folder itself
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
ignored = [number for number in FORWARDED if signal.getsignal(number) == signal.SIG_IGN]
request = {{
    "program": {program!r}, "arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(),
    "files": files, "ignored": ignored,
}}
request = marshal.dumps(request)
descriptors = b"".join(file.to_bytes(4, sys.byteorder) for file in files)
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)
server.sendmsg([len(request).to_bytes(8, "big")], [rights])
server.sendall(request)
server.recv(1)  # the command runs
for number in FORWARDED:
    signal.signal(number, lambda number, _: server.send(bytes([number])))
signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
code = b""
while read := server.recv(10):
    code += read
code = int(code or 1)
if code < 0:
    if -code in FORWARDED:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def warm_programs(repository: Path, folder: Path) -> Iterator[None]:
    """Write the executables into a folder and run their server, which imports the package of the repository.

    They are scripts of the shell, because a path after `#!` must be short and without spaces, and the address of the
    server is no path, because that would have to be short too. Elsewhere than on Linux the executables import
    everything by themselves.
    """
    name = f"nmt-tests-{secrets.token_hex(16)}"
    for program, module in (("python", ""), ("nmt", "-m nmt"), ("torchrun", "-m torch.distributed.run")):
        client, script = folder / program, folder / f"{program}_client.py"
        script.write_text(CLIENT.format(address=f"\0{name}", program=program))
        python = shlex.quote(sys.executable)
        client.write_text(
            f'#!/bin/sh\nexec {python} -IS {shlex.quote(str(script))} "$@"\n'
            if sys.platform == "linux"
            else f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(repository))}:"$PYTHONPATH" exec {python} {module} "$@"\n'
        )
        client.chmod(0o755)
    if sys.platform != "linux":
        yield
        return
    server = subprocess.Popen(
        [sys.executable, __file__, name],
        env={**os.environ, "PYTHONPATH": str(repository), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        cwd=repository,
        stdout=subprocess.PIPE,
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield
        server.kill()


def serve(name: str) -> None:
    """Run each command in a fork, until this process is terminated."""
    gc.disable()
    for module in IMPORTED:
        importlib.import_module(module)
    identify("")  # reads the model of the library
    get_command(sys.modules["nmt.cli"].app).make_context("nmt", ["--version"])  # imports what parsing needs
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(100)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy all pages
    gc.enable()
    os.fsync = lambda file: None
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # handlers that ended need no wait
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if not os.fork():
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _handle(client)
        client.close()


def _handle(client: socket.socket) -> NoReturn:
    """Run a command in a fork of this process, pass signals on to it, and send its exit code."""
    header, files, _, _ = socket.recv_fds(client, 8, 200)
    request = client.makefile("rb").read(int.from_bytes(header, "big"))
    command = os.fork()
    if not command:
        client.close()
        _run(marshal.loads(request), files)
    for file in files:
        os.close(file)
    process = os.pidfd_open(command)
    client.sendall(b"+")

    def pass_on() -> None:
        with contextlib.suppress(ProcessLookupError):
            while number := client.recv(1):
                signal.pidfd_send_signal(process, number[0])
            signal.pidfd_send_signal(process, signal.SIGKILL)  # the executable was killed

    threading.Thread(target=pass_on, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        client.sendall(str(code).encode())
    os._exit(0)


def _run(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Run a command in this process with the files, environment and folder of its executable."""
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 300) for file in files]  # above all numbers in use
    for file in files:
        os.close(file)
    for number, copy in zip(request["files"], copies, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    program, arguments, code = request["program"], request["arguments"], 0
    try:
        if program == "python":
            _run_python(arguments)
        else:
            sys.argv = [program, *arguments]
            sys.modules["torch.distributed.run" if program == "torchrun" else "nmt.cli"].main()
    except SystemExit as end:
        code = end.code
    except Exception:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))  # destroying all modules takes 0.3 s


def _run_python(arguments: list[str]) -> None:
    """Run `-c CODE`, `-m MODULE`, a script, or with `-` one from stdin, as `python` does."""
    if arguments[0] == "-u":  # torchrun's
        del arguments[0]
    sys.path[:1] = ["", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if arguments[0] == "-":
        arguments[:1] = ["-c", sys.stdin.read()]
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(module))
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        if "." in arguments[1]:
            sys.modules.pop(arguments[1], None)  # it runs again, as the main module
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])
