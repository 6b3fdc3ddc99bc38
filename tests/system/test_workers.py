"""Worker processes: the same results as in one process, and a defined end when one of them is killed.

Only a process whose torch has always had one thread may be forked, so the tests are in workers_alone.py.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nmt.system.workers import WorkerPool
from nmt.translation import sharing
from nmt.translation.sharing import shared_map


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_worker_processes_in_a_process_of_one_thread(warm_python: str, repository: Path) -> None:
    tests = Path(__file__).with_name("workers_alone.py")
    command = [warm_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": warm_python}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("condition", ["threads of a library", "another thread than the main one"])
def test_without_a_process_that_can_be_copied_there_are_no_workers(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies would lack threads such as those of torch's matrix products, and end with the thread that made them."""
    monkeypatch.setattr(WorkerPool, "map", lambda *_: pytest.fail("a worker was forked"))
    translator: Any = SimpleNamespace(process_count=2, engine=SimpleNamespace(uses_cores=True))

    def work() -> list[int]:
        return list(shared_map(translator, lambda batch: 2 * batch, range(5)))

    if condition == "threads of a library":
        monkeypatch.setattr("nmt.system.workers.threading.active_count", lambda: 1000)
        assert work() == [0, 2, 4, 6, 8]
    else:
        monkeypatch.setattr(sharing, "can_fork", lambda: True)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(work).result() == [0, 2, 4, 6, 8]


def test_workers_that_do_not_search_need_no_threads_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU: its driver has threads, and so has torch in any process that has loaded a model."""
    monkeypatch.setattr(WorkerPool, "map", lambda *_: iter(["of workers"]))
    monkeypatch.setattr(sharing, "can_fork", lambda: False)
    engine = SimpleNamespace(uses_cores=False, for_worker=None, answer=None)
    translator: Any = SimpleNamespace(process_count=2, engine=engine)
    assert list(shared_map(translator, lambda batch: batch, [1])) == ["of workers"]
