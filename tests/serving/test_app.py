"""The server on real sockets: its clients, limits, broken requests, keys, documents, and what it logs."""

import http.client
import json
import re
import shutil
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from libretranslatepy import LibreTranslateAPI

from nmt.translation.translator import Translator
from tests.serving.conftest import Running

JSON = "application/json"
GOOD = {"q": "the cat sleeps .", "source": "en", "target": "it"}


def send(
    running: Running, path: str, body: bytes | None = None, kind: str = JSON, **headers: str
) -> tuple[int, Any, Any]:
    """Return the status, the headers and the content of an answer; content that is no JSON as bytes."""
    request = Request(f"{running.url}/{path}", body, {"content-type": kind, **headers})
    try:
        with urlopen(request) as answer:
            status, found, content = answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            status, found, content = error.code, error.headers, error.read()
    return status, found, json.loads(content) if found["content-type"] == JSON else content


def translate(running: Running, **fields: Any) -> tuple[int, Any]:
    status, _, content = send(running, "translate", json.dumps({**GOOD, **fields}).encode())
    return status, content


def multipart(file: bytes | None, name: str = "", **fields: str) -> tuple[bytes, str]:
    """Return the body of a form with a file, and its type."""
    parts = [f'name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    if file is not None:
        parts.append(f'name="file"; filename="{name}"\r\n\r\n'.encode() + file)
    body = b"".join(b"--limit\r\ncontent-disposition: form-data; " + part + b"\r\n" for part in parts)
    return body + b"--limit--\r\n", "multipart/form-data; boundary=limit"


@contextmanager
def busy(running: Running, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """While the block runs, translating waits for the event that it gets."""
    go, plain = Event(), translator.translate_lines
    with monkeypatch.context() as patch:
        patch.setattr(translator, "translate_lines", lambda *rest: go.wait(60) and plain(*rest))
        yield go
        go.set()
        while running.server._running:
            time.sleep(0.01)


def test_clients_of_libretranslate_work(running: Running, translator: Translator) -> None:
    client = LibreTranslateAPI(running.url)
    assert client.translate("the cat sleeps .", "en", "it") == translator.translate("the cat sleeps .").text
    assert client.detect("Non so che cosa ha detto a Maria.")[0]["language"] == "it"
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["it"]}
    settings = send(running, "frontend/settings")[2]
    assert settings["charLimit"] == 2000
    assert not settings["keyRequired"]
    assert {".txt", ".docx", ".srt"} <= (endings := {*settings["supportedFilesFormat"]})
    assert not endings & {".csv", ".tsv", ".jsonl", ".ndjson", ".android", ".text"}
    assert send(running, "health")[2] == {"status": "ok"}


def test_json_and_forms_of_both_kinds_have_one_answer(running: Running, translator: Translator) -> None:
    text = "the cat äöü"
    expected = {"translatedText": translator.translate(text).text}
    raw = "&".join(f"{key}={value}" for key, value in {**GOOD, "q": text}.items()).encode()  # as `curl -d` sends it
    encoded = urlencode({**GOOD, "q": text, "format": "text", "api_key": ""}).encode()
    assert translate(running, q=text) == (200, expected)
    for body in (raw, encoded):
        assert send(running, "translate", body, "application/x-www-form-urlencoded")[2] == expected
    assert send(running, "translate", *multipart(None, **{**GOOD, "q": text, "alternatives": ""}))[2] == expected
    assert translate(running, q=text, format=None, alternatives=None, api_key=None) == (200, expected)


def test_form_loses_no_text(running: Running) -> None:
    texts, kind = ["the cat sleeps .", "", "the dog sleeps ."], "application/x-www-form-urlencoded"
    repeated = urlencode([("q", text) for text in texts] + [("source", "en"), ("target", "it"), ("format", "")]) + "&"
    assert send(running, "translate", repeated.encode(), kind)[2] == translate(running, q=texts)[1]
    for body in (b"source=en&target=it&q=Tom & Ann", json.dumps(GOOD).encode()):
        status, _, content = send(running, "translate", body, kind)
        assert (status, content["error"].partition(";")[2]) == (
            400,
            " write the character & of a text as %26, and send JSON with content-type: application/json",
        )
    body = b"source=en&target=it&source=it&q=a"
    assert "parameter source: Input should be a valid string" in send(running, "translate", body, kind)[2]["error"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "Expecting property name"), (b"[1]", 400, "dictionary"), (b"\xff\xfe\xfa", 400, ""), (b"", 400, ""),
        (b'{"q": NaN}', 400, "NaN"), (b'{"q": 1e999}', 400, "1e999"), (b"[" * 60_000, 400, "nested"),
        (b'{"q": ' + b"9" * 5000 + b"}", 400, "digits"), (b'{"q": {"a": 1}}', 400, "parameter q"),
        (json.dumps({**GOOD, "q": []}).encode(), 400, "parameter q: List should have at least 1 item"),
        (json.dumps({"q": "a", "format": "xml"}).encode(), 400, "required; parameter format"),
        (json.dumps({**GOOD, "q": ["a", None]}).encode(), 400, "parameter q"),
        (json.dumps({**GOOD, "target": "\ud800"}).encode(), 400, "parameter target"),
        (json.dumps({**GOOD, "target": "xx"}).encode(), 400, "xx is not supported"),
        (json.dumps({**GOOD, "alternatives": "many"}).encode(), 400, "parameter alternatives"),
        (json.dumps({**GOOD, "alternatives": 10**9}).encode(), 400, "parameter alternatives"),
        (json.dumps({**GOOD, "format": "xml"}).encode(), 400, "parameter format"),
        (json.dumps({**GOOD, "glossary": {"cat": "gat \ufffc"}}).encode(), 400, "glossary: found U+FFFC"),
        (json.dumps({**GOOD, "glossary": {"a": ""}}).encode(), 400, "parameter glossary"),
        (json.dumps({**GOOD, "q": "a" * 2001}).encode(), 413, "2,001 characters"),
        (b" " * 100_000, 413, "bytes"),
    ],
)  # fmt: skip
def test_broken_requests_are_refused_with_a_reason(running: Running, body: bytes, status: int, message: str) -> None:
    found, _, content = send(running, "translate", body)
    assert (found, set(content)) == (status, {"error"})
    assert message in content["error"]
    assert translate(running)[0] == 200


def test_broken_forms_paths_and_methods_are_refused(running: Running) -> None:
    form = "multipart/form-data; boundary=limit"
    for body, kind in ((b"--limit\r\ngarbage", form), (b"\0" * 99, form), (b"", "multipart/form-data"), (b"q=%ff", "")):
        status, _, content = send(running, "translate", body, kind)
        assert (status, set(content)) == (400, {"error"}), body
    assert send(running, "translate_file", *multipart(None, source="en", target="it"))[0] == 400
    assert [send(running, path)[0] for path in ("translate", "nothing", "download_file/x.y")] == [404] * 3
    assert not any("internal" in line for line in running.log)


def test_slow_and_closed_connections_disturb_no_other_request(serve: Callable[..., Running]) -> None:
    running = serve(seconds=0.5)
    head = (
        b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    )
    with socket.create_connection(running.address) as slow, socket.create_connection(running.address) as closed:
        slow.sendall(head)
        closed.sendall(head)
        closed.close()
        with socket.create_connection(running.address) as garbage:
            garbage.sendall(b"\x16\x03\x01 garbage\r\n\r\n")
            assert b"400 Bad Request" in garbage.recv(1000)
        assert translate(running)[0] == 200
        assert b" 408 " in slow.recv(1000)
    assert sum(" 499 " in line for line in running.log) == 1


def test_headers_without_end_are_refused(running: Running) -> None:
    with socket.create_connection(running.address, timeout=20) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"a" * (1 << 17))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
    assert send(running, "health")[0] == 200


def test_long_translations_end_and_too_many_requests_are_refused(
    serve: Callable[..., Running], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, statuses = serve(seconds=1, waiting=2), list[int]()
    with busy(running, translator, monkeypatch) as go:
        threads = [Thread(target=lambda: statuses.append(translate(running)[0])) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(running.server._running) < 2:
            time.sleep(0.01)
        status, headers, _ = send(running, "translate", json.dumps(GOOD).encode())
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"nmt_requests_waiting 2\n" in send(running, "metrics")[2]
        for thread in threads:
            thread.join()
        assert statuses == [504, 504]
        go.set()
    assert translate(running)[0] == 200


def test_request_whose_client_is_gone_is_not_translated(
    running: Running, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with busy(running, translator, monkeypatch) as go:
        for number in range(2):
            connection = http.client.HTTPConnection(*running.address)
            connection.request(
                "POST", "/translate", json.dumps({**GOOD, "q": f"gone {number}"}), {"content-type": JSON}
            )
            while len(running.server._running) <= number:
                time.sleep(0.01)
            connection.close()
        while sum(" 499 " in line for line in running.log) < 2:
            time.sleep(0.01)
        calls = list[Any]()
        original = translator.translate_lines
        monkeypatch.setattr(
            translator, "translate_lines", lambda lines, *rest: calls.append(lines) or original(lines, *rest)
        )
        go.set()
    assert calls == []


def test_keys_and_hosts_decide_who_may_use_a_server(serve: Callable[..., Running], translator: Translator) -> None:
    closed = serve(keys=[b"secret", "schlüssel".encode()], hosts=["127.0.0.1"])
    assert [translate(closed, api_key=key)[0] for key in ("secret", "schlüssel", "Secret", "", None)] == [
        200,
        200,
        *[403] * 3,
    ]
    assert (
        LibreTranslateAPI(closed.url, "secret").translate("the cat", "en", "it") == translator.translate("the cat").text
    )
    assert send(closed, "frontend/settings")[2]["keyRequired"]
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "a{b}.evil.example", "a`b", "[a"):
        assert send(closed, "languages", host=host)[0] == 403, host
    assert "access-control-allow-origin" not in send(closed, "health", origin="https://other.example")[1]


def test_documents_are_uploaded_and_downloaded_without_paths_of_clients(
    running: Running, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    cat = translator.translate("the cat sleeps").text.encode()
    for name, expected in (("../../etc/ü x.txt", "_ü_x.it.txt"), ("/.txt", "_.it.txt"), ("con\\a", "_a.it")):
        status, _, content = send(
            running, "translate_file", *multipart(b"the cat sleeps\n", name, source="en", target="it")
        )
        assert status == 200, content
        status, headers, data = send(running, content["translatedFileUrl"].removeprefix(f"{running.url}/"))
        assert (status, data) == (200, cat + b"\n")
        assert headers["content-disposition"].startswith("attachment; filename")
        assert re.fullmatch(r"[0-9a-f]{32}\.[^/]*", content["translatedFileUrl"].rpartition("/")[2])
        assert running.server._files[content["translatedFileUrl"].rpartition("/")[2][:32]] == expected
    assert all(re.fullmatch("[0-9a-f]{32}", path.name) for path in running.server.folder.iterdir())
    messages = b'{"a": "the cat", "b": "{n, plural, one {cat} other {cats}}"}'
    form = multipart(messages, "a.json", source="en", target="it")
    content = send(running, "translate_file", *form)[2]
    assert content["warnings"][0].endswith("stays as it is: b")
    token = next(running.server.folder.iterdir()).name
    for path in (token, f"{token}.", f"{token}.other", "../app.py.", f"..%2f{running.server.folder.name}%2f{token}.x"):
        assert send(running, f"download_file/{path}")[0] == 404
    shutil.rmtree(running.server.folder)  # as programs that remove old temporary files do
    assert send(running, content["translatedFileUrl"].removeprefix(f"{running.url}/"))[0] == 404
    monkeypatch.setattr("nmt.serving.app._FILES_KEPT", 1)
    assert send(running, "translate_file", *form)[0] == 200


def test_word_document_that_unpacks_to_much_more_is_refused(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.translation.documents.docx._MOST_UNPACKED", 1 << 20)
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"\0" * (2 << 20))
    status, _, content = send(
        running, "translate_file", *multipart(bomb.getvalue(), "b.docx", source="en", target="it")
    )
    assert (status, "1 MiB when unpacked" in content["error"]) == (400, True)


def test_log_and_metrics_have_counts_and_no_texts(serve: Callable[..., Running]) -> None:
    running = serve()
    translate(running, q="a secret text")
    translate(running, q="")
    send(running, "languages?q=secret")
    send(running, "secret/path")
    while len(running.log) < 4:  # written after the answer
        time.sleep(0.01)
    assert [re.sub(r"^\S+ | \d+ ms$", "", line) for line in running.log] == [
        "127.0.0.1 POST /translate 200 13 characters", "127.0.0.1 POST /translate 400 0 characters",
        "127.0.0.1 GET /languages 200 0 characters", "127.0.0.1 GET - 404 0 characters",
    ]  # fmt: skip
    metrics = dict(re.findall(r"^(nmt_\S+) (\S+)$", send(running, "metrics")[2].decode(), flags=re.MULTILINE))
    assert metrics['nmt_requests_total{path="/translate",status="400"}'] == "1"
    assert metrics["nmt_characters_total"] == "13"
    bounds = [float(name.split('"')[1]) for name in metrics if "bucket" in name]
    assert bounds == sorted(bounds)
    assert metrics['nmt_request_seconds_bucket{le="+Inf"}'] == metrics["nmt_request_seconds_count"] == "4"


def test_internal_errors_are_answered_and_logged_without_text(
    running: Running, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a secret text")

    monkeypatch.setattr(translator, "translate_lines", fail)
    status, content = translate(running)
    assert (status, "secret" in str(content)) == (500, False)
    assert any("internal error: KeyError: app.py" in line for line in running.log)
    assert not any("secret" in line for line in running.log)
