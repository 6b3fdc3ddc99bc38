"""Each test has a separate current directory, because training writes `runs/latest` there."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def fresh_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiled code is not taken from a cache, and draws the random numbers of eager code.

    torch keeps compiled code in the folder for temporary files, and finds it again by its graph, whatever the processor
    for which it was compiled: on another one, its results are NaN.
    """
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    with config.patch(fallback_random=True):
        yield
