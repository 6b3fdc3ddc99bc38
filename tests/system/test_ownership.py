"""Only directories and files that nmt wrote are replaced."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nmt.errors import ConfigError
from nmt.system import files, ownership
from nmt.system.ownership import (
    EXPORT,
    FIGURES,
    MODEL,
    PREPARATION,
    PREPARED,
    RUN,
    SPLIT,
    DirectoryKind,
    GrowingKind,
    SealedKind,
    check_directory,
    check_file,
    check_output,
    check_run_format,
    mark_directory,
    replace_directory,
    write_recorded,
)
from nmt.system.sealing import seal
from tests.builders import snapshot


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_model(directory: Path, **changes: object) -> Path:
    """Write a directory with the marker of a model that lists its one other file."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.safetensors").write_text("weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    sections: dict[str, object] = {"languages": {}, "model": {}, "decode": {}}
    marker = {"format_version": 1, **sections, "files": {"model.safetensors": digest}, **changes}
    marker = {key: value for key, value in marker.items() if value != "absent"}
    (directory / "config.json").write_text(json.dumps(marker))
    return directory


def test_own_empty_and_absent_directories_may_be_replaced(tmp_path: Path) -> None:
    check_directory(tmp_path / "absent", MODEL)
    (tmp_path / "empty").mkdir()
    check_directory(tmp_path / "empty", MODEL)
    check_directory(write_model(tmp_path / "model"), MODEL)
    for number in (1, 2):
        check_directory(write_model(tmp_path / "model", format_version=number), MODEL)
    with replace_directory(tmp_path / "model", MODEL) as staging:
        (staging / "new").write_text("x")
    assert names(tmp_path / "model") == ["new"]


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ({"format_version": "1"}, "is not a model that nmt wrote"),
        ({"files": None}, "is not a model that nmt wrote"),
        ({"files": {}}, "is not a model that nmt wrote"),
        ({"files": {"other": "0" * 64}}, "holds model.safetensors, which nmt did not write"),
        ({"digest": "0" * 64}, "is not a model that nmt wrote"),
        ({"languages": "absent", "model": "absent", "decode": "absent"}, "is not a model that nmt wrote"),
        ({"files": {"model.safetensors": "0" * 64}}, "which nmt did not write or which was changed since"),
        ({"format_version": 99}, "a newer nmt wrote it"),
    ],
)
def test_directories_with_another_marker_are_refused(tmp_path: Path, marker: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_directory(write_model(tmp_path / "model", **marker), MODEL)


@pytest.mark.parametrize("kind", ["file", "hidden file", "link", "dangling link", "fifo", "empty folder", "file below"])
def test_directories_with_foreign_entries_are_refused(tmp_path: Path, kind: str) -> None:
    foreign = write_model(tmp_path / "model") / ("..x" if kind == "hidden file" else "x")
    if kind.endswith("link"):
        foreign.symlink_to("nowhere" if kind.startswith("dangling") else "config.json")
    elif kind == "fifo":
        os.mkfifo(foreign)
    elif kind.endswith("file"):
        foreign.write_text("mine")
    else:
        foreign.mkdir()
        if kind == "file below":
            (foreign / "config.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"model: cannot write a model here: it holds \.?\.?x"):
        check_directory(tmp_path / "model", MODEL)


def test_link_in_place_of_an_own_file_is_refused(tmp_path: Path) -> None:
    weights = write_model(tmp_path / "model") / "model.safetensors"
    weights.rename(tmp_path / "weights")
    weights.symlink_to(tmp_path / "weights")
    with pytest.raises(ConfigError, match=r"holds model\.safetensors@, which nmt did not write"):
        check_directory(tmp_path / "model", MODEL)


def test_unsuitable_output_paths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_model(tmp_path / "model")
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    run = tmp_path / "run"
    run.mkdir()
    mark_directory(run, RUN)
    (tmp_path / "link_to_run").symlink_to(run)
    for place, inputs, reason in (
        (tmp_path / "link", (), "it is a symbolic link"),
        (tmp_path / "loop", (), "not a usable path"),
        (tmp_path / "nul\0", (), "not a usable path"),
        (tmp_path / "file", (), "expected a folder, found a file"),
        (tmp_path / "file" / "model", (), None),  # an error of the file system, when it is written
        (model, (model / "model.safetensors",), "it holds .*model.safetensors, which is read"),
        (model, (tmp_path / "link",), "which is read"),
        (run / "last", (), "run is a run"),
        (run / "checkpoints" / "step-00000001", (), "run is a run"),
        (tmp_path / "link_to_run" / "model", (), "run is a run"),
        (tmp_path, (), "holds files, such as"),
    ):
        if reason is None:
            check_directory(place, MODEL, inputs)
        else:
            with pytest.raises(ConfigError, match=reason):
                check_directory(place, MODEL, inputs)
    (tmp_path / "link_to_prepared").symlink_to(tmp_path / "empty")
    check_directory(tmp_path / "link_to_prepared", PREPARED)
    check_directory(tmp_path / "link_to_run", RUN)
    check_directory(run / "prepared", PREPARED)
    monkeypatch.chdir(run)
    check_directory(run, RUN)  # a run is not replaced; files are added to it
    monkeypatch.chdir(model)
    with pytest.raises(ConfigError, match="it is the current folder"):
        check_directory(model, MODEL)


def test_a_foreign_file_that_appears_during_the_writing_is_kept(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")

    def replace() -> None:
        with replace_directory(model, MODEL) as staging:
            (staging / "new").write_text("x")
            (model / "notes").write_text("mine")

    with pytest.raises(ConfigError, match="it holds notes"):
        replace()
    assert names(model) == ["config.json", "model.safetensors", "notes"]
    assert names(tmp_path) == ["model"]


def write_own(directory: Path, kind: DirectoryKind) -> None:
    """Write a directory of a kind, with entries of each type that nmt writes."""
    if isinstance(kind, SealedKind):
        directory.mkdir()
        for name in ("one", "two@"):
            (directory / name).write_text(name)
        seal(directory, kind, {key: {} for key in kind.keys})
        return
    files = {
        "a run": ("recipe.yaml", "checkpoints/step-00000001/config.json", "skipped/step-00000002.json"),
        "a prepared corpus": ("train/weights.npy", "tokenizer.model"),
        "an unfinished preparation": ("train/2.chunks", "train/000001.kept.safetensors", "tokenizers/tokenizer.model"),
    }
    for name in files[kind.name]:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    if kind is RUN:
        (directory / "last").symlink_to("checkpoints/step-00000001")
        (directory / "tensorboard").mkdir()
        write_recorded(directory, RUN, "test.txt", "text")
    mark_directory(directory, kind)


def add_foreign(path: Path, type_: str) -> None:
    """Create an entry with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match type_:
        case "file":
            path.write_text("mine")
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("nowhere")
        case "pipe":
            os.mkfifo(path)


KINDS = (MODEL, EXPORT, FIGURES, SPLIT, PREPARED, PREPARATION, RUN)
FOREIGN = st.text("ab@|-. è", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
NAMES = FOREIGN | st.sampled_from(
    ["best@", "last@", "checkpoints@", "prepared@", "tensorboard@", "prepared|", "lock~", "train", "manifest.json.old"]
)
PLACES = (".", "train", "checkpoints", "checkpoints/step-00000001", "tensorboard", "prepared", ".prepared.work", "x/y")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(place=st.sampled_from(PLACES), name=NAMES, type_=st.sampled_from(["file", "folder", "link", "pipe"]))
def test_foreign_entry_anywhere_in_a_directory_is_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: DirectoryKind, place: str, name: str, type_: str
) -> None:
    directory = tmp_path_factory.mktemp("own") / "directory"
    write_own(directory, kind)
    check_directory(directory, kind)
    # an empty folder of this name is one that nmt writes
    assume(not ((directory / place / name).exists() or (type_ == "folder" and name == "train")))
    add_foreign(directory / place / name, type_)
    before = snapshot(directory)
    with pytest.raises(ConfigError, match=f"cannot write {kind.name} here: it holds "):
        check_directory(directory, kind)
    assert snapshot(directory) == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_entry_of_nmt_is_refused_as_another_type(tmp_path: Path, kind: DirectoryKind) -> None:
    """A link in place of a file may lead to a file of the user, and a file in place of a link is not of nmt."""
    write_own(tmp_path / "whole", kind)
    entries = [path for path in snapshot(tmp_path / "whole") if path.count("/") == 0]
    for number, name in enumerate(entries):
        directory = tmp_path / str(number)
        write_own(directory, kind)
        was_link = (directory / name).is_symlink()
        (directory / name).rename(tmp_path / f"moved{number}")
        if was_link:
            (directory / name).write_text("mine")
        else:
            (directory / name).symlink_to(tmp_path / "whole" / name)
        if name in ("checkpoints", "tensorboard"):  # they may be on another disk
            check_directory(directory, kind)
        else:
            with pytest.raises(ConfigError, match="it holds "):
                check_directory(directory, kind)


def test_run_directories_are_recognised(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "prepared").mkdir(parents=True)
    (run / "prepared" / "manifest.json").write_text("{}")
    (run / "lock").write_text("process 1 on host")
    check_directory(run, RUN)  # prepared, and killed before the training began
    (run / "recipe.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="is not a run that nmt wrote"):
        check_directory(run, RUN)
    (run / "checkpoints" / "step-00000001").mkdir(parents=True)
    (run / "lock").write_text("")
    with pytest.raises(ConfigError, match=r"holds checkpoints but no run\.json: only the nmt that began"):
        check_directory(run, RUN)
    (run / "run.json").write_text('{"format": "nmt run", "format_version": 1}')
    check_directory(run, RUN)  # --restart may replace it
    with pytest.raises(
        ConfigError, match=r"format version 1, this nmt reads version 2: .* or train again, with --restart"
    ):
        check_run_format(run)
    mark_directory(run, RUN)
    check_run_format(run)
    (run / "lock").unlink()
    check_directory(run, RUN)
    (run / "checkpoints" / "step-00000001" / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="holds checkpoints/step-00000001/notes, which nmt did not write"):
        check_directory(run, RUN)


def test_unsuitable_output_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text("x")
    (tmp_path / "link").symlink_to("text")
    (tmp_path / "dangling").symlink_to("new")
    assert check_file(tmp_path / "link") == (tmp_path / "text").resolve()
    assert check_file(tmp_path / "dangling") == (tmp_path / "new").resolve()
    for name, reason in (("folder", "a folder"), ("fifo", "not a regular file"), ("loop", "not a usable path")):
        with pytest.raises(ConfigError, match=reason):
            check_file(tmp_path / name)
    with pytest.raises(ConfigError, match="it is also read"):
        check_file(tmp_path / "link", [tmp_path / "text"])
    model, run = write_model(tmp_path / "model"), tmp_path / "run"
    run.mkdir()
    mark_directory(run, RUN)
    (tmp_path / "link_to_config").symlink_to(model / "config.json")
    for path, reason in (
        (model / "config.json", "is a model, which it would damage"),
        (model / "new", "is a model, which it would damage"),
        (tmp_path / "link_to_config", "is a model, which it would damage"),
        (run / "test.txt", "is a run, whose files nmt train keeps"),
        (run / "last" / "model.safetensors", "is a run, whose files nmt train keeps"),
    ):
        with pytest.raises(ConfigError, match=reason):
            check_file(path)
    with pytest.raises(ConfigError, match=r"^'.*loop': not a usable path"):
        check_file(tmp_path / "loop")
    (tmp_path / "text").chmod(0o444)
    with pytest.raises(ConfigError, match="link: cannot write it: it is read-only; name another file"):
        check_file(tmp_path / "link")


def test_output_that_cannot_be_created_is_refused_before_the_work(tmp_path: Path) -> None:
    assert check_output(tmp_path / "new") == tmp_path / "new"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"cannot write it: .*gone is not a folder; make it first"):
        check_output(tmp_path / "gone" / "new")
    if Path("/proc/self").exists():
        with pytest.raises(ConfigError, match=r"^/proc/x: cannot write it: no file can be created in /proc \(No such"):
            check_output(Path("/proc/x"))


def test_change_to_a_recorded_file_is_noticed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    mark_directory(run, RUN, {"environment": {"nmt": "1"}})
    for text in ("name: one\n", "name: two\n", "name: one\n"):
        write_recorded(run, RUN, "recipe.yaml", text)
        assert (run / "recipe.yaml").read_text() == text
        check_directory(run, RUN)
    mark_directory(run, RUN, {"environment": {"nmt": "2"}})
    (run / "recipe.yaml").write_text("name: one  # my comment\n")
    with pytest.raises(ConfigError, match=r"it holds recipe\.yaml, which nmt did not write or which was changed since"):
        check_directory(run, RUN)
    (run / "recipe.yaml").unlink()
    check_directory(run, RUN)


@pytest.mark.parametrize("kind", [PREPARATION, RUN], ids=lambda kind: kind.name)
def test_kill_while_the_marker_is_written_leaves_a_directory_of_nmt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: GrowingKind
) -> None:
    def killed(_partial: Path, _file: Path) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda _path, missing_ok=False: None)  # a killed process removes nothing
        patch.setattr(files, "replace_file", killed)
        with pytest.raises(SystemExit):
            mark_directory(tmp_path, kind)
    assert names(tmp_path) == [f".{kind.marker}.partial"]
    check_directory(tmp_path, kind)
    mark_directory(tmp_path, kind)
    assert names(tmp_path) == [kind.marker]


def test_kill_before_a_recorded_file_is_replaced_leaves_a_directory_of_nmt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    mark_directory(run, RUN)
    write_recorded(run, RUN, "test.txt", "before\n")
    plain = ownership.replace_text

    def killed(file: Path, text: str) -> None:
        if file.name == "test.txt":
            raise KeyboardInterrupt
        plain(file, text)

    monkeypatch.setattr(ownership, "replace_text", killed)
    with pytest.raises(KeyboardInterrupt):
        write_recorded(run, RUN, "test.txt", "after\n")
    check_directory(run, RUN)
