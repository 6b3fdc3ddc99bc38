"""A flipped bit in any file of a checkpoint or a model gives an error that names the file, or changes nothing."""

import random
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from nmt.errors import DamagedError, NMTError
from nmt.report.run_records import RunRecords
from nmt.system.files import write_digested
from nmt.text.tokenizer import Tokenizers
from nmt.training.optimizer import initial_model
from nmt.training.progress import PROGRESS_FILE, PROGRESS_VERSION, Progress, read_progress
from nmt.training.resume import resume
from nmt.training.run import RunDirectory
from nmt.training.update import Updater
from nmt.translation.translator import Translator
from tests.builders import recipe_in, reversal_pairs, translated_texts, write_tsv
from tests.training.runs import train_run
from tests.training.updates import same, state

FLIPS = 12  # in each file; all its bits would be tens of millions
MODEL_FILES = ["config.json", "model.safetensors", "tokenizer.model"]
CPU = torch.device("cpu")
LINES = [source for source, _ in reversal_pairs(4, seed=9)]


def flip(file: Path, choose: random.Random) -> str:
    """Flip a bit of a file in place; return the byte and bit, for the message of a failed test."""
    content = bytearray(file.read_bytes())
    # half of the places are at the start, which has the structure of all formats
    byte, bit = choose.randrange(choose.choice([min(400, len(content)), len(content)])), choose.randrange(8)
    content[byte] ^= 1 << bit
    file.write_bytes(content)
    return f"{file.name}: bit {bit} of byte {byte}"


def translations(directory: Path) -> list[str]:
    return translated_texts(Translator.load(directory, device="cpu", threads=1), LINES, beam=2)


@pytest.fixture(scope="module")
def undamaged(uninterrupted: Path) -> list[str]:
    return translations(uninterrupted / "best")


@pytest.mark.parametrize("name", MODEL_FILES)
def test_model_with_a_flipped_bit_translates_the_same_or_is_refused(
    uninterrupted: Path, undamaged: list[str], tmp_path: Path, name: str
) -> None:
    choose, refused = random.Random(name), 0
    for number in range(FLIPS):
        model = tmp_path / f"{number}"
        shutil.copytree(uninterrupted / "best", model)
        place = flip(model / name, choose)
        try:
            message, result = "", translations(model)
        except NMTError as error:
            message, result = str(error), undamaged
        assert result == undamaged, place
        assert not message or str(model / name) in message, place
        refused += bool(message)
    assert refused >= FLIPS // 2  # a flipped bit of white space may change nothing


def resumed(run: Path, texts: Path, warnings: list[str]) -> tuple[Progress, list[torch.Tensor]]:
    """Return the progress, and the weights and moments, with which a training of the run goes on."""
    updater = Updater(initial_model(recipe_in(texts), Tokenizers.load(texts / "prepared")), recipe_in(texts), CPU)
    return resume(RunDirectory(run), updater, warnings.append), state(updater)


@pytest.mark.parametrize("name", [*MODEL_FILES, "optimizer.safetensors", "progress.json"])
def test_run_with_a_flipped_bit_resumes_the_same_or_from_the_checkpoint_before(
    uninterrupted: Path, texts: Path, tmp_path: Path, name: str
) -> None:
    newest, before = list(reversed(RunDirectory(uninterrupted).saved()))[:2]
    expected, choose, skipped = {}, random.Random(name), 0
    for number in range(-2, FLIPS):
        run = tmp_path / f"{number}"
        shutil.copytree(uninterrupted, run, symlinks=True)
        file, warnings, place = run / "checkpoints" / newest.name / name, list[str](), ""
        if number == -2:
            shutil.rmtree(file.parent)
        elif number >= 0:
            place = flip(file, choose)
        progress, tensors = resumed(run, texts, warnings)
        if number < 0:
            expected[progress.step] = progress, tensors
            continue
        assert progress.step == int((before if warnings else newest).name[-8:]), place
        assert all(str(file) in warning for warning in warnings), place
        assert progress == expected[progress.step][0], place
        assert same(tensors, expected[progress.step][1]), place
        skipped += len(warnings)
    assert skipped >= FLIPS // 2


def test_run_whose_checkpoints_are_all_damaged_is_refused(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted, tmp_path / "run", symlinks=True)
    for directory in RunDirectory(tmp_path / "run").saved():
        flip(directory / "model.safetensors", random.Random(1))
    with pytest.raises(DamagedError, match=r"model\.safetensors: damaged: .*start over with --restart"):
        resumed(tmp_path / "run", texts, [])


def test_a_damaged_best_checkpoint_leaves_no_scores(texts: Path, tmp_path: Path) -> None:
    """Those of a model that is gone must not be reported as those of the next best one."""
    write_tsv(tmp_path / "test.tsv", reversal_pairs(8, 5))
    run, overrides = tmp_path / "run", [f"data.test={{file: {tmp_path / 'test.tsv'}}}", "train.keep_best=2"]
    train_run(texts, run, *overrides)
    progress, (damaged, newest) = read_progress(run / "last"), RunDirectory(run).saved()
    before = progress.best = sorted(progress.best, key=lambda entry: entry[-1])  # as if the older one was better
    write_digested(newest / PROGRESS_FILE, PROGRESS_VERSION, asdict(progress))
    flip(damaged / "model.safetensors", random.Random(1))
    (run / "test.json").write_text((run / "test.json").read_text().replace('"value": ', '"value": 1'))
    train_run(texts, run, *overrides)
    assert RunDirectory(run).saved() == [newest]
    after, found = read_progress(run / "last").best, RunRecords(run)
    assert after == [entry for entry in before if entry[-1] == progress.step]
    assert found.best is not None
    assert found.best["step"] == int((run / "best").resolve().name[-8:]) == after[0][-1]
    assert all(score["value"] <= 100 for score in found.test_scores), "measured anew"
    assert not (run / "valid.txt").exists()
