"""The run directory: what is saved is resumed exactly, damage, full disks, kills, the log, the lock, other recipes."""

import copy
import errno
import html
import json
import os
import re
import resource
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nmt.config import CorpusFile, Data, DecodeSettings, Languages, ModelSettings, Stop, TrainSettings
from nmt.errors import ConfigError, DamagedError, DataError, ModelError
from nmt.model.checkpoint import TorchModel, load_model
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.files import regular_file, write_digested
from nmt.training.progress import PROGRESS_VERSION, IntervalSums, Progress, read_progress
from nmt.training.resume import check_may_continue, check_run_directory, resume
from nmt.training.run import RunDirectory
from nmt.training.update import Updater
from tests.builders import rewrite_configuration, snapshot, tiny_recipe, tiny_tokenizers
from tests.training.runs import same_tensors, train_run
from tests.training.updates import same, state, update

TOKENIZERS = tiny_tokenizers()
PIECES = len(TOKENIZERS.source)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    open_run(directory)
    return directory


def open_run(run: RunDirectory, **changes: object) -> None:
    """Open a run as training does, unless it may not continue with the recipe."""
    recipe = tiny_recipe(run.path).model_copy(update=changes)
    check_may_continue(recipe, run)
    run.open(recipe)
    run.record(recipe, Progress())


def trained(steps: int = 1, seed: int = 1) -> tuple[LoadedModel, Updater]:
    """Return a model and its updater after some updates."""
    torch.manual_seed(seed)
    recipe = tiny_recipe()
    updater = Updater(Transformer(recipe.model, PIECES, PIECES), recipe, torch.device("cpu"))
    for step in range(1, steps + 1):
        update(updater, step)
    languages, model = Languages(source="en", target="it"), updater.model
    return TorchModel(model.settings, TOKENIZERS, languages, DecodeSettings(), 200, in_torch=model), updater


def save(run: RunDirectory, progress: Progress, keep_best: int = 3) -> Path:
    run.save(*trained(), progress, keep_best)
    return run.checkpoint(progress.step)


def test_saved_state_is_resumed_exactly(run: RunDirectory) -> None:
    loaded, updater = trained(3)
    interval = IntervalSums(loss=1 / 3, nll=0.1, gradient_norm=2.5, steps=2, target_tokens=9, seconds=0.7)
    best = [(20.1, 0.1 + 0.2, 2), (1 / 7, 3.0, 3)]
    progress = Progress(4, 1, 3, 7, "x", 1234, 5.25, interval, skipped=1, best=best, validated_at=2)
    run.save(loaded, updater, progress, keep_best=3)
    _, other = trained(0, seed=2)
    assert resume(run, other) == progress
    assert same(state(other), state(updater))
    update(updater, 5)
    update(other, 5)
    assert same(state(other), state(updater))
    opened = load_model(run.path / "last", torch.device("cpu"))
    assert opened.model.output.weight is opened.model.source_embedding.tokens.weight
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "last", "recipe.yaml", "run.json"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "tokenizer.model"])
def test_damaged_checkpoint_is_removed_and_the_previous_one_resumed(run: RunDirectory, name: str) -> None:
    for step in (2, 4):
        save(run, Progress(step=step, best=[(1.0, 1.0, 2)]))
    for step in (4, 2):
        file = run.checkpoint(step) / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        if step == 4:
            warnings: list[str] = []
            assert resume(run, trained(0)[1], warnings.append).step == 2
            assert warnings[0].startswith(f"{file}: damaged")
            assert warnings[0].endswith("; this checkpoint is removed, resuming from step-00000002")
            assert run.saved() == [run.checkpoint(2)]
            assert (run.path / "last").resolve() == run.checkpoint(2).resolve()
    with pytest.raises(DamagedError, match=f"{file}: damaged.*; no checkpoint here is whole: start over with --rest"):
        resume(run, trained(0)[1])
    assert run.saved() == [run.checkpoint(2)]


def test_damaged_best_checkpoint_is_replaced_when_the_run_is_resumed(run: RunDirectory) -> None:
    for step in (2, 4, 6):
        save(run, Progress(step=step, best=[(3.0, 1.0, 2), (2.0, 1.0, 4)]))
    file = run.checkpoint(2) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    warnings: list[str] = []
    assert resume(run, trained(0)[1], warnings.append).step == 6
    assert [warning.endswith("; this checkpoint is removed") for warning in warnings] == [True]
    assert (run.path / "best").resolve() == run.checkpoint(4).resolve()


def test_error_of_the_disk_or_of_permissions_removes_no_checkpoint(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run, Progress(step=2))
    save(run, Progress(step=4))

    def failing(path: str, flags: int) -> int:
        if path.endswith("step-00000004/model.safetensors"):
            raise OSError(errno.EIO, "Input/output error", path)
        return regular_file(path, flags)

    saved = run.saved()
    monkeypatch.setattr("nmt.system.files.regular_file", failing)
    with pytest.raises(DataError, match=r"model\.safetensors: cannot read it: Input/output error"):
        resume(run, trained(0)[1])
    assert run.saved() == saved


def test_checkpoints_before_updates_that_are_not_finite_stay(run: RunDirectory) -> None:
    for step, skipped in ((2, 0), (4, 1), (6, 2)):
        save(run, Progress(step=step, skipped_in_a_row=skipped))
    assert run.saved() == [run.checkpoint(step) for step in (2, 4, 6)]
    save(run, Progress(step=8))
    assert run.saved() == [run.checkpoint(8)]


def test_copy_without_links_is_a_run(run: RunDirectory, tmp_path: Path) -> None:
    save(run, Progress(step=2, best=[(1.0, 1.0, 2)]))
    copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy", symlinks=False))
    assert not (copy.path / "last").is_symlink()
    assert resume(copy, trained(0)[1]).step == 2
    assert (copy.path / "last").readlink() == (copy.path / "best").readlink() == Path("checkpoints/step-00000002")
    restarted = RunDirectory(shutil.copytree(run.path, tmp_path / "restarted", symlinks=False))
    restarted.open(tiny_recipe(restarted.path), restart=True)
    assert not restarted.saved()
    assert not any((restarted.path / name).exists() for name in ("best", "last"))


@pytest.mark.parametrize(
    "content", [{"step": 3}, {"step": "x"}, {"best": [[1]]}, {"epoch": [0]}, {"interval": 1}], ids=str
)
def test_progress_with_wrong_values_is_damage(run: RunDirectory, content: dict[str, object]) -> None:
    file = save(run, Progress(step=2)) / "progress.json"
    write_digested(file, PROGRESS_VERSION, json.loads(file.read_text()) | content)
    with pytest.raises(DamagedError, match=r"progress\.json: damaged: .*start over with --restart"):
        resume(run, trained(0)[1])


def test_checkpoint_without_the_digest_of_its_moments_is_refused(run: RunDirectory) -> None:
    directory = save(run, Progress(step=2))
    files = json.loads((directory / "config.json").read_text())["files"]
    del files["optimizer.safetensors"]
    rewrite_configuration(directory, files=files)
    with pytest.raises(DamagedError, match=r"config\.json: damaged, .* its list of files lacks optimizer\.safetensors"):
        resume(run, trained(0)[1])


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_killed_process_left_in_checkpoints_is_removed(run: RunDirectory, restart: bool) -> None:
    """Files of the user with similar names, or elsewhere, are kept."""
    left = [".tmpAb12Cd", ".config.json.0123abcd.partial", ".progress.json.0123abcd.partial"]
    mine = [".tmp", ".tmpAb12Cd.txt", ".notes.txt.0123abcd.partial", "notes.txt"]
    for step in (1, 2):
        save(run, Progress(step=step, best=[(1.0, 1.0, 1)]))
    (run.checkpoint(2) / "config.json").unlink()
    for folder in (run.checkpoint(1), run.checkpoint(2), run.path):
        for name in [*left, *mine]:
            (folder / name).write_text("x")
    kept = {path.name for path in run.checkpoint(1).iterdir()} - set(left)
    (run.path / ".run.json.0123abcd.partial").write_text("x")
    (run.path / ".valid.txt.0123abcd.partial").write_text("x")
    (run.path / ".best.0123abcd.partial").symlink_to("checkpoints/step-00000001")
    run.open(tiny_recipe(run.path), restart)
    assert not any(path.name.startswith((".run.json.", ".valid.txt.", ".best.")) for path in run.path.iterdir())
    assert {path.name for path in run.checkpoint(1).iterdir()} == (set(mine) if restart else kept)
    assert {path.name for path in run.checkpoint(2).iterdir()} == set(mine)
    assert {*left, *mine} <= {path.name for path in run.path.iterdir()}


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl"])
def test_file_of_a_run_that_is_a_link_or_a_pipe_is_refused(run: RunDirectory, name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for make in (lambda path: path.symlink_to(tmp_path / "mine"), os.mkfifo):
        (run.path / name).unlink(missing_ok=True)
        make(run.path / name)
        with (
            pytest.raises(
                DataError, match=rf"cannot write it: .*({name} is a symbolic|{name} is not a reg|No such dev)"
            ),
            run.locked(),
        ):
            run.log({"type": "train", "step": 1})
        if name == "metrics.jsonl":
            with pytest.raises(DataError, match=r"metrics\.jsonl: cannot write it: .* regular file"):
                open_run(run)
        assert (tmp_path / "mine").read_text() == "mine"


def test_folder_of_a_start_that_was_killed_is_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe(tmp_path / "run")
    killed = recipe.model_copy(update={"train": recipe.train.model_copy(update={"tensorboard": True})})

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nmt.training.run.TensorBoard", kill)  # to import it takes seconds
    with pytest.raises(KeyboardInterrupt):
        RunDirectory(recipe.run).open(killed)
    check_run_directory(recipe)


def test_other_links_of_a_run_are_replaced_and_never_followed(run: RunDirectory, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("recipe.yaml", "run.json", "valid.txt", "progress.json", "config.json"):
        (other / name).write_text("mine")
    before = snapshot(other)
    for name in ("recipe.yaml", "run.json", "valid.txt"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(other / name)
    run.checkpoints.mkdir(exist_ok=True)
    run.checkpoint(1).symlink_to(other)
    run.open(tiny_recipe(run.path), restart=True)
    run.write_translations("valid.txt", [["uno"]])
    (run.path / "best").symlink_to(other)
    run.checkpoint(1).mkdir()
    (run.checkpoint(1) / "progress.json").symlink_to(other / "progress.json")
    save(run, Progress(step=1))
    assert resume(run, trained(0)[1]).step == 1
    assert snapshot(other) == before
    assert run.best == run.path / "last"


def test_full_disk_is_an_error_and_keeps_the_last_checkpoint_and_the_log(run: RunDirectory) -> None:
    """Where the disk is full, a file may not grow; here, no file may grow beyond some bytes."""
    save(run, Progress(step=1))
    run.log({"type": "train", "step": 1})
    limit, largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size, work, file in (
        (2000, lambda: save(run, Progress(step=2)), run.checkpoint(2)),
        (40, lambda: run.log({"type": "train", "step": 2}), run.metrics),
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, largest))
        try:
            with pytest.raises(
                DataError, match=f"{re.escape(str(file))}: cannot write it: .*File too large.*; name another"
            ):
                work()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, largest))
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000001"]
    open_run(run)
    run.log({"type": "train", "step": 2})
    records = [json.loads(line) for line in run.metrics.read_text().splitlines() if line.endswith("}")]
    assert [record["step"] for record in records] == [1, 2]
    assert resume(run, trained(0)[1]).step == 1


def test_only_the_best_and_the_newest_checkpoint_are_kept(run: RunDirectory) -> None:
    """Files of the user in a checkpoint that is removed are kept, and so is a checkpoint that a kill left unfinished
    not."""
    best = [(0.9, 1.0, 2), (0.8, 1.0, 4), (0.7, 1.0, 1)]
    run.checkpoint(9).mkdir()
    (run.checkpoint(9) / "model.safetensors").write_text("half")
    open_run(run)
    for step in range(1, 7):
        save(run, Progress(step=step, best=[entry for entry in best if entry[2] <= step]), keep_best=2)
        (run.checkpoint(step) / "notes.txt").write_text("mine")
    assert [int(path.name[5:]) for path in run.saved()] == [2, 4, 6]
    assert {name: os.readlink(run.path / name)[-1] for name in ("best", "last")} == {"best": "2", "last": "6"}
    assert [path.name for path in run.checkpoint(5).iterdir()] == ["notes.txt"]
    assert not run.checkpoint(9).exists()


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs tensorboard: pip install tensorboard")
def test_tensorboard_shows_the_numbers_of_the_log(run: RunDirectory) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in ((1, 2, 3), (3, 4)):
        board = RunDirectory(run.path)  # each training begins a file
        board.open(tiny_recipe(run.path, tensorboard=True))
        for step in steps:
            board.log({"type": "train", "step": step, "loss": step / len(steps), "name": "text"})
        save(run, Progress(step=2))  # where the second training begins
    assert board.board is not None
    board.board.log_test(tiny_recipe(run.path), {"bleu": 41.5})
    reader = EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert reader.Tags()["scalars"] == ["train/loss", "test/bleu"]
    assert reader.Scalars("test/bleu")[0].value == 41.5
    texts = reader.Tensors("recipe/text_summary")[0].tensor_proto.string_val
    assert f"    seed: {tiny_recipe(run.path).seed}\n".encode() in texts[0]
    settings = reader.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    assert b"train.schedule.rate" in settings
    assert reader.PluginTagToContent("custom_scalars")
    curve = [(event.step, round(event.value, 4)) for event in reader.Scalars("train/loss")]
    assert curve == [(1, 0.3333), (2, 0.6667), (3, 1.5), (4, 2.0)]


def test_tensorboard_does_not_follow_a_link(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    run.path.mkdir(exist_ok=True)
    (run.path / "tensorboard").symlink_to(tmp_path / "mine")
    with pytest.raises(ConfigError, match="tensorboard: expected a folder, found a symbolic link"):
        run.open(tiny_recipe(run.path, tensorboard=True))
    assert not list((tmp_path / "mine").iterdir())


class RecordingWriter(dict[tuple[str, str], dict[int, Any]]):
    """A writer of TensorBoard that keeps what it is given, by kind and name, then by step."""

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Has no name and no step."""

    def __getattr__(self, kind: str) -> Any:
        return lambda name="", value=None, step=0: self.setdefault((kind, name), {}).update({step: copy.copy(value)})


def test_tensorboard_has_samples_tensors_and_attention(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training stays as it is."""
    written = RecordingWriter()
    writers = SimpleNamespace(SummaryWriter=lambda *_, **__: written)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", writers)
    monkeypatch.setattr("nmt.commands.train.find_spec", lambda name: name)
    train_run(texts, tmp_path / "run", "train.tensorboard=all")
    assert same_tensors(uninterrupted, tmp_path / "run")
    samples = written["add_text", "validation/samples"]
    source, reference, translation = map(html.unescape, samples[12].split("  \n"))
    assert f"{source}\t{reference}\n" in (texts / "valid.tsv").read_text()
    loaded = load_model(tmp_path / "run" / "last", torch.device("cpu"))
    for name, weight in loaded.model.named_parameters():
        assert torch.equal(written["add_histogram", f"weights/{name}"][12], weight)
        assert written["add_histogram", f"gradients/{name}"].keys() == samples.keys() == {4, 8, 12}
    rows, columns = (1 + len(loaded.tokenizers.source.encode(text)) for text in (translation, source))
    image = written["add_image", "validation/attention"][12][0, ::8, ::8]
    torch.testing.assert_close(image.view(rows, 2, columns).sum(2), torch.ones(rows, 2), msg="one layer, two heads")


def test_run_that_is_being_trained_is_refused(run: RunDirectory) -> None:
    with run.locked(), pytest.raises(ModelError, match=f"process {os.getpid()} on .* is training here; stop it, or"):
        run.locked().__enter__()


def test_changed_recipe_is_refused_with_all_differences(run: RunDirectory) -> None:
    save(run, Progress(step=1))
    plain = tiny_recipe()
    free = {"stop": Stop(steps=7, hours=1.5), "log_every": 3, "validate_every": 4, "keep_best": 9}
    test = Data(train=plain.data.train, test=(CorpusFile(file=Path("/text/test.tsv")),))
    open_run(run, train=plain.train.model_copy(update=free), data=test, decode=DecodeSettings(beam=2))
    assert "beam: 2" in run.recipe.read_text()
    texts = (CorpusFile(file=Path("/text/moved.tsv"), oversample=2.0), CorpusFile(file=Path("/text/train.tsv")))
    changes = {"seed": 7, "model": ModelSettings(dim=256, heads=4), "data": Data(train=texts)}
    with pytest.raises(ConfigError) as caught:
        open_run(run, **changes, train=TrainSettings(label_smoothing=0.0, log_every=3))
    head, *differing, advice, may_change = str(caught.value).split("\n")
    assert head == f"{run.path}: this run was started with another recipe:"
    for line in (
        "  data.train.0.oversample: was 1.0, now 2.0",
        "  data.train.1.oversample: was null, now 1.0",
        "  model.dim: was 8, now 256",
        "  train.label_smoothing: was 0.1, now 0.0",
        '  train.schedule.name: was "constant", now "noam"',
        "  seed: was 1, now 7",
    ):
        assert line in differing
    assert not any("log_every" in line or "file" in line for line in differing)
    assert "--restart" in advice
    assert "train.log_every" in may_change
    assert "beam: 2" in run.recipe.read_text()


def test_rank_that_does_not_find_the_checkpoint_is_an_error(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "on_rank_zero", lambda work: run.checkpoint(100))
    monkeypatch.setattr(distributed, "_SECONDS_OF_DISK", 0.0)
    with pytest.raises(ModelError, match=r"step-00000100/config.json: rank 0 does not find .* on a disk that all"):
        resume(run, trained(0)[1])


def test_progress_of_many_validations_can_be_read(run: RunDirectory) -> None:
    """It keeps the best thousand; a file of far more than these is refused."""
    progress = Progress(step=20_000, best=[(100.0 - step / 1000, 3.14159265, step) for step in range(19_000)])
    assert not progress.record_validation(50.0, 2.0)
    directory = save(run, progress)
    assert read_progress(directory).best == [(100.0 - step / 1000, 3.14159265, step) for step in range(1000)]
