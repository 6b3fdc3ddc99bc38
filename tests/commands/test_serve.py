"""`nmt serve`: signals end it after the accepted requests; options that cannot work are explained."""

import json
import logging
import re
import resource
import signal
import socket
import subprocess
from contextlib import ExitStack
from errno import EMFILE
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import pytest

from nmt.commands.requests import ServeRequest
from nmt.commands.serve import _permit_open_files, _settings, listening_socket
from nmt.system.console import Console
from tests.builders import run_command, save_model, tiny_loaded_model, write_lines


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "model"
    save_model(folder, tiny_loaded_model())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_a_server_after_the_accepted_requests(
    number: signal.Signals, model: Path, warm_python: str, tmp_path: Path
) -> None:
    keys = write_lines(tmp_path / "keys", "one key", "", "another")
    arguments = ["serve", "-m", model, "--port", "0", "--api-keys", keys, "--cors", "https://a.example"]
    main = "from nmt.kernels import compiling as c; c.library.cache_clear(); c.shutil.which = lambda _: None; "
    main += f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}; import nmt.cli; nmt.cli.main()"
    command = [warm_python, "-c", main, *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program, ExitStack() as stack:
        stack.callback(program.kill)  # if a check fails
        assert program.stderr is not None
        assert re.match("warning: no compiled kernels, .*: no C.. compiler found", program.stderr.readline())
        started = program.stderr.readline()
        shown = re.match(r"en → it: (http://127\.0\.0\.1:\d+/) ", started)
        assert shown, started
        address = shown[1]
        (folder,) = tmp_path.glob("nmt-serve-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        fields = {"q": "\n".join(f"the cat {i} sleeps ." for i in range(300)), "source": "en", "target": "it"}
        request = Request(f"{address}translate", json.dumps({**fields, "api_key": "another"}).encode())
        request.add_header("content-type", "application/json")
        request.add_header("origin", "https://a.example")
        found: list[tuple[str | None, int]] = []

        def send() -> None:
            with urlopen(request) as answer:
                text = json.loads(answer.read())["translatedText"]
                found.append((answer.headers["access-control-allow-origin"], len(text.split("\n"))))

        thread = Thread(target=send)
        thread.start()
        while b"nmt_requests_waiting 0" in urlopen(f"{address}metrics").read():
            pass
        program.send_signal(number)
        thread.join()
        rest = program.stderr.read()
        assert program.wait() == 0, rest
    assert found == [("https://a.example", 300)]
    assert "cat" not in rest
    assert "another" not in rest
    assert not folder.exists()


def test_connections_send_small_packets_at_once() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        with client, listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_too_many_open_files_are_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """asyncio prints a traceback for each connection that waits: megabytes of them in a second."""
    log, limits = logging.getLogger("asyncio"), resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(log, "filters", [])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 256), limits[1]))
        _permit_open_files(Console())
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(2048, limits[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for error in (OSError(EMFILE, "Too many open files"), OSError(EMFILE, "Too many open files"), ValueError()):
        log.error("an error", exc_info=error)
    log.error("another error")
    assert capsys.readouterr().err.count("further connections wait: too many files are open") == 1
    assert [record.message for record in caplog.records] == ["an error", "another error"]


def test_loopback_requires_known_hosts_and_other_addresses_do_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = _settings(ServeRequest(host="Box.local", url="https://translate.example/it/"), listener)
    assert {"localhost", "127.0.0.1", "box.local", "translate.example"} <= set(settings.hosts)
    with socket.create_server(("0.0.0.0", 0)) as listener:
        assert not _settings(ServeRequest(host="0.0.0.0"), listener).hosts


def test_options_that_cannot_work_are_explained(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, message in (
            (["--port", port], "Address already in use"), (["--host", "no.such.invalid"], "cannot listen"),
            (["--host", "a..b"], "cannot listen"),
            (["--port", "0", "--api-keys", write_lines(tmp_path / "none", " ")], "there is no key in it"),
            (["--port", "0", "-m", tmp_path / "absent"], "absent"),
            (["--port", "0", "--url", "example.org"], "--url: found example.org, expected an address such as https://"),
            (["--port", "0", "--url", "http://["], "--url: found http://[, expected an address such as https://"),
            (["--port", "0", "--url", "*"], "--url: found *, expected an address such as https://"),
            (["--port", "0", "--cors", "https://a.example/"], "--cors: found https://a.example/, expected"),
            (["--port", "0", "--cors", "http://["], "--cors: found http://[, expected"),
        ):  # fmt: skip
            result = run_command("serve", "-m", model, *arguments)
            assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    monkeypatch.setattr("nmt.errors.find_spec", lambda name: None)
    result = run_command("serve", "-m", model)
    assert (result.exit_code, "run: pip install starlette" in result.stderr) == (2, True)
