"""Fixtures of all packages, the order of the tests, and one thread for each of several test processes."""

import contextlib
import gc
import os
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # before torch is imported: each of several test processes, with the processes that it starts, has one core and
    # one thread, so that they do not compete
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

# from the terminal, make, torchrun or a user: they would change the messages and processes that are tested
for name in (
    "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "MAKEFLAGS", "MFLAGS", "NMT_MODEL",
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
):  # fmt: skip
    os.environ.pop(name, None)

for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        # a background job and nohup ignore signals, and so would every process that a test interrupts
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# the duration of an example depends on the machine; a random one may be a tie, which processors break in different ways
settings.register_profile(
    "nmt", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", settings.get_profile("nmt"), derandomize=False)
settings.load_profile("nmt")


def pytest_configure() -> None:
    """Collect no garbage while the tests are collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage seldom, and never look at the imported modules and the tests: it would take 5 % of the time."""
    gc.freeze()
    gc.set_threshold(5000)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow tests last, so that most failures show within seconds.

    Several processes take whole files, those with most slow tests first: otherwise one of them waits at the end.
    """
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    slow_tests = Counter(item.path for item in slow)
    items.sort(key=lambda item: -slow_tests[item.path] if worker else item in slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test the same random numbers, whichever tests ran before in this process."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(zlib.crc32(item.nodeid.encode()))


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks() -> Iterator[None]:
    """Files are not forced onto the disk, which takes as long as a small training computes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def absolute_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name absolute paths, also where the repository and the temporary files have a folder in common."""
    monkeypatch.chdir("/")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def warm_programs(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `python`, `nmt` and `torchrun` that have imported everything; see `warm_commands`."""
    from tests import warm_commands

    folder = tmp_path_factory.mktemp("bin")
    with warm_commands.warm_programs(repository, folder):
        yield folder


@pytest.fixture(scope="session")
def warm_python(warm_programs: Path) -> str:
    """A Python that starts with torch and nmt imported, for processes whose imports are not what is tested."""
    return str(warm_programs / "python")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the repository; tests that need it are skipped without it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the corpora in {folder}, which are not part of the repository")
    return folder


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reversal task: its texts, its recipe, and its prepared corpus."""
    from nmt.commands.prepare import prepare
    from nmt.config import load_recipe
    from nmt.system.console import Console
    from tests.builders import write_reversal_task

    folder = tmp_path_factory.mktemp("texts")
    prepare(load_recipe(write_reversal_task(folder)), Console(quiet=True))
    return folder


@pytest.fixture(scope="session")
def uninterrupted(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the reversal task, and `runs/latest` beside it."""
    from nmt.commands.train import train
    from nmt.config import load_recipe
    from nmt.system.console import Console

    folder = tmp_path_factory.mktemp("uninterrupted")
    with contextlib.chdir(folder):
        train(load_recipe(texts / "recipe.yaml", [f"run={folder / 'run'}"]), Console(quiet=True))
    return folder / "run"
