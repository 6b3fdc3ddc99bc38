"""TensorBoard: the curves, also after a rollback."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.training import run_log as module
from nmt.training.run_log import TensorBoard

needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="needs tensorboard: pip install tensorboard"
)


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves: dict[str, list[tuple[int, float]]] = {}
    # one accumulator over the whole folder, as the program has
    reader = EventAccumulator(str(folder)).Reload()
    for tag in reader.Tags()["scalars"]:
        curves[tag] = [(event.step, round(event.value, 4)) for event in reader.Scalars(tag)]
    return curves


def train_record(step: int, loss: float) -> dict[str, object]:
    return {"type": "train", "step": step, "loss": loss, "note": "text", "rate": 0.5}


@needs_tensorboard
def test_records_are_written_as_curves(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "tensorboard")
    board.truncate(0)
    for step in (1, 2):
        board.append(train_record(step, step / 2))
    board.append({"type": "validation", "step": 2, "bleu": 12.5})
    assert shown(tmp_path / "tensorboard") == {
        "train/loss": [(1, 0.5), (2, 1.0)],
        "train/rate": [(1, 0.5), (2, 0.5)],
        "validation/bleu": [(2, 12.5)],
    }


@needs_tensorboard
def test_repeated_steps_replace_earlier_ones(tmp_path: Path) -> None:
    """Training continues from the checkpoint of step 2 after step 4, in the same process or in another one."""
    first, second = TensorBoard(tmp_path / "a"), TensorBoard(tmp_path / "a")
    first.truncate(0)
    for step in (1, 2, 3, 4):
        first.append(train_record(step, 1.0))
    for board, loss in ((first, 2.0), (second, 3.0)):
        board.truncate(2)
        for step in (3, 4):
            board.append(train_record(step, loss))
        assert shown(tmp_path / "a")["train/loss"] == [(1, 1.0), (2, 1.0), (3, loss), (4, loss)]


@needs_tensorboard
def test_no_file_is_written_before_the_first_record(tmp_path: Path) -> None:
    TensorBoard(tmp_path / "a").truncate(5)
    assert not (tmp_path / "a").exists()


def test_missing_tensorboard_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"train.tensorboard: .* not installed; run: pip install tensorboard "):
        TensorBoard(tmp_path / "a")
