"""The choice of bf16 on a CPU, and trainings that compute in it."""

from pathlib import Path

import pytest
import torch

from nmt.commands.train import train
from nmt.config import ModelSettings, RuntimeSettings, load_recipe
from nmt.model.kernels import kernels
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.training import auto_precision
from nmt.training.auto_precision import bf16_gain
from nmt.training.step import Updater
from nmt.translation.translator import Translator
from tests.builders import batch_of, tiny_recipe, write_reversal_task
from tests.training.runs import interrupt_at, same_tensors

RUNTIME = {"device": "cpu", "threads": 1}


def recorded_precision(folder: Path) -> str:
    return load_recipe(folder / "run" / "recipe.yaml").runtime.precision


@pytest.mark.parametrize(("gain", "chosen"), [(0.0, "fp32"), (1.1, "fp32"), (1.7, "bf16")])
def test_bf16_is_chosen_where_it_is_faster_and_kept_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gain: float, chosen: str
) -> None:
    recipe = write_reversal_task(tmp_path, changes={"runtime": RUNTIME})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auto_precision, "bf16_gain", lambda model: gain)
    train(load_recipe(recipe, ["train.stop.steps=1"]), Console())
    assert recorded_precision(tmp_path) == chosen
    message = "runtime.precision: auto is bf16, whose matrix products are 1.7 times as fast as in fp32"
    assert (message in capsys.readouterr().err) == (chosen == "bf16")
    # as if resumed on another machine
    monkeypatch.setattr(auto_precision, "bf16_gain", lambda model: 1.7 - gain)
    train(load_recipe(recipe, ["train.stop.steps=2"]), Console())
    assert recorded_precision(tmp_path) == chosen
    assert ("auto is bf16, as recorded in" in capsys.readouterr().err) == (chosen == "bf16")
    train(load_recipe(recipe, ["train.stop.steps=1"]), Console(), restart=True)
    assert recorded_precision(tmp_path) == ("bf16" if 1.7 - gain >= 1.2 else "fp32")


@pytest.mark.parametrize(("native", "dim"), [(False, 512), (True, 64)])
def test_gain_is_zero_where_bf16_is_emulated_and_for_narrow_models(
    monkeypatch: pytest.MonkeyPatch, native: bool, dim: int
) -> None:
    monkeypatch.setattr(kernels, "has_bf16", native, raising=False)
    assert bf16_gain(ModelSettings(dim=dim)) == 0


def test_gain_is_the_ratio_of_the_fastest_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fp32 product takes 6 seconds at best, the bf16 product 4."""
    monkeypatch.setattr(kernels, "has_bf16", True, raising=False)
    durations = iter([9.0, 8.0, 6.0, 4.0] + [7.0, 5.0] * 6)
    now = 0.0

    def thread_time() -> float:
        nonlocal now, running
        now += next(durations) if running else 1.0
        running = not running
        return now

    running = False
    monkeypatch.setattr("nmt.training.auto_precision.time.thread_time", thread_time)
    assert bf16_gain(ModelSettings(dim=128)) == 6 / 4


def test_bf16_training_learns_resumes_bit_for_bit_and_translates_as_nmt_translate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "runtime": {**RUNTIME, "precision": "bf16"},
        "data": {"train": [{"tsv": "train.tsv"}], "valid": {"tsv": "valid.tsv"}, "test": {"tsv": "test.tsv"}},
        "model": {"encoder_layers": 1, "decoder_layers": 1, "dim": 32, "heads": 2, "feed_forward": 64, "dropout": 0.1},
    }
    recipe = write_reversal_task(tmp_path, changes=changes)
    monkeypatch.chdir(tmp_path)
    updates: list[float] = []
    dispatch = Updater.dispatch

    def recorded(updater: Updater, *arguments: object) -> object:
        update = dispatch(updater, *arguments)  # type: ignore[arg-type]
        finished = update.synchronized()
        updates.append(finished.loss / finished.target_tokens)
        return update

    monkeypatch.setattr(Updater, "dispatch", recorded)
    train(load_recipe(recipe, ["train.stop.steps=40"]), Console())
    assert updates[-1] < 0.9 * updates[0]
    with monkeypatch.context() as patch:
        interrupt_at(patch, 13)
        train(load_recipe(recipe, ["train.stop.steps=40", "run=again"]), Console())
    train(load_recipe(recipe, ["train.stop.steps=40", "run=again"]), Console())
    assert same_tensors(tmp_path / "run", tmp_path / "again")

    sources = [line.split("\t")[0] for line in (tmp_path / "test.tsv").read_text().splitlines()]
    translations = [translation.text for translation in Translator.load(tmp_path / "run").translate(sources)]
    assert (tmp_path / "run" / "test.txt").read_text().splitlines() == translations


def test_bf16_update_equals_fp32_update_up_to_rounding() -> None:
    batch = batch_of([([5, 6, 7], [8, 9]), ([6, 5], [7, 7, 5, 6])])
    updates = []
    for precision in ("fp32", "bf16"):
        recipe = tiny_recipe().model_copy(update={"runtime": RuntimeSettings(device="cpu", precision=precision)})
        torch.manual_seed(1)
        updates.append(Updater(Transformer(recipe.model, 11, 11), recipe, torch.device("cpu")).update([batch], 1))
    in_fp32, in_bf16 = updates
    assert in_bf16.loss != in_fp32.loss
    assert in_bf16.loss == pytest.approx(in_fp32.loss, rel=0.02)
    assert in_bf16.gradient_norm == pytest.approx(in_fp32.gradient_norm, rel=0.05)
