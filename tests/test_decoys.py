"""Commands that write do not change files and directories that nmt did not write."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.report.formula_figures import smoothed_targets
from tests.builders import run_command, snapshot, write_lines, write_reversal_task

MINE = "mine\n"
FOREIGN_MARKERS = {
    "config.json": json.dumps({"model_type": "bert", "format_version": 1, "files": {}}),
    "split.json": json.dumps({"format": "nmt split", "format_version": 1}),
    "figures.json": json.dumps({"format": "my figures", "format_version": 1, "files": {}}),
    "nmt.json": json.dumps({"name": "no machine translation"}),
    "manifest.json": json.dumps({"format": "web app manifest", "format_version": 1}),
    "run.json": json.dumps({"format": "training plan", "format_version": 1}),
    "recipe.yaml": "# my comments\nname: mine\n",
}
FILES = [
    *FOREIGN_MARKERS, "test.txt", "test.json", "metrics.jsonl", "lock", "model.safetensors", "tokenizer.model", "last",
    "best", "notes.txt", ".hidden", "recipe.partial", ".config.json.partial", "checkpoints/notes.txt",
    "checkpoints/step-00000001/config.json", "tensorboard/notes", "skipped/notes", "train/source.tokens.npy",
    "prepared/notes.txt", "prepared/manifest.json",
]  # fmt: skip
KINDS = ["file", "private", "read-only", "link", "dangling", "loop", "fifo", "folder"]


def make_decoy(path: Path, kind: str) -> None:
    """Replace a path by a file or directory of the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "dangling":
            path.symlink_to("nowhere")
        case "link":
            path.symlink_to(Path(__file__))
        case _:
            path.write_text(FOREIGN_MARKERS.get(path.name, MINE))
            path.chmod({"file": 0o644, "private": 0o600, "read-only": 0o444}[kind])


@contextmanager
def fresh_folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


@pytest.fixture(autouse=True, scope="module")
def _small_figures_and_exports() -> Iterator[None]:
    """To save time, `nmt figures` draws one figure without input, and `nmt export` compares short translations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.commands.figures.formula_drawings", lambda recipe: [smoothed_targets()])
        patch.setattr("nmt.export.parity._LONGEST", 3)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe and what each command writes: run, prepared, model, export, figures, split, text.out."""
    folder = tmp_path_factory.mktemp("trained")
    short = {"decode": {"max_length": {"factor": 0.2, "extra": 5}}}  # an untrained model rarely predicts the end
    recipe = write_reversal_task(folder, changes=short)
    write_lines(folder / "text", "ba ce di", "fo gu")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for arguments in (
            ("train", "--config", recipe, "--set", f"data.test={{tsv: {folder / 'test.tsv'}}}"),
            ("average", "run", "-o", "model"),
            ("export", "run", "export", "--to", "ctranslate2"),
            ("figures", "figures"),
            ("translate", "--model", "run", "-i", "text", "-o", "text.out"),
        ):
            if arguments[0] == "export":
                pytest.importorskip("ctranslate2")
            result = run_command(*arguments)
            assert result.exit_code == 0, result.output
    finally:
        os.chdir(before)
    return folder


def command(name: str, trained: Path, output: Path) -> list[str | Path]:
    """Return a command line that writes a directory."""
    recipe = ["--config", trained / "recipe.yaml"]
    return {
        "average": ["average", trained / "run", "-o", output],
        "export": ["export", trained / "run", output, "--to", "ctranslate2"],
        "figures": ["figures", output],
        "prepare": ["prepare", *recipe, "--set", f"prepared={output}", "--force"],
        "train": ["train", *recipe, "--set", f"run={output}"],
        "restart": ["train", *recipe, "--set", f"run={output}", "--restart"],
    }[name]


OUT = "out"
OWN = {
    "average": "model",
    "export": "export",
    "figures": "figures",
    "prepare": "prepared",
    "train": "run",
    "restart": "run",
}


def refused(arguments: list[str | Path], folder: Path) -> str:
    """Run a command that must end with exit code 2 and change nothing; return its message."""
    before = snapshot(folder)
    result = run_command(*arguments)
    assert snapshot(folder) == before, result.output
    assert result.exit_code == 2, result.output
    assert "bug in nmt" not in result.stderr
    return result.stderr


@pytest.mark.parametrize("name", OWN)
def test_directory_with_foreign_entries_is_refused(trained: Path, name: str) -> None:
    """Foreign entries of any name and kind, alone or beside files of nmt."""

    @settings(max_examples=15, derandomize=True)
    @given(
        decoys=st.dictionaries(st.sampled_from(FILES), st.sampled_from(KINDS), min_size=1, max_size=3),
        own=st.booleans(),
    )
    def check(decoys: dict[str, str], own: bool) -> None:
        with fresh_folder() as folder:
            output = folder / OUT
            if own:
                # in a run, a regular file with the name of one of nmt's files is indistinguishable from it
                decoys = {path: kind if path in ("notes.txt", ".hidden") else "loop" for path, kind in decoys.items()}
                shutil.copytree(trained / OWN[name], output, symlinks=True)
            for path, kind in sorted(decoys.items(), key=lambda decoy: -len(decoy[0])):
                if not (output / path).is_dir():
                    make_decoy(output / path, kind)
            refused(command(name, trained, output), folder)

    check()


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("place", ["file", "private", "loop", "fifo", "link to a folder", "below a file", "."])
def test_unsuitable_output_paths_are_refused(trained: Path, name: str, place: str) -> None:
    with fresh_folder() as folder:
        output = folder / OUT
        (folder / "notes").write_text(MINE)
        if place == "link to a folder":
            (folder / "folder").mkdir()
            (folder / "folder" / "config.json").write_text("{}")
            output.symlink_to("folder")
        elif place == "below a file":
            output = folder / "notes" / OUT
        elif place == ".":
            output = folder
        else:
            make_decoy(output, place)
        refused(command(name, trained, output), folder)


@pytest.mark.parametrize("name", OWN)
def test_own_output_is_replaced(trained: Path, name: str) -> None:
    with fresh_folder() as folder:
        shutil.copytree(trained / OWN[name], folder / OUT, symlinks=True)
        result = run_command(*command(name, trained, folder / OUT))
        assert result.exit_code == 0, result.output
        assert {path.name for path in folder.iterdir()} <= {OUT, "runs"}


def to_hugging_face(trained: Path, output: Path) -> list[str | Path]:
    return ["export", trained / "run", output, "--to", "hf"]


@pytest.mark.parametrize("name", FILES)
def test_export_to_hugging_face_keeps_foreign_files(trained: Path, name: str) -> None:
    with fresh_folder() as folder:
        make_decoy(folder / "out" / name, "file")
        refused(to_hugging_face(trained, folder / "out"), folder)


@pytest.mark.filterwarnings("default")  # transformers emits warnings
def test_export_to_hugging_face_replaces_its_own_output_only(trained: Path) -> None:
    pytest.importorskip("transformers")
    with fresh_folder() as folder:
        for _ in range(2):
            result = run_command(*to_hugging_face(trained, folder / "out"))
            assert result.exit_code == 0, result.output
        make_decoy(folder / "out" / "generation_config.json", "file")
        assert "generation_config.json" in refused(to_hugging_face(trained, folder / "out"), folder)


@pytest.mark.parametrize("name", ["average", "export", "figures"])
@pytest.mark.parametrize("place", ["last", "best", "checkpoints/step-00000012", "checkpoints/new", "new", "prepared"])
def test_outputs_inside_a_run_are_refused(trained: Path, name: str, place: str) -> None:
    with fresh_folder() as folder:
        shutil.copytree(trained / "run", folder / "run", symlinks=True)
        (folder / "link").symlink_to("run")
        for run in ("run", "link"):
            refused(command(name, trained, folder / run / place), folder)


@pytest.mark.parametrize("restart", [[], ["--restart"]], ids=["", "restart"])
@pytest.mark.parametrize("where", ["test text", "recipe", "training text"])
def test_inputs_in_the_run_folder_are_kept(trained: Path, where: str, restart: list[str]) -> None:
    with fresh_folder() as folder:
        run = folder / "run"
        for name in ("recipe.yaml", "train.tsv", "valid.tsv", "test.tsv"):
            shutil.copy(trained / name, folder / name)
        run.mkdir()
        recipe, overrides = folder / "recipe.yaml", []
        if where == "recipe":
            recipe = run / "recipe.yaml"
            (folder / "recipe.yaml").rename(recipe)
            overrides = ["--set", f"run={run}", "--set", f"data.train=[{{tsv: {folder}/train.tsv}}]"]
        else:
            key, name = ("data.test", "test.txt") if where == "test text" else ("data.valid", "metrics.jsonl")
            (folder / "test.tsv").rename(run / name)
            overrides = ["--set", f"{key}={{tsv: run/{name}}}"]
        refused(["train", "--config", recipe, *overrides, *restart], folder)


@pytest.mark.parametrize("restart", [[], ["--restart"]], ids=["", "restart"])
@pytest.mark.parametrize("name", ["recipe.yaml", "test.txt", "test.json"])
def test_files_of_a_run_that_the_user_changed_are_kept(trained: Path, name: str, restart: list[str]) -> None:
    with fresh_folder() as folder:
        shutil.copytree(trained / "run", folder / "run", symlinks=True)
        with (folder / "run" / name).open("a") as file:
            file.write("# my note\n")
        arguments = ["train", "--config", trained / "recipe.yaml", "--set", f"run={folder / 'run'}", *restart]
        assert f"it holds {name}, which nmt did not write or which was changed" in refused(arguments, folder)


@pytest.mark.parametrize("restart", [[], ["--restart"]], ids=["", "restart"])
@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_foreign_files_behind_a_linked_folder_of_a_run_are_kept(trained: Path, name: str, restart: list[str]) -> None:
    with fresh_folder() as folder:
        shutil.copytree(trained / "run", folder / "run", symlinks=True)
        (folder / "run" / "tensorboard").mkdir()
        (folder / "run" / name).rename(folder / "disk")
        (folder / "run" / name).symlink_to("../disk")
        make_decoy(folder / "disk" / "notes.txt", "file")
        arguments = ["train", "--config", trained / "recipe.yaml", "--set", f"run={folder / 'run'}", *restart]
        assert f"it holds {name}/notes.txt, which nmt did not write" in refused(arguments, folder)
        (folder / "disk" / "notes.txt").unlink()
        assert run_command(*arguments).exit_code == 0
        assert (folder / "run" / name).is_symlink()


# translate -o FILE


def translate(trained: Path, output: Path) -> list[str | Path]:
    return ["translate", "--model", trained / "model", "-i", trained / "text", "-o", output]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_translate_keeps_permissions_and_links(trained: Path, mode: int) -> None:
    with fresh_folder() as folder:
        (folder / "file").write_text(MINE)
        (folder / "file").chmod(mode)
        (folder / "link").symlink_to("file")
        result = run_command(*translate(trained, folder / "link"))
        assert result.exit_code == 0, result.output
        assert (folder / "file").read_text() == (trained / "text.out").read_text()
        assert (folder / "file").stat().st_mode & 0o777 == mode
        assert {path.name for path in folder.iterdir()} == {"file", "link"}
        assert os.readlink(folder / "link") == "file"


@pytest.mark.parametrize(
    "prepare",
    [
        lambda folder: make_decoy(folder / "out", "read-only"),
        lambda folder: make_decoy(folder / "out", "loop"),
        lambda folder: make_decoy(folder / "out", "folder"),
        lambda folder: make_decoy(folder / "out.partial", "file"),
        lambda folder: make_decoy(folder / "out.partial", "folder"),
        lambda folder: make_decoy(folder / "out.partial.journal", "file"),
    ],
    ids=["read-only", "loop", "folder", "partial", "partial folder", "journal"],
)
def test_translate_refuses_other_files(trained: Path, prepare: Callable[[Path], None]) -> None:
    with fresh_folder() as folder:
        prepare(folder)
        refused(translate(trained, folder / "out"), folder)


@pytest.mark.parametrize("name", ["text", "film.json"])
def test_translate_to_a_hyphen_writes_standard_output(trained: Path, name: str) -> None:
    with fresh_folder() as folder:
        (folder / name).write_text('["ba ce di"]' if name.endswith("json") else "ba ce di\n")
        results = [run_command("translate", "--model", trained / "model", "-i", name, *o) for o in ([], ["-o", "-"])]
        assert results[1].stdout == results[0].stdout != ""
        assert [path.name for path in folder.iterdir()] == [name]


def test_report_refuses_a_hyphen_as_output(trained: Path) -> None:
    with fresh_folder() as folder:
        assert "-: cannot write it: expected the name of a file" in refused(
            ["report", trained / "run", "-o", "-"], folder
        )


# report -o FILE


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_report_keeps_permissions_links_and_other_files(trained: Path, mode: int) -> None:
    with fresh_folder() as folder:
        (folder / "file").write_text(MINE)
        (folder / "file").chmod(mode)
        (folder / "link").symlink_to("file")
        make_decoy(folder / ".file.partial", "file")
        result = run_command("report", trained / "run", "-o", folder / "link")
        assert result.exit_code == 0, result.output
        assert (folder / "file").read_text().startswith("<!DOCTYPE html>")
        assert (folder / "file").stat().st_mode & 0o777 == mode
        assert {path.name for path in folder.iterdir()} == {"file", "link", ".file.partial"}
        assert (folder / ".file.partial").read_text() == MINE


@pytest.mark.parametrize("kind", ["read-only", "loop", "folder", "fifo"])
def test_report_refuses_other_files(trained: Path, kind: str) -> None:
    with fresh_folder() as folder:
        make_decoy(folder / "out", kind)
        refused(["report", trained / "run", "-o", folder / "out"], folder)


@pytest.mark.parametrize("place", ["run/report.html", "run/metrics.jsonl", "model/config.json", "prepared/report.html"])
def test_report_is_not_written_into_directories_of_nmt(trained: Path, place: str) -> None:
    refused(["report", trained / "run", "-o", trained / place], trained)


def test_report_does_not_change_the_run(trained: Path) -> None:
    before = snapshot(trained)
    with fresh_folder():
        assert run_command("report", trained / "run").exit_code == 0
        assert Path("report.html").exists()
    assert snapshot(trained) == before


def test_modes_of_outputs_follow_the_umask(trained: Path) -> None:
    """Other accounts can read outputs if the umask permits it."""
    for path in trained.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o777
            umask = os.umask(0)
            os.umask(umask)
            assert mode == (0o777 if path.is_dir() else 0o666) & ~umask, path
