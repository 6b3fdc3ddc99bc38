"""Deferred results: reading them one step later and skipping updates on the device give the same run."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.training import step as step_module
from nmt.training.progress import Progress
from nmt.training.step import DispatchedUpdate, HostCopy, Update, Updater
from tests.builders import batch_of, tiny_recipe
from tests.training.runs import (
    assert_same_run,
    break_gradients,
    fails_at_6_to_11_unless_slower,
    interrupt_after,
    skipped_steps,
    train_run,
)
from tests.training.updates import PAIRS, difference, make_updater, same_tensors, spoil, unspoil

# a gradient that is clipped on the device is rounded in another place, so the bits of these runs are compared unclipped
CLIP_NORM = 1e6
OVERRIDES = (
    f"train.clip_norm={CLIP_NORM}",
    "train.accumulate=2",
    "train.weight_decay=0.1",
    "train.log_every=4",
)


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_deferred_update_skips_the_same_steps_as_an_eager_one(where: str, value: float) -> None:
    chosen = tiny_recipe(clip_norm=CLIP_NORM, dropout=0.1, weight_decay=0.1)
    eager, deferred = make_updater(chosen), make_updater(chosen)
    deferred.deferred = True
    for step in (1, 2, 3, 4, 5):
        if step == 3:
            for updater in (eager, deferred):
                spoil(updater, value, where)
        updates = [updater.update([batch_of(PAIRS), batch_of(PAIRS[:2])], step) for updater in (eager, deferred)]
        eager_values, deferred_values = (
            (repr(f.loss), repr(f.likelihood), repr(f.gradient_norm), f.rate, f.finite) for f in updates
        )
        assert eager_values == deferred_values
        assert updates[0].finite == (step != 3)
        assert same_tensors(eager, deferred)
        if step == 3:
            for updater in (eager, deferred):
                unspoil(updater)
    assert {state["step"].item() for state in deferred.optimizer.state.values()} == {4}


def test_deferred_update_equals_eager_after_a_skipped_first_step() -> None:
    """The deferred optimizer has moments of zero after step 1, and its step count is still 0."""
    eager, deferred = (make_updater(tiny_recipe(clip_norm=CLIP_NORM)) for _ in range(2))
    deferred.deferred = True
    for updater in (eager, deferred):
        spoil(updater, float("nan"), "loss")
        assert not updater.update([batch_of(PAIRS)], 1).finite
        unspoil(updater)
        assert updater.update([batch_of(PAIRS)], 2).finite
    assert same_tensors(eager, deferred)


@pytest.mark.parametrize("clip_norm", [None, 0.1, 100.0])
def test_deferred_update_clips_as_an_eager_one(clip_norm: float | None) -> None:
    # Adam turns a rounding error of a gradient near zero into a whole step; this epsilon keeps it a rounding error
    chosen = tiny_recipe(clip_norm=clip_norm, adam_epsilon=1e-3)
    eager, deferred = make_updater(chosen), make_updater(chosen)
    deferred.deferred = True
    for step in (1, 2, 3, 4):
        norms = [updater.update([batch_of(PAIRS)], step).gradient_norm for updater in (eager, deferred)]
        assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert difference(eager, deferred) < 1e-6
    unclipped = make_updater(tiny_recipe(clip_norm=None, adam_epsilon=1e-3))
    for step in (1, 2, 3, 4):
        unclipped.update([batch_of(PAIRS)], step)
    assert (difference(deferred, unclipped) > 1e-4) == (clip_norm == 0.1)


def at_no_step(progress: Progress) -> bool:
    return False


def at_steps_1_3_7_8(progress: Progress) -> bool:
    return progress.step in (1, 3, 7, 8)


@pytest.mark.parametrize(
    ("when", "interruptions"),
    [(at_no_step, [5]), (at_steps_1_3_7_8, [2, 7, 10]), (fails_at_6_to_11_unless_slower, [2, 5, 7, 10, 11])],
    ids=["finite", "skipped", "slower"],
)
def test_deferred_results_give_the_same_run(
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: Callable[[Progress], bool],
    interruptions: list[int],
) -> None:
    break_gradients(monkeypatch, when)
    train_run(texts, tmp_path / "eager", *OVERRIDES)
    monkeypatch.setattr(step_module, "skips_on_device", lambda device: True)
    train_run(texts, tmp_path / "deferred", *OVERRIDES)
    assert_same_run(tmp_path / "eager", tmp_path / "deferred")
    assert skipped_steps(tmp_path / "eager") == ([1, 3, 7, 8] if when is at_steps_1_3_7_8 else [])
    files = {path.name: path.read_bytes() for path in (tmp_path / "eager").glob("skipped/*")}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "deferred").glob("skipped/*")}
    # an interruption loses no result, also while one is pending
    for steps in interruptions:
        run = tmp_path / f"interrupted-{steps}"
        with monkeypatch.context() as patch:
            interrupt_after(patch, steps)
            assert train_run(texts, run, *OVERRIDES).signal == signal.SIGTERM
        train_run(texts, run, *OVERRIDES)
        assert_same_run(tmp_path / "eager", run)


def test_results_are_read_after_the_next_dispatch(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    dispatch, synchronized = Updater.dispatch, DispatchedUpdate.synchronized

    def recording_dispatch(updater: Updater, *arguments: object) -> DispatchedUpdate:
        events.append(f"dispatch {arguments[1]}")
        return dispatch(updater, *arguments)  # type: ignore[arg-type]

    def recording_synchronized(updater: DispatchedUpdate) -> Update:
        events.append(f"read {updater.step}")
        return synchronized(updater)

    monkeypatch.setattr(step_module, "skips_on_device", lambda device: True)
    monkeypatch.setattr(Updater, "dispatch", recording_dispatch)
    monkeypatch.setattr(DispatchedUpdate, "synchronized", recording_synchronized)
    train_run(texts, tmp_path / "run", "train.log_every=100", "train.validate_every=3", "train.stop.steps=5")
    assert events == [
        "dispatch 1", "dispatch 2", "read 1", "dispatch 3", "read 2", "read 3",
        "dispatch 4", "dispatch 5", "read 4", "read 5",
    ]  # fmt: skip


class SynchronizationRecorder(TorchDispatchMode):
    """Record operations that make the CPU wait for a GPU: reading values, and results whose size depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        by_mask = name.startswith("aten.index") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in flatten(args[1:])
        )
        if by_mask or name in ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"):
            self.operations.append(name)
        return function(*args, **(kwargs or {}))


def flatten(arguments: Any) -> list[Any]:
    return [item for part in arguments for item in (part if isinstance(part, (list, tuple)) else [part])]


def test_dispatch_does_not_synchronize() -> None:
    deferred = make_updater(tiny_recipe(dropout=0.1))
    deferred.deferred = True
    deferred.update([batch_of(PAIRS)], 1)
    with SynchronizationRecorder() as recorder:
        deferred.dispatch([batch_of(PAIRS), batch_of(PAIRS[1:])], 2)
    assert recorder.operations == []
    with SynchronizationRecorder() as recorder:
        kept = torch.tensor([True, False])
        (kept[kept], kept.nonzero(), kept[0].item())
    assert len(recorder.operations) == 3, "the recorder detects each kind"


def test_host_copy_returns_the_values() -> None:
    assert HostCopy(torch.tensor([1.5, float("inf")])).read() == [1.5, float("inf")]
