"""Inputs of public bug reports, each with a script that exits with 0 if nothing is lost or damaged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
CASES = sorted((REPOSITORY.parent / "shared" / "cases").glob("*/run.sh"))


@pytest.mark.slow
@pytest.mark.skipif(not CASES, reason="needs the cases beside the repository, which are not part of it")
@pytest.mark.skipif(not (REPOSITORY / "runs" / "demo-en-zh" / "best").exists(), reason="needs the models of make demo")
@pytest.mark.parametrize("script", CASES, ids=lambda script: script.parent.name)
def test_case_is_right(script: Path, warm_programs: Path) -> None:
    # a program that is warm opens its standard streams anew
    programs = Path(sys.executable).parent if "closed" in script.parent.name else warm_programs
    environment = {**os.environ, "NMT": str(programs / "nmt"), "PY": sys.executable}
    done = subprocess.run(
        ["bash", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
