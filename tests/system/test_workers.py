"""Worker processes: the same results as in one process, and a defined end when one of them is killed.

Only a process whose torch has always had one thread may be forked, so the tests are in workers_alone.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.decoding.models import BatchRunner
from nmt.system.workers import WorkerPool
from tests.builders import tiny_model


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_worker_processes_in_a_process_of_one_thread(warm_python: str, repository: Path) -> None:
    tests = Path(__file__).with_name("workers_alone.py")
    command = [warm_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": warm_python}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_process_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads, such as those of torch's matrix products, would be missing in the copies, which would wait."""
    monkeypatch.setattr("nmt.system.workers.threading.active_count", lambda: 1000)
    monkeypatch.setattr(WorkerPool, "map", lambda *_: pytest.fail("a worker was forked"))
    runner = BatchRunner([tiny_model(1)], processes=2)
    assert runner.run(lambda models, batch: 2 * batch, range(5)) == [0, 2, 4, 6, 8]
