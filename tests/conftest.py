"""Fixtures that several rooms share, and the order of the tests."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

# how long an example takes depends on what else the machine does, which says nothing about the code
settings.register_profile("nmt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nmt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow tests last, so that most failures show within seconds."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the repository; tests that want it are skipped where it is not."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the corpora in {folder}, which are not part of the repository")
    return folder
