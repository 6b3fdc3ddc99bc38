"""The requests on the page of the documentation have the answers that it shows."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.commands.requests import ServeRequest
from nmt.serving.api import Service
from nmt.translation.translator import Translator
from tests.serving.conftest import Running


@pytest.mark.slow
def test_requests_in_the_documentation_have_the_answers_that_it_shows(
    demo: Path, serve: Callable[..., Running], repository: Path, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    running = serve()
    running.server.service = Service([Translator.load(demo, device="cpu")])
    page = (repository / "docs" / "serving.md").read_text(encoding="utf-8")
    examples = re.findall(r"```bash\n(.*?)```\n\n```json\n(.*?)```", page, flags=re.DOTALL)
    assert len(examples) == 4
    for command, expected in examples:
        command = command.replace("http://127.0.0.1:8000", running.url)
        shown = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        assert shown.strip() == expected.strip()
    assert json.loads(examples[0][1])


def test_limits_in_the_documentation_are_the_defaults(repository: Path) -> None:
    page = (repository / "docs" / "serving.md").read_text(encoding="utf-8")
    defaults = ServeRequest()
    shown = re.findall(r"`--(max-\w+|timeout)`[^|(]*\((\d[\d,]*)\)", page)
    values = {
        "max-characters": defaults.characters,
        "max-megabytes": defaults.megabytes,
        "max-waiting": defaults.waiting,
    }
    assert {name: int(number.replace(",", "")) for name, number in shown} == {**values, "timeout": defaults.timeout}
