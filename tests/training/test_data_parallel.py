"""Data-parallel training: several ranks equal one process, also when a rank fails."""

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import assert_same_run, metrics, tensors, train_run

SETTINGS = ("train.accumulate=2", "train.log_every=1", "decode.batch_tokens=60")


@dataclass(frozen=True)
class Ranks:
    """Start trainings of several processes."""

    programs: Path
    texts: Path

    def train(
        self, count: int, run: Path, *overrides: str, patch: str = "", restarts: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run torchrun with a script that executes the code in `patch` in each process, and then `nmt train`."""
        script = run.with_suffix(".py")
        script.write_text(f"{patch}\nfrom nmt.__main__ import main\nmain()\n")
        command = [self.programs / "torchrun", "--standalone", f"--nproc-per-node={count}"]
        command += [f"--max-restarts={restarts}", script, "train", "-c", self.texts / "recipe.yaml"]
        command += [word for override in (f"run={run}", *overrides) for word in ("--set", override)]
        environment = {**os.environ, "PYTHON_EXEC": str(self.programs / "python")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def ranks(warm_programs: Path, texts: Path) -> Ranks:
    return Ranks(warm_programs, texts)


def records(run: Path) -> list[dict[str, Any]]:
    """Return the log without padding, which is smaller in shards."""
    return [{key: value for key, value in record.items() if key != "padding"} for record in metrics(run)]


def assert_close(ours: Path, theirs: Path) -> None:
    """Assert that losses, norms, scores, weights and moments are equal to a relative 1e-5."""
    for a, b in zip(records(ours), records(theirs), strict=True):
        assert a.pop("type") == b.pop("type")
        assert a == pytest.approx(b, rel=1e-5), a["step"]
    mine, its = tensors(ours), tensors(theirs)
    assert mine.keys() == its.keys()
    for name, tensor in mine.items():
        assert (tensor - its[name]).norm() <= 1e-5 * tensor.norm() + 1e-12, name
    assert (ours / "test.txt").read_text() == (theirs / "test.txt").read_text()


@pytest.mark.slow
def test_several_ranks_equal_one_process(ranks: Ranks, texts: Path, tmp_path: Path) -> None:
    """In a group of two sentences, one of three ranks has no sentence; batches of the validation are a rank's share."""
    overrides = (*SETTINGS, "model.dropout=0", "train.batch_tokens=16", "train.length_groups=1")
    # a smaller epsilon turns the rounding of a gradient near zero into a whole step
    overrides += ("train.adam_epsilon=1e-3",)
    overrides += (f"data.test={{file: {texts / 'test.tsv'}}}",)
    patch = """
from nmt.training import loop
mean_loss = loop.mean_loss
loop.mean_loss = lambda model, split, budget: mean_loss(model, split, {16 // 3: budget}[budget])
"""
    done = ranks.train(3, tmp_path / "many", *overrides, patch=patch)
    assert done.returncode == 0, done.stderr
    messages = done.stderr
    assert len(re.findall(r"^device +3 × cpu ", messages, re.MULTILINE)) == 1  # only rank 0 prints
    assert messages.count("stopped after step 12") == 1
    assert "Warning" not in messages
    train_run(texts, tmp_path / "one", *overrides)
    assert_close(tmp_path / "one", tmp_path / "many")


def patch_of_updates(work: str) -> str:
    """Return code by which each update begins with some work."""
    return f"""
import os
from pathlib import Path
from nmt.system import distributed
from nmt.training.update import Updater

update = Updater.update


def changed(updater, batches, step, tokens):
    {work}
    return update(updater, batches, step, tokens)


Updater.update = changed
"""


@pytest.mark.slow
def test_stopped_and_killed_ranks_resume_to_the_same_run(ranks: Ranks, tmp_path: Path) -> None:
    """Bit for bit, with dropout; three ranks, because the rounding of a sum of three depends on its order."""
    settings = (*SETTINGS, "train.keep_best=99")
    ranks.train(3, tmp_path / "undisturbed", *settings)
    run = tmp_path / "run"

    def train_with_signal(number: signal.Signals, at: int, restarts: int = 0) -> int:
        """Train while the second rank sends itself a signal at one update, once; return the exit code."""
        sent = tmp_path / f"sent-{number}"
        work = f"""if (distributed.rank(), step) == (1, {at}) and not Path("{sent}").exists():
        Path("{sent}").touch()
        os.kill(os.getpid(), {int(number)})"""
        code = ranks.train(3, run, *settings, patch=patch_of_updates(work), restarts=restarts).returncode
        assert sent.exists()
        return code

    assert train_with_signal(signal.SIGTERM, 6) != 0
    assert json.loads((run / "last" / "progress.json").read_text())["step"] == 6
    assert train_with_signal(signal.SIGKILL, 10, restarts=1) == 0
    assert_same_run(run, tmp_path / "undisturbed")


@pytest.mark.slow
def test_update_that_is_not_finite_on_one_rank_is_skipped_by_all(ranks: Ranks, tmp_path: Path) -> None:
    faulty = """smoothing = float("nan") if (distributed.rank(), step) == (1, 6) else 0.1
    train = updater.recipe.train.model_copy(update={"label_smoothing": smoothing})
    updater.recipe = updater.recipe.model_copy(update={"train": train})"""
    done = ranks.train(2, tmp_path / "run", "train.stop.steps=8", patch=patch_of_updates(faulty))
    assert done.stderr.count("step 6: loss nan") == 1
    progress = json.loads((tmp_path / "run" / "last" / "progress.json").read_text())
    assert (progress["step"], progress["skipped"]) == (8, 1)
