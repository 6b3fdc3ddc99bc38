"""A run that is killed repeatedly equals an uninterrupted run bit for bit."""

import subprocess
from pathlib import Path

import pytest

from nmt.commands.prepare import prepare
from nmt.config import load_recipe
from tests.builders import write_reversal_task
from tests.training.runs import QUIET, assert_same_run, train_run

DRIVER = """
import os, random, signal, sys
from pathlib import Path
import nmt.cli, nmt.commands.train, nmt.training.checkpoint_files, nmt.training.loop
from tests.kill_points import kill_at_call

# it takes a quarter of a second of each start
recipe, run, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)
kinds = ["while starting"] * 2 + ["while training"] * 5 + ["while saving"] * 5
choose.shuffle(kinds)
sys.argv[1:] = ["train", "--config", recipe, "--set", f"run={run}", "--quiet"]


def saving():
    return any(not (path / "config.json").exists() for path in (run / "checkpoints").glob("step-*"))


def lines():
    return len((run / "metrics.jsonl").read_text().splitlines()) if (run / "metrics.jsonl").exists() else 0


POINTS = {
    "while starting": (20_000, (nmt.commands.train, "Training"), [1]),
    "while training": (20_000, (nmt.training.loop.Training, "step"), range(5, 8)),
    "while saving": (400, (nmt.training.checkpoint_files, "write_model"), [1, 2, 2]),
}
for kind in [*kinds, None]:
    if kind is not None:
        most, function, times = POINTS[kind]
        calls, times = choose.randrange(most), choose.choice(times)
    child = os.fork()
    if not child:
        if kind is not None:
            kill_at_call(calls, after=function, times=times)
        nmt.cli.main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (0 if kind is None else -signal.SIGKILL), code
    print("half written" if saving() else "whole", lines(), flush=True)
"""


def write_task(folder: Path) -> Path:
    """Write texts and a recipe that enables every setting on which the next update depends."""
    train = {
        "batch_tokens": 128,
        "length_groups": 3,
        "accumulate": 2,
        "schedule": {"name": "cosine", "rate": 0.003, "warmup": 10},
        "stop": {"steps": 52},
        "validate_every": 4,
        "log_every": 3,
        "keep_best": 2,
    }
    data = {"train": [{"file": "train.tsv", "oversample": 1.5}]}
    data |= {name: {"file": f"{name}.tsv"} for name in ("valid", "test")}
    decode = {"beam": 1, "max_length": {"factor": 1, "extra": 5}}
    return write_reversal_task(folder, 300, 4, {"data": data, "train": train, "decode": decode})


@pytest.mark.slow
def test_run_killed_at_random_equals_uninterrupted_run(
    warm_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = write_task(tmp_path)
    prepare(load_recipe(chosen), QUIET)
    uninterrupted = tmp_path / "uninterrupted"
    train_run(tmp_path, uninterrupted)
    killed = tmp_path / "killed"
    command = [warm_python, "-c", DRIVER, str(chosen), str(killed), "1"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    *deaths, end = (line for line in result.stdout.splitlines() if line.startswith(("half", "whole")))
    assert len(deaths) == 12
    assert sum(death.startswith("half written") for death in deaths) >= 4
    assert len({death.split()[-1] for death in deaths}) >= 8
    assert end.startswith("whole")
    assert_same_run(uninterrupted, killed)
    for name in ("valid.txt", "test.txt", "test.json"):
        assert (killed / name).read_bytes() == (uninterrupted / name).read_bytes()
