"""Each test has a separate current directory, because training writes `runs/latest` there."""

from pathlib import Path

import pytest

from nmt.training import optimizer


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def large_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam does not turn a rounding error of a gradient near zero into a whole step."""
    monkeypatch.setattr(optimizer, "EPSILON", 1e-3)
