"""`nmt average`: the mean of the weights of the chosen checkpoints, and refusals."""

import json
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nmt.cli import app
from nmt.commands.average import average, mean
from nmt.config import (
    CorpusFile,
    Data,
    DecodeSettings,
    Languages,
    MaxLength,
    ModelSettings,
    Recipe,
    TokenizerSettings,
    TrainSettings,
)
from nmt.errors import ConfigError, ModelError
from nmt.model.checkpoint import TorchModel, load_model
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.system.files import write_digested
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.training.progress import PROGRESS_VERSION, Progress
from nmt.training.run import RunDirectory
from nmt.training.update import Updater
from tests.builders import save_model, snapshot

QUIET = Console(quiet=True)
CPU = torch.device("cpu")
SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8)
LINES = ["il gatto dorme", "la casa è rossa", "the cat sleeps", "the house is red"] * 5


def tokenizers(lines: list[str]) -> Tokenizers:
    shared = Tokenizer.train(lines, TokenizerSettings(vocab_size=296, type="bpe"))
    return Tokenizers(shared, shared)


TOKENIZERS = tokenizers(LINES)


def model(seed: int, shape: ModelSettings = SHAPE, pieces: Tokenizers = TOKENIZERS, start: int = 0) -> LoadedModel:
    """A model whose random weights of the seed `start` were changed a little, as by a training."""
    torch.manual_seed(start)
    languages, transformer = Languages(source="en", target="it"), Transformer(shape, *[len(pieces.source)] * 2)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in transformer.parameters():
            weight += 0.1 * weight.std() * torch.randn_like(weight)
    return TorchModel(shape, pieces, languages, DecodeSettings(), 200, in_torch=transformer)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has three of five checkpoints, whose weights are those of the seeds 1 to 5, two of them the best."""
    path = tmp_path_factory.mktemp("runs") / "run"
    directory = RunDirectory(path)
    data = Data(train=(CorpusFile(file=Path("/text/train.tsv")),))
    train = TrainSettings(keep_best=2)
    recipe = Recipe(languages=Languages(source="en", target="it"), data=data, run=path, train=train)
    directory.open(recipe)
    best = [(0.9, 1.0, 2), (0.8, 1.0, 1), (0.7, 1.0, 5), (0.6, 1.0, 3)]
    for step in range(1, 6):
        loaded = model(step)
        progress = Progress(step=step, best=best)
        directory.save(loaded, Updater(loaded.model, recipe, CPU), progress, 3)
        if step == 3:  # with a file of the user, the folder of a removed checkpoint stays
            (directory.checkpoint(step) / "notes.txt").touch()
    return path


def assert_mean_of(seeds: list[int], directory: Path) -> None:
    found = load_model(directory, CPU)
    others = [dict(model(seed).model.named_parameters()) for seed in seeds]
    for name, weight in found.model.named_parameters():
        expected = torch.stack([other[name].detach().double() for other in others]).mean(0).float()
        assert torch.equal(weight, expected), name


@pytest.mark.parametrize(
    ("last", "best", "seeds"),
    [(2, None, [2, 5]), (None, 3, [2, 1, 5]), (None, None, [2, 1])],  # the newest one is kept, but not of the best
)
def test_average_of_a_run_is_the_mean_of_its_checkpoints(
    run: Path, tmp_path: Path, last: int | None, best: int | None, seeds: list[int]
) -> None:
    average([run], tmp_path / "model", QUIET, last, best)
    assert_mean_of(seeds, tmp_path / "model")
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    assert {Path(name).name for name in content["averaged_from"]} == {f"step-{seed:08d}" for seed in seeds}
    assert sorted(content["files"]) == ["model.safetensors", "tokenizer.model"]


def test_average_has_the_largest_limits_of_its_models(tmp_path: Path) -> None:
    limits = ((None, 7), (MaxLength(factor=3.0, extra=2), 9), (MaxLength(factor=1.5, extra=20), 8))
    for number, (limit, longest) in enumerate(limits):
        decode = DecodeSettings(max_length=limit)
        save_model(tmp_path / f"{number}", replace(model(number), decode=decode, longest_source=longest))
    for order in permutations(range(3)):
        found = mean([tmp_path / f"{number}" for number in order])
        assert (found.decode.max_length, found.longest_source) == (MaxLength(factor=3.0, extra=20), 9)
    assert mean([tmp_path / "0"] * 2).decode.max_length is None


def test_average_of_models_is_the_mean_of_their_weights(run: Path, tmp_path: Path) -> None:
    """A run is averaged as its best checkpoint."""
    save_model(tmp_path / "a", model(7))
    other = SHAPE.model_copy(update={"dropout": 0.5})  # the same weights, trained with dropout
    save_model(tmp_path / "b", model(8, other))
    average([tmp_path / "a", tmp_path / "b", run], tmp_path / "model", QUIET, None, None)
    assert_mean_of([7, 8, 2], tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dim": 16}, r"b: model.dim is 16, but 8 in .*a; average models of one shape"),
        ({"norm": "post"}, r"b: model.norm is post, but pre in .*a"),
    ],
)
def test_other_shapes_are_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    save_model(tmp_path / "a", model(1))
    save_model(tmp_path / "b", model(1, SHAPE.model_copy(update=changes)))
    with pytest.raises(ModelError, match=problem):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "model", QUIET, None, None)
    assert not (tmp_path / "model").exists()


def test_other_languages_are_refused(tmp_path: Path) -> None:
    other = replace(model(2), languages=Languages(source="en", target="fr"))
    for name, loaded in (("a", model(1)), ("b", other)):
        save_model(tmp_path / name, loaded)
    with pytest.raises(
        ModelError, match=r"b: its languages are en → fr, but en → it in .*a; average models of the same"
    ):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "model", QUIET, None, None)


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "a", model(1))
    save_model(tmp_path / "b", model(1, pieces=tokenizers([line[::-1] for line in LINES])))
    with pytest.raises(ModelError, match=r"b: its tokenizer differs from that of .*a"):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "model", QUIET, None, None)


def test_models_of_unrelated_trainings_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "a", model(1))
    save_model(tmp_path / "b", model(1, start=1))
    with pytest.raises(ModelError, match=r"b: its weights and those of .*a have a cosine of -?0\.0\d, so they were"):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "model", QUIET, None, None)
    assert not (tmp_path / "model").exists()


def test_too_few_checkpoints_are_refused(run: Path, tmp_path: Path) -> None:
    for last, best, problem in (
        (9, None, r"run: found 3 such checkpoints, expected 9; train.keep_best sets"),
        (None, 4, r"run: found 3 such checkpoints, expected 4; train.keep_best sets"),
    ):
        with pytest.raises(ConfigError, match=problem):
            average([run], tmp_path / "model", QUIET, last, best)
    save_model(tmp_path / "a", model(1))
    with pytest.raises(ConfigError, match=r"a: expected a run with checkpoints, found none; give a run"):
        average([tmp_path / "a"], tmp_path / "model", QUIET, None, None)


def test_contradicting_options_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--last and --best: give one of them"):
        average([run], tmp_path / "model", QUIET, 2, 2)
    with pytest.raises(ConfigError, match="choose among the checkpoints of one run"):
        average([run, run], tmp_path / "model", QUIET, 2, None)


def test_existing_folder_is_not_replaced(run: Path, tmp_path: Path) -> None:
    average([run], tmp_path / "model", QUIET, 1, None)
    before = snapshot(tmp_path)
    steps = run / "checkpoints"
    for output in (tmp_path / "model", run, run / "last", steps / "step-00000005", steps / "step-00000099"):
        with pytest.raises(
            ConfigError, match=r"expected a new or an empty folder, but it holds|a training that is resum"
        ):
            average([run], output, QUIET, 2, None)
    assert snapshot(tmp_path) == before


def test_run_without_validation_has_no_best_checkpoint(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy, symlinks=True)
    for file in copy.glob("checkpoints/*/progress.json"):
        write_digested(file, PROGRESS_VERSION, json.loads(file.read_text()) | {"best": []})
    with pytest.raises(ConfigError, match=r"no checkpoint is the best, since .*data\.valid.*--last N"):
        average([copy], tmp_path / "model", QUIET, None, None)
    average([copy], tmp_path / "model", QUIET, 2, None)
    assert_mean_of([2, 5], tmp_path / "model")


def test_the_command_writes_a_model(run: Path, tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["average", str(run), "-o", str(tmp_path / "model"), "--last", "2"])
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert_mean_of([2, 5], tmp_path / "model")
    outcome = CliRunner().invoke(app, ["average", str(run), "-o", str(tmp_path / "model"), "--last", "9"])
    assert outcome.exit_code == 2
