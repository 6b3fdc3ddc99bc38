"""Data-parallel training: several ranks equal one process, also when a rank fails."""

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.batching.batch import dummy_batch
from nmt.batching.batch_stream import BatchStream
from nmt.config import ModelSettings
from nmt.model.transformer import Transformer
from nmt.text.prepared import PreparedCorpus
from nmt.training import optimizer
from nmt.training.loss import Objective
from tests.training.runs import assert_same_run, metrics, tensors, train_run

SETTINGS = ("train.accumulate=2", "train.log_every=1", "decode.batch_tokens=60")


RANKS = '''
"""Start the ranks of a job as forks of this process, without torchrun."""

import os, socket, sys
import nmt.cli

_, count, patch, *arguments = sys.argv
# kept open: the first rank may listen on this port, and the system gives it to no other program
reserved = socket.socket()
reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
reserved.bind(("127.0.0.1", 0))
port = reserved.getsockname()[1]
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
sys.argv[1:] = arguments
ranks = []
for rank in range(int(count)):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        exec(patch, {})
        nmt.cli.main()
        os._exit(0)
sys.exit(any([os.waitpid(rank, 0)[1] for rank in ranks]))
'''


@dataclass(frozen=True)
class Ranks:
    """Start trainings of several processes."""

    programs: Path
    texts: Path

    def train(self, count: int, run: Path, *overrides: str, patch: str = "") -> str:
        """Train in `count` processes, each of which first executes the code in `patch`; return the standard error."""
        command = [self.programs / "python", "-c", RANKS, str(count), patch, *self._arguments(run, overrides)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def torchrun(self, options: list[str], script: list[str], run: Path, *overrides: str) -> int:
        """Run torchrun with a script in place of the module nmt; return its exit code."""
        command = [self.programs / "torchrun", "--standalone", *options, *script, *self._arguments(run, overrides)]
        environment = {**os.environ, "PYTHON_EXEC": str(self.programs / "python")}
        return subprocess.run(command, stderr=subprocess.DEVNULL, env=environment, check=False).returncode

    def _arguments(self, run: Path, overrides: tuple[str, ...]) -> list[str]:
        changes = [word for override in (f"run={run}", *overrides) for word in ("--set", override)]
        return ["train", "-c", str(self.texts / "recipe.yaml"), *changes]


@pytest.fixture
def ranks(warm_programs: Path, texts: Path) -> Ranks:
    return Ranks(warm_programs, texts)


def records(run: Path) -> list[dict[str, Any]]:
    """Return the log without padding, which is smaller in shards."""
    return [{key: value for key, value in record.items() if key != "padding"} for record in metrics(run)]


def option_of_test(texts: Path) -> str:
    return f"data.test={{file: {texts / 'test.tsv'}}}"


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


@pytest.mark.parametrize(("size", "groups"), [(2, 4), (3, 1), (7, 4)])
def test_ranks_read_disjoint_shards_of_an_epoch(texts: Path, size: int, groups: int) -> None:
    corpus = PreparedCorpus.open(texts / "prepared")

    def read(rank: int, world_size: int) -> tuple[list[int], list[int]]:
        """Return the pairs read in an epoch, and the target tokens of each batch."""
        stream, seen, tokens = BatchStream(corpus.train, 16, 1, groups, rank=rank, world_size=world_size), [], []
        plain = stream._read
        stream._read = lambda indices, group: (seen.extend(indices.tolist()), plain(indices, group))[1]  # type: ignore[method-assign]
        while stream.position.epoch == 0:
            tokens.append(stream.next().target_tokens)
        return seen, tokens

    whole, whole_tokens = read(0, 1)
    shards = [read(rank, size) for rank in range(size)]
    assert sorted(pair for seen, _ in shards for pair in seen) == sorted(whole)
    # the shards of each batch add up to the batch, and their sizes are balanced
    assert np.sum([tokens for _, tokens in shards], axis=0).tolist() == whole_tokens
    counts = [len(seen) for seen, _ in shards]
    assert max(counts) - min(counts) <= 0.3 * len(whole) / size + 3


def test_dummy_batch_has_a_zero_gradient_for_every_weight() -> None:
    """A rank without sentences still takes part in the all-reduce of every weight."""
    settings = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=16)
    objective = Objective(Transformer(settings, 12, 12), 0.1).train()
    loss, likelihood = objective(dummy_batch())
    loss.backward()
    assert (loss.item(), likelihood.item()) == (0, 0)
    assert (dummy_batch().source_tokens, dummy_batch().target_tokens) == (0, 0)
    for name, weight in objective.named_parameters():
        assert weight.grad is not None, name
        assert not weight.grad.any(), name


@pytest.mark.slow
def test_several_ranks_equal_one_process(
    ranks: Ranks, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group of two sentences, one of three ranks has no sentence."""
    overrides = (*SETTINGS, "model.dropout=0", "train.batch_tokens=16", "train.length_groups=1", option_of_test(texts))
    # a smaller epsilon turns the rounding of a gradient near zero into a whole step
    patch = "import nmt.training.optimizer; nmt.training.optimizer.EPSILON = 1e-3"
    messages = ranks.train(3, tmp_path / "many", *overrides, patch=patch)
    assert len(re.findall(r"^device +3 × cpu ", messages, re.MULTILINE)) == 1  # only rank 0 prints
    assert messages.count("stopped after step 12") == 1
    assert "Warning" not in messages
    monkeypatch.setattr(optimizer, "EPSILON", 1e-3)
    train_run(texts, tmp_path / "one", *overrides)
    assert_close(tmp_path / "one", tmp_path / "many")


SIGNAL_TO_SELF = '''
"""`nmt`, except that the second rank sends itself a signal at one update, once."""

import os
import sys
from pathlib import Path

from nmt.__main__ import main
from nmt.system import distributed
from nmt.training.update import Updater

sent, number, at = Path(sys.argv.pop(1)), int(sys.argv.pop(1)), int(sys.argv.pop(1))
update = Updater.update


def interrupted(updater, batches, step, tokens):
    if distributed.rank() == 1 and step == at and not sent.exists():
        sent.touch()
        os.kill(os.getpid(), number)
    return update(updater, batches, step, tokens)


Updater.update = interrupted
main()
'''


@pytest.mark.slow
def test_stopped_and_killed_ranks_resume_to_the_same_run(ranks: Ranks, tmp_path: Path) -> None:
    """Bit for bit, with dropout; three ranks, because the rounding of a sum of three depends on its order."""
    settings = (*SETTINGS, "train.keep_best=99")
    ranks.train(3, tmp_path / "undisturbed", *settings)
    run, script = tmp_path / "run", tmp_path / "interrupted.py"
    script.write_text(SIGNAL_TO_SELF)

    def torchrun(number: signal.Signals, step: int, *options: str) -> int:
        sent = tmp_path / f"sent-{number}"
        arguments = [str(script), str(sent), str(int(number)), str(step)]
        code = ranks.torchrun(["--nproc-per-node=3", *options], arguments, run, *settings)
        assert sent.exists()
        return code

    assert torchrun(signal.SIGTERM, 6) != 0
    assert json.loads((run / "last" / "progress.json").read_text())["step"] == 6
    assert torchrun(signal.SIGKILL, 10, "--max-restarts=1") == 0
    assert_same_run(run, tmp_path / "undisturbed")


FAULTY = """
from nmt.system import distributed
from nmt.training import optimizer
from nmt.training.loss import Objective
from nmt.training.update import Updater

update, forward = Updater.update, Objective.forward
step = 0


def noting(updater, batches, number, tokens):
    global step
    step = number
    return update(updater, batches, number, tokens)


def failing(objective, batch):
    loss, likelihood = forward(objective, batch)
    return (loss * float("nan"), likelihood) if (distributed.rank(), step) == (1, 6) else (loss, likelihood)


Updater.update, Objective.forward = noting, failing
"""


@pytest.mark.slow
def test_update_that_is_not_finite_on_one_rank_is_skipped_by_all(ranks: Ranks, tmp_path: Path) -> None:
    messages = ranks.train(2, tmp_path / "run", "train.stop.steps=8", patch=FAULTY)
    assert messages.count("step 6: loss nan") == 1
    progress = json.loads((tmp_path / "run" / "last" / "progress.json").read_text())
    assert (progress["step"], progress["skipped"]) == (8, 1)
