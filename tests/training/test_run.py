"""The run directory: saving, resuming, refusals, and removal of old checkpoints."""

import contextlib
import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from nmt.config import (
    CorpusFile,
    Data,
    DecodeSettings,
    Languages,
    ModelSettings,
    Recipe,
    Stop,
    TokenizerSettings,
    TrainSettings,
)
from nmt.errors import ConfigError, DamagedError, DataError, ModelError
from nmt.model.checkpoint import LoadedModel, load_model
from nmt.model.transformer import Transformer
from nmt.system.files import replace_link
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.training.optimizer import optimizer_tensors
from nmt.training.progress import Adjustments, IntervalSums, Progress, read_progress
from nmt.training.resume import check_may_continue, resume
from nmt.training.run import RunDirectory
from nmt.training.step import Updater
from tests.builders import record_digests

LINES = ["il gatto dorme", "la casa è rossa", "the cat sleeps", "the house is red"] * 5
SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8)


def recipe(run: Path, **changes: object) -> Recipe:
    plain = Recipe(
        name="test",
        languages=Languages(source="en", target="it"),
        data=Data(train=(CorpusFile(tsv=Path("/text/train.tsv")),)),
        run=run,
    )
    return plain.model_copy(update=changes)


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    shared = Tokenizer.train(LINES, TokenizerSettings(vocab_size=40, byte_fallback=False, type="bpe"))
    return Tokenizers(shared, shared)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    open_run(directory, recipe(directory.path))
    return directory


def open_run(run: RunDirectory, recipe: Recipe) -> None:
    """Open a run as training does, unless it may not continue with the recipe."""
    check_may_continue(recipe, run)
    run.open(recipe)


def trained(tokenizers: Tokenizers, steps: int = 3, seed: int = 1) -> tuple[LoadedModel, Updater]:
    """Return a model and its updater after some steps on random data."""
    torch.manual_seed(seed)
    model = Transformer(SHAPE, 40, 40)
    updater = Updater(model, recipe(Path("run"), model=SHAPE), torch.device("cpu"))
    for _ in range(steps):
        model.logits(model([torch.randint(4, 40, (2, 5))], [None], [torch.randint(4, 40, (2, 4))])).pow(
            2
        ).sum().backward()
        updater.apply_gradients(0.01)
        updater.optimizer.zero_grad()
    return LoadedModel(model, tokenizers, Languages(source="en", target="it"), DecodeSettings()), updater


def links(run: RunDirectory) -> dict[str, str]:
    return {name: os.readlink(run.path / name) for name in ("best", "last") if (run.path / name).is_symlink()}


def test_saved_state_is_resumed_exactly(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    interval = IntervalSums(
        loss=1 / 3, likelihood=0.1, gradient_norm=2.5, steps=2, target_tokens=9, padded_target_tokens=11, seconds=0.7
    )
    progress = Progress(
        3, 1, 2, 7, 1234, 5.25, 2, 1, [(20.1, 2), (1 / 7, 3)], interval, "x", Adjustments(0.5, 99), 0, 3, 2, 1, 0.7
    )
    directory = run.save(loaded, updater, progress)
    assert directory == run.path / "checkpoints" / "step-00000003"

    other, fresh = trained(tokenizers, steps=0, seed=2)
    assert resume(run, fresh) == progress
    ours, theirs = dict(loaded.model.named_parameters()), dict(other.model.named_parameters())
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert other.model.output.weight is other.model.source_embedding.tokens.weight
    assert (
        optimizer_tensors(updater.optimizer, loaded.model).keys()
        == optimizer_tensors(fresh.optimizer, other.model).keys()
    )
    for name, parameter in ours.items():
        before, after = updater.optimizer.state[parameter], fresh.optimizer.state[theirs[name]]
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in before)


def test_checkpoint_is_a_model_directory(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    directory = run.save(loaded, updater, Progress(step=3))
    opened = load_model(directory, torch.device("cpu"))
    assert torch.equal(opened.model.output.weight, loaded.model.output.weight)
    assert links(run) == {"last": "checkpoints/step-00000003"}
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "last", "recipe.yaml", "run.json"]


def test_marker_records_the_environment_of_the_last_start(run: RunDirectory) -> None:
    marker = json.loads((run.path / "run.json").read_text())
    assert marker["environment"]["torch"] == version("torch")
    assert marker["environment"]["threads"] == torch.get_num_threads()
    assert marker["environment"]["device"].startswith("cpu")
    (run.path / "run.json").write_text(json.dumps(marker | {"environment": {"torch": "1.0"}}))
    run.open(recipe(run.path))
    assert json.loads((run.path / "run.json").read_text()) == marker


def test_moved_run_keeps_its_links(run: RunDirectory, tokenizers: Tokenizers, tmp_path: Path) -> None:
    loaded, updater = trained(tokenizers)
    run.save(loaded, updater, Progress(step=3, best=[(1.0, 3)]))
    moved = RunDirectory(run.path.rename(tmp_path / "elsewhere"))
    assert (moved.path / "best" / "config.json").is_file()
    assert (moved.path / "last" / "config.json").is_file()


def test_run_without_checkpoints_starts_with_an_empty_log(run: RunDirectory, tokenizers: Tokenizers) -> None:
    _, updater = trained(tokenizers, steps=0)
    run.log({"type": "train", "step": 5})
    assert resume(run, updater) == Progress()
    assert run.metrics.file.read_text() == ""


def test_newest_checkpoint_is_resumed(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    for step in (2, 10, 9):
        run.save(loaded, updater, Progress(step=step))
    assert resume(run, updater).step == 10


def test_checkpoint_is_rewritten_only_if_progress_changed(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    directory = run.save(loaded, updater, Progress(step=3, seconds=0.1, best=[(0.3, 2)]))
    inodes = {file.name: file.stat().st_ino for file in directory.iterdir()}
    run.save(loaded, updater, Progress(step=3, seconds=0.1, best=[(0.3, 2)]))
    assert {file.name: file.stat().st_ino for file in directory.iterdir()} == inodes
    run.save(loaded, updater, Progress(step=3, seconds=0.1, best=[(0.4, 3), (0.3, 2)], validated_at=3))
    assert [name for name in inodes if (directory / name).stat().st_ino != inodes[name]] == ["progress.json"]
    assert resume(run, updater).best == [(0.4, 3), (0.3, 2)]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "tokenizer.model"])
def test_damaged_only_checkpoint_is_an_error(run: RunDirectory, tokenizers: Tokenizers, name: str) -> None:
    loaded, updater = trained(tokenizers)
    file = run.save(loaded, updater, Progress(step=3)) / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedError, match=f"{file}: damaged.*start over with --restart"):
        resume(run, updater)


def test_damaged_checkpoints_are_set_aside_and_an_older_one_resumed(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    for step in (2, 4, 6):
        run.save(loaded, updater, Progress(step=step))
    (run.checkpoint(6) / "progress.json").write_text("{")
    (run.checkpoint(4) / "model.safetensors").unlink()
    warnings: list[str] = []
    progress = resume(run, updater, warnings.append)
    assert progress.step == 2
    assert len(warnings) == 2
    assert f"{run.checkpoint(6)}/progress.json: damaged" in warnings[0]
    assert warnings[0].endswith("set aside as damaged-step-00000006, resuming from step-00000002")
    assert [path.name for path in run.saved()] == ["step-00000002"]
    run.save(loaded, updater, Progress(step=6))
    assert resume(run, updater).step == 6


def test_checkpoint_of_a_newer_format_is_an_error(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    for step in (2, 4):
        run.save(loaded, updater, Progress(step=step))
    file = run.checkpoint(4) / "config.json"
    file.write_text(file.read_text().replace('"format_version": 2', '"format_version": 3'))
    with pytest.raises(ModelError, match="format version 3, expected 2: another version of nmt wrote it"):
        resume(run, updater)


def test_full_disk_keeps_the_last_checkpoint(run: RunDirectory, tokenizers: Tokenizers) -> None:
    """Where the disk is full, a file may not grow; here, no file may grow beyond 2,000 bytes."""
    loaded, updater = trained(tokenizers)
    run.save(loaded, updater, Progress(step=1))
    message = f"{run.checkpoint(2)}: cannot write it: File too large; name another place"
    limit, largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, largest))
    try:
        with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
            run.save(loaded, updater, Progress(step=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, largest))
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000001"]
    assert links(run) == {"last": "checkpoints/step-00000001"}


def test_full_disk_while_saving_moments_leaves_no_checkpoint(
    run: RunDirectory, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, updater = trained(tokenizers)

    def no_space(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nmt.model.checkpoint.write_tensors", no_space)
    with pytest.raises(DataError, match="cannot write it: No space left on device"):
        run.save(loaded, updater, Progress(step=2))
    assert list(run.checkpoints.iterdir()) == []
    assert links(run) == {}


def test_unfinished_checkpoint_of_a_killed_process_is_removed(run: RunDirectory) -> None:
    """Without config.json, which is written last and removed first. A file of the user in it is kept."""
    for step, name in ((3, "model.safetensors"), (4, "notes.txt")):
        run.checkpoint(step).mkdir()
        (run.checkpoint(step) / name).write_text("x")
    open_run(run, recipe(run.path))
    assert [path.name for path in run.checkpoints.rglob("*")] == ["step-00000004", "notes.txt"]
    assert run.saved() == []


def test_full_file_system_keeps_the_last_checkpoint(run: RunDirectory, tokenizers: Tokenizers, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only the superuser of a real machine can mount a small disk")
    try:
        full = RunDirectory(disk / "run")
        open_run(full, recipe(full.path))
        loaded, updater = trained(tokenizers)
        full.save(loaded, updater, Progress(step=1))
        while shutil.disk_usage(disk).free > 12_000:
            full.log({"type": "train", "step": 1})
        message = f"{full.checkpoint(2)}: cannot write it: No space left on device; free some space, or name another"
        with pytest.raises(DataError, match=re.escape(message)):
            full.save(loaded, updater, Progress(step=2))
        assert [path.name for path in full.checkpoints.iterdir()] == ["step-00000001"]
        with pytest.raises(DataError, match=re.escape(f"{full.metrics.file}: cannot write it: No space left")):
            full.log({"type": "train", "step": 1, "much": "x" * 20_000})
        with pytest.raises(DataError, match=re.escape(f"{full.recipe}: cannot write it: No space left on device")):
            open_run(full, recipe(full.path, name="x" * 20_000))
        assert "name: test" in full.recipe.read_text()
        assert resume(full, updater).step == 1
        assert set(full.metrics.file.read_text().splitlines()) == {'{"type": "train", "step": 1}'}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_progress_of_another_version_is_read(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    directory = run.save(loaded, updater, Progress(step=3, best=[(9.5, 3)]))
    content = json.loads((directory / "progress.json").read_text())
    renamed = {"window" if key == "interval" else key: value for key, value in content.items() if key != "adjustments"}
    write_progress(directory, renamed)
    assert read_progress(directory) == Progress(step=3, best=[(9.5, 3)])


@pytest.mark.parametrize("changed", [[], {}, {"best": 1}, {"best": [], "interval": {"window": 1}}])
def test_damaged_progress_is_refused(run: RunDirectory, tokenizers: Tokenizers, changed: object) -> None:
    loaded, updater = trained(tokenizers)
    write_progress(run.save(loaded, updater, Progress(step=3)), changed)
    with pytest.raises(DamagedError, match=r"progress\.json: damaged"):
        resume(run, updater)


def write_progress(directory: Path, content: object) -> None:
    (directory / "progress.json").write_text(json.dumps(content))
    record_digests(directory)


# killed in the middle


class Killed(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("when", range(4))
@pytest.mark.parametrize("step", [3, 4])
def test_kill_while_a_checkpoint_is_written_leaves_a_whole_one(
    run: RunDirectory, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch, when: int, step: int
) -> None:
    """A new checkpoint, or that of the same step after its validation; the kill comes at any call within."""
    loaded, updater = trained(tokenizers)
    before, after = Progress(step=3), Progress(step=step, validated_at=step)
    run.save(loaded, updater, before)
    calls = 0

    def mortal(plain: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls > when:
                raise Killed
            return plain(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.remove_checkpoint", lambda _: None)  # a killed process removes nothing
        for name in ("rename", "replace", "write_text", "mkdir", "unlink", "symlink_to"):
            patch.setattr(Path, name, mortal(getattr(Path, name)))
        with contextlib.suppress(Killed):
            run.save(loaded, updater, after)
    assert calls > when, "the kill came after the end"
    open_run(run, recipe(run.path))
    assert resume(run, updater) in (before, after)
    assert {path.name for path in run.checkpoints.iterdir()} <= {"step-00000003", "step-00000004"}


def test_roll_back_removes_later_checkpoints_and_log_lines(run: RunDirectory, tokenizers: Tokenizers) -> None:
    saved = {}
    for step in (2, 4, 5):
        loaded, updater = trained(tokenizers, steps=step, seed=step)
        saved[step] = {name: p.detach().clone() for name, p in loaded.model.named_parameters()}
        run.save(loaded, updater, Progress(step=step, validated_at=step, skipped=1))
        run.log({"type": "train", "step": step})
    progress = run.roll_back(4, updater)
    assert progress == Progress(step=4, validated_at=4, skipped=1)
    assert all(torch.equal(p, saved[4][name]) for name, p in loaded.model.named_parameters())
    assert {int(state["step"]) for state in updater.optimizer.state.values()} == {3}
    assert [path.name for path in run.saved()] == ["step-00000002", "step-00000004"]
    assert links(run) == {"last": "checkpoints/step-00000004"}
    assert [record["step"] for record in logged(run)] == [2, 4]


# metrics


@pytest.mark.parametrize(
    ("line", "shown"),
    [('{"type": "train", "st', '\'{"type": "train", "st\''), ("[1]", "'[1]'"), ('{"step": "2"}', "step"), ("", "''")],
)
def test_damaged_line_of_metrics_is_refused(run: RunDirectory, tokenizers: Tokenizers, line: str, shown: str) -> None:
    loaded, updater = trained(tokenizers)
    run.log({"type": "train", "step": 1})
    with run.metrics.file.open("a") as stream:
        stream.write(line + "\n")
    run.log({"type": "train", "step": 3})
    run.save(loaded, updater, Progress(step=3))
    before = run.metrics.file.read_text()
    with pytest.raises(
        ModelError, match=rf"metrics.jsonl:2: expected a JSON object with a step.*{re.escape(shown)}.*correct the line"
    ):
        resume(run, updater)
    assert run.metrics.file.read_text() == before


def test_full_disk_leaves_no_partial_line_of_metrics(run: RunDirectory) -> None:
    run.log({"type": "train", "step": 1})
    whole = run.metrics.file.read_bytes()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        with pytest.raises(DataError, match=r"metrics.jsonl: cannot write it: File too large; free some space"):
            run.log({"type": "train", "step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert run.metrics.file.read_bytes() == whole


def logged(run: RunDirectory) -> list[dict[str, object]]:
    return [json.loads(line) for line in run.metrics.file.read_text().splitlines()]


def test_metrics_after_the_checkpoint_are_dropped(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    records = [
        {"type": "train", "step": 1, "loss": 2.5},
        {"type": "train", "step": 2},
        {"type": "validation", "step": 2},
    ]
    for record in [*records, {"type": "train", "step": 3}]:
        run.log(record)
    with run.metrics.file.open("a") as stream:
        stream.write('{"type": "train", "step"')
    run.save(loaded, updater, Progress(step=2, validated_at=2))
    resume(run, updater)
    assert logged(run) == records
    assert run.metrics.file.read_text().endswith("}\n")
    run.log({"type": "train", "step": 3})
    assert logged(run)[-1] == {"type": "train", "step": 3}


def test_validation_after_the_checkpoint_is_dropped(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    for record in ({"type": "train", "step": 2}, {"type": "validation", "step": 2}):
        run.log(record)
    run.save(loaded, updater, Progress(step=2, validated_at=1))  # by a signal, before the validation was over
    resume(run, updater)
    assert logged(run) == [{"type": "train", "step": 2}]


def test_restart_empties_linked_checkpoints(run: RunDirectory, tokenizers: Tokenizers, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run.path.mkdir(exist_ok=True)
    if run.checkpoints.exists():
        run.checkpoints.rmdir()
    run.checkpoints.symlink_to(elsewhere)
    loaded, updater = trained(tokenizers)
    open_run(run, recipe(run.path))
    run.save(loaded, updater, Progress(step=1))
    run.open(recipe(run.path), restart=True)
    assert not run.saved()
    assert run.checkpoints.is_symlink()
    assert resume(run, updater).step == 0


# the recipe


def test_free_keys_may_change_when_a_run_resumes(run: RunDirectory, tmp_path: Path) -> None:
    open_run(run, recipe(run.path))
    run.checkpoint(1).mkdir()
    train = TrainSettings(stop=Stop(steps=7, epochs=2, hours=1.5), log_every=3, validate_every=4, keep_best=9)
    data = Data(train=recipe(run.path).data.train, test=(CorpusFile(tsv=Path("/text/test.tsv")),))
    changed = recipe(
        run.path, name="other", train=train, data=data, prepared=tmp_path / "prepared", decode=DecodeSettings(beam=2)
    )
    open_run(run, changed)
    assert "name: other" in run.recipe.read_text()
    open_run(run, recipe(run.path))


def write_empty_checkpoint(run: RunDirectory) -> None:
    run.checkpoint(1).mkdir()
    (run.checkpoint(1) / "config.json").write_text("{}")


def test_changed_recipe_is_refused_with_all_differences(run: RunDirectory) -> None:
    changed = recipe(
        run.path,
        name="free to change",
        seed=7,
        model=ModelSettings(dim=256, heads=4),
        train=TrainSettings(label_smoothing=0.0, log_every=3),
        data=Data(train=(CorpusFile(tsv=Path("/text/other.tsv"), oversample=2.0),)),
    )
    write_empty_checkpoint(run)
    with pytest.raises(ConfigError) as caught:
        open_run(run, changed)
    head, *differing, advice, free = str(caught.value).split("\n")
    assert head == f"{run.path}: this run was started with another recipe:"
    assert differing == [
        "  data.train.0.oversample: was 1.0, now 2.0",
        "  model.dim: was 512, now 256",
        "  model.heads: was 8, now 4",
        "  train.label_smoothing: was 0.1, now 0.0",
        "  seed: was 1, now 7",
    ]
    assert "--restart" in advice
    assert "train.log_every" in free
    assert "name: test" in run.recipe.read_text()


def test_additional_text_is_refused(run: RunDirectory) -> None:
    text = CorpusFile(tsv=Path("/text/train.tsv"))
    write_empty_checkpoint(run)
    with pytest.raises(ConfigError, match=r"data.train.1.oversample: was null, now 1.0"):
        open_run(run, recipe(run.path, data=Data(train=(text, text))))


def test_changed_schedule_is_refused(run: RunDirectory) -> None:
    train = TrainSettings.model_validate({"schedule": {"name": "constant", "rate": 0.1}})
    write_empty_checkpoint(run)
    with pytest.raises(ConfigError, match=r'train.schedule.name: was "noam", now "constant"'):
        open_run(run, recipe(run.path, train=train))


def test_restart_removes_the_files_of_training(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    run.save(loaded, updater, Progress(step=3, best=[(1.0, 3)]))
    run.log({"type": "train", "step": 3})
    for name in ("test.txt", "test.json", "notes.txt"):
        (run.path / name).write_text("x")
    (run.path / "prepared").mkdir()
    run.open(recipe(run.path, seed=7), restart=True)
    kept = sorted(path.name for path in run.path.iterdir())
    assert kept == ["checkpoints", "notes.txt", "prepared", "recipe.yaml", "run.json"]
    assert run.saved() == []
    assert "seed: 7" in run.recipe.read_text()


# pruning and links


def test_pruning_keeps_the_best_and_the_last(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    best = [(0.9, 2), (0.8, 4), (0.7, 1)]
    for step in range(1, 7):
        run.save(loaded, updater, Progress(step=step, best=best))
    run.prune(2, 1, Progress(step=6, best=best))
    assert [directory.name for directory in run.saved()] == ["step-00000002", "step-00000004", "step-00000006"]
    assert links(run) == {"best": "checkpoints/step-00000002", "last": "checkpoints/step-00000006"}


def test_file_of_the_user_in_a_checkpoint_that_is_removed_is_kept(run: RunDirectory, tokenizers: Tokenizers) -> None:
    loaded, updater = trained(tokenizers)
    for step in (1, 2):
        run.save(loaded, updater, Progress(step=step))
    (run.checkpoint(1) / "notes.txt").write_text("mine")
    run.prune(1, 1, Progress(step=2))
    assert run.saved() == [run.checkpoint(2)]
    assert [(path.name, path.read_text()) for path in run.checkpoint(1).iterdir()] == [("notes.txt", "mine")]


def test_link_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, link = tmp_path / "a", tmp_path / "b", tmp_path / "links" / "now"
    for directory in (first, second, link.parent):
        directory.mkdir()
    replace_link(link, first)
    assert os.readlink(link) == "../a"
    removed: list[str] = []
    plain = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, missing_ok=False: (removed.append(path.name), plain(path, missing_ok))[1]
    )
    replace_link(link, second)
    assert link.resolve() == second
    assert "now" not in removed
    assert [path.name for path in link.parent.iterdir()] == ["now"]


# the lock

HOLD = """
import os, sys, time
from pathlib import Path
from nmt.training.run import RunDirectory
from nmt.training.step import Updater
with RunDirectory(Path(sys.argv[1])).locked():
    print(os.getpid(), flush=True)
    time.sleep(10**6)
"""


def test_lock_is_held_until_the_process_ends(run: RunDirectory, warm_python: str) -> None:
    with subprocess.Popen([warm_python, "-c", HOLD, str(run.path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = int(process.stdout.readline())
        with pytest.raises(ModelError) as caught, run.locked():
            raise AssertionError("two processes hold the same run")
        assert f"{run.path}: process {owner} on " in str(caught.value)
        assert "is training here; stop it, or set 'run' to another folder" in str(caught.value)
        os.kill(owner, signal.SIGKILL)
        process.wait()
    with run.locked():
        assert f"process {os.getpid()} on " in (run.path / "lock").read_text()
    with run.locked():
        assert (run.path / "lock").read_text().count("process") == 1


def test_file_system_without_locks_is_a_warning(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    warnings: list[str] = []
    with run.locked(warnings.append):
        pass
    (warning,) = warnings
    assert warning.startswith(f"{run.path}: no locks on this file system; make sure that no other")


def test_progress_is_plain_json() -> None:
    progress = Progress(step=1, best=[(0.1 + 0.2, 1)])
    assert json.loads(json.dumps(asdict(progress)))["best"] == [[0.1 + 0.2, 1]]


def test_foreign_files_among_the_checkpoints_are_kept(run: RunDirectory) -> None:
    (run.checkpoints / ".DS_Store").write_text("x")
    open_run(run, recipe(run.path))
    assert (run.checkpoints / ".DS_Store").exists()
    assert run.saved() == []


@pytest.mark.parametrize("when", ["fsync", "replace"])
def test_kill_while_the_recipe_is_written_keeps_the_old_one(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    before = run.recipe.read_text()

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*((os, "fsync") if when == "fsync" else (Path, "replace")), killed)
    with pytest.raises(KeyboardInterrupt):
        open_run(run, recipe(run.path, name="other"))
    monkeypatch.undo()
    assert run.recipe.read_text() == before
    open_run(run, recipe(run.path))
