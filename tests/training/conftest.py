"""Each test has a separate current directory, because training writes `runs/latest` there."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
