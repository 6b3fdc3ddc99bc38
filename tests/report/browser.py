"""A headless Chromium, driven through the pipe of its DevTools protocol: messages are JSON and end with a zero byte."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
_FAULTS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


_CONNECT = """
import os, sys
copies = [os.dup(int(number)) for number in sys.argv[1:3]]
for copy, number in zip(copies, (13, 14)):
    os.dup2(copy, number)
for number in (3, 4):
    os.dup2(number + 10, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Gives the browser the two ends of the pipe as descriptors 3 and 4, which the protocol requires."""


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome, None if neither is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    mac = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return next(filter(None, map(shutil.which, names)), str(mac) if mac.exists() else None)


class Page:
    """A tab of the browser."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, os.fdopen(answers, "rb")
        self._count = 0
        self._rest = b""
        self.session: str | None = None
        self.faults: list[str] = []
        """Messages on the console, and exceptions."""
        self.addresses: list[str] = []
        """What was requested."""

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._requests)
        self._answers.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._record(answer)

    def attach(self) -> None:
        """Create the tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._answers.read1(1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _record(self, event: dict[str, Any]) -> None:
        if event.get("method") in _FAULTS:
            self.faults.append(json.dumps(event["params"])[:500])
        if event.get("method") == "Network.requestWillBeSent":
            self.addresses.append(event["params"]["request"]["url"])

    def open(self, address: str, width: int, scheme: str) -> None:
        """Load an address in a window of this width and in the light or dark theme."""
        self.faults.clear()
        self.addresses.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        self.wait_for("location.protocol !== 'about:' && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, of a promise its result."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Return when a JavaScript expression is true."""
        while not self.run(f"Boolean({condition})"):
            self.run("new Promise((done) => setTimeout(done, 20))")


@contextmanager
def opened_browser(program: str, profile: Path) -> Iterator[Page]:
    """Start a browser with an empty profile, and end it."""
    requests_in, requests = os.pipe()
    answers, answers_out = os.pipe()

    command = [program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", _CONNECT, str(requests_in), str(answers_out), *command], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(requests_in, answers_out),
    )  # fmt: skip
    os.close(requests_in)
    os.close(answers_out)
    page = Page(requests, answers)
    try:
        page.attach()
        yield page
        page.session = None
        page.call("Browser.close")
    finally:
        page.close()
        process.kill()
        process.wait()
