"""Figures that are read a step late, and updates that the device itself skips, make the very same run."""

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
from tests.training.updates import PAIRS, make_updater, same_tensors, spoil, unspoil

OVERRIDES = ("train.ema=0.9", "train.accumulate=2", "train.weight_decay=0.1", "train.log_every=4")


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_device_skips_the_same_updates_as_the_host(where: str, value: float) -> None:
    chosen = tiny_recipe(dropout=0.1, ema=0.9, weight_decay=0.1)
    eager, late = make_updater(chosen), make_updater(chosen)
    late.deferred = True
    for step in (1, 2, 3, 4, 5):
        if step == 3:
            for of in (eager, late):
                spoil(of, value, where)
        figures = [of.update([batch_of(PAIRS), batch_of(PAIRS[:2])], step) for of in (eager, late)]
        ours, theirs = ((repr(f.loss), repr(f.likelihood), repr(f.gradient_norm), f.rate, f.finite) for f in figures)
        assert ours == theirs
        assert figures[0].finite == (step != 3)
        assert same_tensors(eager, late)
        if step == 3:
            for of in (eager, late):
                unspoil(of)
    assert {state["step"].item() for state in late.optimizer.state.values()} == {4}


def test_a_run_that_begins_with_a_skip() -> None:
    """The moments are there a step earlier, but zero, and Adam has not begun to count."""
    eager, late = (make_updater(tiny_recipe(ema=0.9)) for _ in range(2))
    late.deferred = True
    for of in (eager, late):
        spoil(of, float("nan"), "loss")
        assert not of.update([batch_of(PAIRS)], 1).finite
        unspoil(of)
        assert of.update([batch_of(PAIRS)], 2).finite
    assert same_tensors(eager, late)


def never(progress: Progress) -> bool:
    return False


def now_and_then(progress: Progress) -> bool:
    return progress.step in (1, 3, 7, 8)


@pytest.mark.parametrize("when", [never, now_and_then, fails_at_6_to_11_unless_slower])
def test_deferred_results_give_the_same_run(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Callable[[Progress], bool]
) -> None:
    break_gradients(monkeypatch, when)
    train_run(texts, tmp_path / "eager", *OVERRIDES)
    monkeypatch.setattr(step_module, "skips_on_device", lambda device: True)
    train_run(texts, tmp_path / "late", *OVERRIDES)
    assert_same_run(tmp_path / "eager", tmp_path / "late")
    assert skipped_steps(tmp_path / "eager") == ([1, 3, 7, 8] if when is now_and_then else [])
    files = {path.name: path.read_bytes() for path in (tmp_path / "eager").glob("skipped/*")}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "late").glob("skipped/*")}
    # stopped at any time, and with figures yet to be read, nothing is lost
    for steps in (2, 5, 7, 10, 11):
        run = tmp_path / f"interrupted-{steps}"
        with monkeypatch.context() as patch:
            interrupt_after(patch, steps)
            assert train_run(texts, run, *OVERRIDES).signal == signal.SIGTERM
        train_run(texts, run, *OVERRIDES)
        assert_same_run(tmp_path / "eager", run)


def test_figures_are_read_when_the_device_has_more_to_do(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    dispatch, synchronized = Updater.dispatch, DispatchedUpdate.synchronized

    def dispatching(of: Updater, *arguments: object) -> DispatchedUpdate:
        said.append(f"dispatch {arguments[1]}")
        return dispatch(of, *arguments)  # type: ignore[arg-type]

    def settling(of: DispatchedUpdate) -> Update:
        said.append(f"read {of.step}")
        return synchronized(of)

    monkeypatch.setattr(step_module, "skips_on_device", lambda device: True)
    monkeypatch.setattr(Updater, "dispatch", dispatching)
    monkeypatch.setattr(DispatchedUpdate, "synchronized", settling)
    train_run(texts, tmp_path / "run", "train.log_every=100", "train.validate_every=3", "train.stop.steps=5")
    assert said == [
        "dispatch 1", "dispatch 2", "read 1", "dispatch 3", "read 2", "read 3",
        "dispatch 4", "dispatch 5", "read 4", "read 5",
    ]  # fmt: skip


class Waiting(TorchDispatchMode):
    """Notes what would make a processor wait for a GPU: to be told numbers, or how large a result is."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        by_mask = name.startswith("aten.index") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in flat(args[1:])
        )
        if by_mask or name in ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"):
            self.said.append(name)
        return function(*args, **(kwargs or {}))


def flat(arguments: Any) -> list[Any]:
    return [item for part in arguments for item in (part if isinstance(part, (list, tuple)) else [part])]


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_dispatch_never_waits_for_the_device(r_drop: float) -> None:
    late = make_updater(tiny_recipe(dropout=0.1, ema=0.9, r_drop=r_drop))
    late.deferred = True
    late.update([batch_of(PAIRS)], 1)
    with Waiting() as waiting:
        late.dispatch([batch_of(PAIRS), batch_of(PAIRS[1:])], 2)
    assert waiting.said == []
    with Waiting() as waiting:
        kept = torch.tensor([True, False])
        (kept[kept], kept.nonzero(), kept[0].item())
    assert len(waiting.said) == 3, "this is how it would show"


def test_host_copy_returns_the_numbers() -> None:
    assert HostCopy(torch.tensor([1.5, float("inf")])).read() == [1.5, float("inf")]
