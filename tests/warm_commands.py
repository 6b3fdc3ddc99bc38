"""`nmt` and `torchrun` for shell scripts of tests, without the seconds that importing torch takes for each command.

A server imports everything once. The two executables send it their arguments, environment, folder and open files, and
each command runs in a fork of the server: a process of its own that reads and writes the same pipes and files.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, socket, sys

with os.scandir("/proc/self/fd") as entries:  # more than three for a process substitution of the shell
    files = [int(entry.name) for entry in entries]
files = [file for file in files if os.path.exists(f"/proc/self/fd/{{file}}")]  # without that of the folder itself
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([{program!r}, sys.argv[1:], dict(os.environ), os.getcwd(), files]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], files)
server.sendall(request)
sys.exit(int(server.makefile("rb").read() or 1))
"""


def start_server(folder: Path, programs: Path) -> "subprocess.Popen[bytes]":
    """Write executables `nmt` and `torchrun` into a folder and start their server; `folder` holds the package nmt."""
    address = str(programs / "server")
    for program in ("nmt", "torchrun"):
        client = programs / program
        client.write_text(CLIENT.format(python=sys.executable, address=address, program=program))
        client.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address],
        env={**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}, cwd=folder, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return server


def serve(address: str) -> None:
    """Run each command in a fork, until this process is terminated."""
    import torch.distributed.run

    import nmt.__main__
    import nmt.commands.export
    import nmt.commands.score
    import nmt.commands.train
    import nmt.commands.translate

    run = {"nmt": nmt.__main__.main, "torchrun": torch.distributed.run.main}
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # handlers that ended need no wait
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if os.fork():
            client.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        header, files, _, _ = socket.recv_fds(client, 8, 200)
        program, arguments, environment, folder, numbers = json.loads(
            client.makefile("rb").read(int.from_bytes(header, "big"))
        )
        command = os.fork()
        if not command:
            listener.close()
            client.close()
            files = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 300) for file in files]  # above all numbers in use
            for number, file in zip(numbers, files, strict=True):
                os.dup2(file, number)
            sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
            sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.argv = [program, *arguments]
            run[program]()
            sys.exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        client.sendall(str(code if code >= 0 else 128 - code).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
