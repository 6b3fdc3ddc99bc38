"""`nmt serve`: a translation server."""

import logging
import re
import resource
import signal
import socket
import sys
from contextlib import closing, suppress
from errno import EMFILE, ENFILE
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from nmt.commands.requests import ServeRequest
from nmt.commands.translate import default_model, warned_of_kernels
from nmt.config import RuntimeSettings
from nmt.errors import ConfigError
from nmt.kernels.machine import collect_garbage_rarely, reuse_freed_ram, thread_count
from nmt.serving.api import Service
from nmt.serving.app import Server, Settings
from nmt.system.console import Console
from nmt.text.languages import probabilities
from nmt.text.readers.opening import read_lines
from nmt.translation.translator import Translator

_CONNECTIONS = 1024  # at a time, of all clients
# A scheme and a host, perhaps in brackets, with a port; after them, an address may have a path.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?P<host>[^\s/?#@:[\]]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE)
_ADDRESS = re.compile(rf"{_ORIGIN.pattern}(?:/\S*)?", re.IGNORECASE)
HTTP = "h11"  # also where httptools is installed, whose parser has no limit for the headers of a request


def serve(request: ServeRequest, console: Console) -> None:
    """Answer requests until SIGINT, SIGTERM or SIGHUP, then finish the accepted ones. Raises NMTError."""
    with closing(listening_socket(request.host, request.port)) as listener:
        settings = _settings(request, listener)
        runtime = RuntimeSettings(device=request.device, threads=request.threads, precision=request.precision)
        runtime = runtime.model_copy(update={"threads": thread_count(runtime)})
        reuse_freed_ram()
        translators = [Translator.load(model, **runtime.model_dump()) for model in request.models or [default_model()]]
        service = Service(translators)
        for translator in translators:
            with warned_of_kernels(translator, console):
                translator.translate("a", to=translator.languages.target[0])  # the first translation takes longer
        probabilities("")  # reads the model of py3langid
        collect_garbage_rarely()
        _permit_open_files(console)
        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it logs warnings in another format
        with TemporaryDirectory(prefix="nmt-serve-") as folder:
            log = (lambda line: None) if console.quiet else partial(print, file=sys.stderr, flush=True)
            app: Any = Server(service, settings, Path(folder), log)
            if request.origins:
                app = CORSMiddleware(app, request.origins, allow_methods=["*"], allow_headers=["*"])
            config = uvicorn.Config(
                app, log_config=None, log_level="critical", lifespan="off", ws="none", http=HTTP, server_header=False,
                limit_concurrency=_CONNECTIONS, proxy_headers=bool(request.url),
                timeout_graceful_shutdown=round(2 * request.timeout + 1),
            )  # fmt: skip
            host, port = listener.getsockname()[:2]
            directions = ", ".join(translator.languages.names for translator in translators)
            console.info(f"{directions}: http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C ends)")
            server = uvicorn.Server(config)
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets; uvicorn handles the other two
                signal.signal(signal.SIGHUP, server.handle_exit)
            with suppress(KeyboardInterrupt):  # uvicorn raises the signal again when the accepted requests are answered
                server.run([listener])


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises ConfigError."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
        # for its connections; asyncio sets it only for sockets that it creates. Without it, answers take 40 ms more
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:  # the second for a name that is no name of a host
        raise ConfigError(
            f"--host {host} --port {port}: cannot listen: {error}; give another address or port"
        ) from None


def _permit_open_files(console: Console) -> None:
    """Raise the limit of open files for all connections; warn once where it is reached, as asyncio does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * _CONNECTIONS)), hard))
    warn = cache(console.warn)

    def is_other(record: logging.LogRecord) -> bool:
        if not record.exc_info or getattr(record.exc_info[1], "errno", None) not in (EMFILE, ENFILE):
            return True
        warn("further connections wait: too many files are open; raise the limit (ulimit -n, LimitNOFILE of systemd)")
        return False

    logging.getLogger("asyncio").addFilter(is_other)


def _settings(request: ServeRequest, listener: socket.socket) -> Settings:
    """Return the settings of the server. Raises ConfigError for a file without keys, and for invalid addresses."""
    lines = () if request.api_keys is None else read_lines(request.api_keys)
    keys = [line.strip().encode() for line in lines if line.strip()]
    if request.api_keys is not None and not keys:
        raise ConfigError(f"{request.api_keys}: there is no key in it; write one a line")
    url = _ADDRESS.fullmatch(request.url)
    if request.url and url is None:
        raise ConfigError(f"--url: found {request.url}, expected an address such as https://example.org/translate")
    for origin in request.origins or ():
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ConfigError(f"--cors: found {origin}, expected an address such as https://example.org")
    address = listener.getsockname()[0]
    # a page of another site may give its name this address (DNS rebinding), but cannot change the header Host
    host = url["host"].strip("[]") if url else ""
    names = ("localhost", "127.0.0.1", "::1", address, request.host.lower(), host.lower())
    hosts = names if ip_address(address).is_loopback else ()
    return Settings(
        request.characters, request.megabytes << 20, request.timeout, request.waiting, keys, hosts, request.url
    )
