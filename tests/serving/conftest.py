"""Servers in a thread, on real sockets of the loopback."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest
import uvicorn

from nmt.commands.serve import HTTP, listening_socket
from nmt.config import RuntimeSettings
from nmt.serving.api import Service
from nmt.serving.app import Server, Settings
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model

LIMITS = Settings(characters=2000, size=1 << 20, seconds=60, waiting=8)


class Running(NamedTuple):
    """A server that runs, and what it logged."""

    url: str
    address: tuple[str, int]
    server: Server
    log: list[str]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_loaded_model(), RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def serve(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Running]]:
    """A function that starts a server with changed settings; all are ended after the tests of a module."""
    with ExitStack() as stack:

        def started(**changes: Any) -> Running:
            listener = stack.enter_context(listening_socket("127.0.0.1", 0))
            log: list[str] = []
            folder = tmp_path_factory.mktemp("files")
            server = Server(Service([translator]), LIMITS._replace(**changes), folder, log.append)
            program = uvicorn.Server(uvicorn.Config(server, log_config=None, lifespan="off", http=HTTP))
            thread = Thread(target=program.run, args=([listener],))
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, program, "should_exit", True)
            address: tuple[str, int] = listener.getsockname()
            return Running(f"http://127.0.0.1:{address[1]}", address, server, log)

        yield started


@pytest.fixture(scope="module")
def running(serve: Callable[..., Running]) -> Running:
    """A server with the usual limits."""
    return serve()


@pytest.fixture
def demo() -> Path:
    """The model of `make demo` from English to Italian; tests that need it are skipped without it."""
    path = Path(__file__).parents[2] / "runs" / "demo-en-it"
    if not (path / "best").exists():
        pytest.skip("needs runs/demo-en-it of make demo")
    return path
