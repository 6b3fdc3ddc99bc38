"""Each test has a separate current directory, because training writes `runs/latest` there."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def random_numbers_of_eager_code() -> Iterator[None]:
    """Compiled code draws the random numbers of eager code, also with the dropout of plain torch."""
    from torch._inductor import config

    with config.patch(fallback_random=True):
        yield
