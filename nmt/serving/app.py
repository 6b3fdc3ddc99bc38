"""The server as an ASGI application: paths, limits, keys, metrics and the log, around `nmt.serving.api`.

The log contains no texts, and names of uploaded files are never used as paths.
"""

import asyncio
import hmac
import re
import secrets
import time
import traceback
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from inspect import isawaitable
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from nmt.errors import NMTError
from nmt.serving.api import FILE_ENDINGS, DetectRequest, FileRequest, RequestError, Service, TextRequest
from nmt.system.files import parse_json
from nmt.translation.result import plain_json

_FILES_KEPT, _FILE_SECONDS = 64, 1800
_SECONDS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "+Inf")  # the upper bounds of the histogram
_METRICS = {
    "nmt_requests_total": "counter", "nmt_request_seconds": "histogram", "nmt_characters_total": "counter",
    "nmt_requests_waiting": "gauge",
}  # fmt: skip
_HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}

Fields = TypeVar("Fields", DetectRequest, FileRequest, TextRequest)


class Settings(NamedTuple):
    """The limits of a server, and who may use it."""

    characters: int  # of the texts of a request
    size: int  # bytes of an uploaded file
    seconds: float  # until a request has arrived, and again until it is answered
    waiting: int  # requests that are translated or wait for it
    keys: Sequence[bytes] = ()  # one of which a request must have, if there are any
    hosts: Sequence[str] = ()  # the names that the header Host may have; any if there are none
    url: str = ""  # the address for clients behind a reverse proxy


class Server:
    """The ASGI application."""

    def __init__(self, service: Service, settings: Settings, folder: Path, log: Callable[[str], None]) -> None:
        """Take the folder for translated files, and the function that logs a line for each request."""
        self.service, self.settings, self.folder, self.log = service, settings, folder, log
        self._executor, self._running = ThreadPoolExecutor(settings.waiting), set[Future[Any]]()
        self._files: dict[str, str] = {}  # the names of translated files by their tokens
        self._metrics = Counter({f'nmt_request_seconds_bucket{{le="{at}"}}': 0 for at in _SECONDS})
        self._page, self._policy = _page()
        self._endpoints: dict[str, Callable[[Request], Any]] = {
            "POST /translate": self.translate, "POST /translate_file": self.translate_file, "POST /detect": self.detect,
            "GET /": lambda _: HTMLResponse(self._page, headers={"content-security-policy": self._policy}),
            "GET /languages": lambda _: service.languages(), "GET /health": lambda _: {"status": "ok"},
            "GET /frontend/settings": self.frontend_settings, "GET /metrics": self.metrics,
            "GET /download_file": self.download_file,
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever is wrong with it; log and count it."""
        started, request, scope["characters"] = time.monotonic(), Request(scope, receive), 0
        path = "/download_file" if scope["path"].startswith("/download_file/") else scope["path"]
        endpoint = self._endpoints.get(f"{scope['method'].replace('HEAD', 'GET')} {path}")
        try:
            if self.settings.hosts and _host(request) not in self.settings.hosts:
                raise RequestError(403, "the header Host does not name this server; see --url")
            if endpoint is None:
                raise RequestError(404, "not found: there is no such path with this method")
            content = endpoint(request)
            content = await content if isawaitable(content) else content
            response = content if isinstance(content, Response) else _json(content)
        except ClientDisconnect:
            response = Response(status_code=499)  # for the log: the connection is closed
        except (RequestError, NMTError) as error:
            status = error.status if isinstance(error, RequestError) else 400
            response = _json({"error": str(error)}, status)
            response.headers.update({"retry-after": "1"} if status == 503 else {})
        except Exception as error:
            places = [f"{Path(call.filename).name}:{call.lineno}" for call in traceback.extract_tb(error.__traceback__)]
            self.log(f"internal error: {type(error).__name__}: {', '.join(places)}")
            response = _json({"error": "internal error; the log of the server has its place"}, 500)
        response.headers.update(_HEADERS)
        await response(scope, receive, send)
        seconds, name = time.monotonic() - started, path if endpoint else "-"
        self._metrics[f'nmt_requests_total{{path="{name}",status="{response.status_code}"}}'] += 1
        self._metrics.update(f'nmt_request_seconds_bucket{{le="{at}"}}' for at in _SECONDS if seconds <= float(at))
        self._metrics.update({"nmt_request_seconds_sum": seconds, "nmt_request_seconds_count": 1})
        self._metrics["nmt_characters_total"] += scope["characters"]
        client, now = (scope["client"] or "-")[0], time.strftime("%Y-%m-%dT%H:%M:%S%z")
        result = f"{response.status_code} {scope['characters']} characters {1000 * seconds:.0f} ms"
        self.log(f"{now} {client} {scope['method']} {name} {result}")

    async def translate(self, request: Request) -> Any:
        """Translate texts."""
        fields, _ = await self._fields(request, TextRequest)
        return await self._run(request, partial(self.service.translate, fields))

    async def detect(self, request: Request) -> Any:
        """Detect the language of a text."""
        fields, _ = await self._fields(request, DetectRequest)
        return await self._run(request, lambda _: self.service.detect(fields.texts, self.service.codes))

    async def translate_file(self, request: Request) -> Any:
        """Translate a document; the answer has the address of the new one."""
        fields, (client_name, data) = await self._fields(request, FileRequest)
        if not client_name:
            raise RequestError(400, "Invalid request: missing file parameter")
        name = Path(re.sub(r".*[/\\]|[^\w.-]", "_", client_name)[-80:])
        work = partial(self.service.translate_file, fields, name.name, data)
        translated, warnings, target, request.scope["characters"] = await self._run(request, work)
        while len(self._files) >= _FILES_KEPT:
            self._remove(next(iter(self._files)))
        token, file = secrets.token_hex(16), f"{name.stem}.{target}{name.suffix}"
        self.folder.mkdir(mode=0o700, exist_ok=True)  # programs of the system remove old temporary files and folders
        (self.folder / token).write_bytes(translated)
        self._files[token] = file
        asyncio.get_running_loop().call_later(_FILE_SECONDS, self._remove, token)
        url = self.settings.url or str(request.base_url)
        answer = {"translatedFileUrl": f"{url.rstrip('/')}/download_file/{token}.{quote(file)}"}
        return {**answer, "warnings": warnings} if warnings else answer

    def download_file(self, request: Request) -> Any:
        """Return a translated document."""
        token, _, file = request.scope["path"].removeprefix("/download_file/").partition(".")
        if self._files.get(token) != file or not (self.folder / token).exists():
            raise RequestError(404, "there is no such file; the last files are kept for half an hour")
        return FileResponse(self.folder / token, filename=file, media_type="application/octet-stream")

    def frontend_settings(self, _: Request) -> Any:
        """Return what clients of LibreTranslate request before they show a form."""
        languages, has_keys = self.service.languages(), bool(self.settings.keys)
        return {
            "charLimit": self.settings.characters, "frontendTimeout": 500, "apiKeys": has_keys,
            "keyRequired": has_keys, "suggestions": False, "filesTranslation": True,
            "supportedFilesFormat": FILE_ENDINGS,
            "language": {"source": languages[0], "target": languages[1]},
        }  # fmt: skip

    def metrics(self, _: Request) -> Any:
        """Return counts and times in the text format of Prometheus."""
        counts = {**self._metrics, "nmt_requests_waiting": len(self._running)}
        text = ""
        for name, kind in _METRICS.items():
            values = (f"{key} {value}\n" for key, value in counts.items() if key.startswith(name))
            text += f"# TYPE {name} {kind}\n{''.join(values)}"
        return PlainTextResponse(text)

    async def _fields(self, request: Request, kind: type[Fields]) -> tuple[Fields, tuple[str, bytes]]:
        """Return the parameters of a request, JSON or a form of either kind, and a file. Raises RequestError."""
        content_type = request.headers.get("content-type", "").lower()
        body = await self._body(request, kind is FileRequest)
        file = "", b""
        try:
            if content_type.startswith("multipart/"):
                form = await MultiPartParser(request.headers, _once(body), max_files=1).parse()
                given = _values(form.multi_items())
                if isinstance(upload := given.get("file"), UploadFile):
                    file = upload.filename or "", await upload.read()
                await form.close()
            else:
                given = parse_json(body) if "json" in content_type else _values(_decoded(body.decode()))
            if not isinstance(given, dict):
                raise ValueError("expected a dictionary of parameters")
            given = {name: value for name, value in given.items() if value not in (None, "")}
            fields = kind.model_validate(given)
        except ValidationError as error:
            faults = (f"parameter {'.'.join(map(str, fault['loc'][:1]))}: {fault['msg']}" for fault in error.errors())
            raise RequestError(400, f"Invalid request: {'; '.join(islice(faults, 10))}") from None
        except (ValueError, MultiPartException) as error:
            raise RequestError(400, f"Invalid request: {error}") from None
        key = str(given.get("api_key")).encode(errors="replace")
        if self.settings.keys and not sum(hmac.compare_digest(key, allowed) for allowed in self.settings.keys):
            raise RequestError(403, "a valid api_key is required")
        request.scope["characters"] = count = sum(map(len, getattr(fields, "texts", ())))
        if count > self.settings.characters:
            raise RequestError(413, f"the texts have {count:,} characters, at most {self.settings.characters:,}")
        return fields, file

    async def _body(self, request: Request, has_file: bool) -> bytes:
        """Return the body of a request. Raises RequestError if it is too large or arrives too slowly."""
        # a character of a text has at most 12 bytes, as two escapes of JSON
        most, body = (1 << 16) + (self.settings.size if has_file else 12 * self.settings.characters), bytearray()
        try:
            async with asyncio.timeout(self.settings.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise RequestError(413, f"the request has more than {most:,} bytes")
        except TimeoutError:
            raise RequestError(408, "the request did not arrive in time") from None
        return bytes(body)

    async def _run(self, request: Request, work: Callable[[Event], Any]) -> Any:
        """Return the result of work in a thread. Raises RequestError if too many wait, or if it takes too long."""
        if len(self._running) >= self.settings.waiting:
            raise RequestError(503, "too many requests wait; try again in a second")
        abandoned = Event()
        running = self._executor.submit(work, abandoned)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        result, closed = asyncio.wrap_future(running), asyncio.ensure_future(_closed(request))
        try:
            await asyncio.wait((result, closed), timeout=self.settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            raise ClientDisconnect if closed.done() else RequestError(504, "the translation takes too long")
        finally:
            abandoned.set()
            result.cancel()
            closed.cancel()

    def _remove(self, token: str) -> None:
        self._files.pop(token, None)
        (self.folder / token).unlink(missing_ok=True)


def _json(content: Any, status: int = 200) -> Response:
    return Response(plain_json(content), status, media_type="application/json")


def _decoded(form: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a form. Raises ValueError if a text in it is not encoded, part of which would be lost."""
    for field in filter(None, form.split("&")):
        if "=" not in field:
            advice = "write the character & of a text as %26, and send JSON with content-type: application/json"
            raise ValueError(f"found {field[:60]!r} in the form, expected name=value; {advice}")
        yield from parse_qsl(field, keep_blank_values=True, errors="strict")


def _values(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a form by name: a list for one that is repeated, as `q` may be."""
    values = dict[str, list[Any]]()
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: found if found[1:] else found[0] for name, found in values.items()}


def _page() -> tuple[str, str]:
    """Return the page and its policy: it runs only its own script and requests nothing from elsewhere."""
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    for name in ("script", "style"):
        content = page.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
        policy += f"; {name}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
    return page, f"{policy}; frame-ancestors 'none'"


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _closed(request: Request) -> None:
    """Return when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _host(request: Request) -> str | None:
    """Return the host name in the header of a request; starlette replaces a name that it cannot parse."""
    if (host := request.headers.get("host")) is None:
        return request.url.hostname
    with suppress(ValueError):
        return urlsplit(f"//{host}").hostname
    return None
