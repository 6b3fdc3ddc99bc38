"""`nmt report`: the page of a run or of files, its place, and refusals."""

import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from tests.builders import run_command, write_lines


def test_page_is_written_into_the_current_folder_and_the_run_stays(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(uninterrupted, tmp_path / "my run", symlinks=True)
    (tmp_path / "the latest").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    result = run_command("report", "the latest")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "wrote report.html" in result.stderr
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>my run</title>" in page
    assert "nmt figures DIR --model 'the latest' --text" in unescape(page)
    assert re.findall('<section id="(.*?)"', page) == [
        "translations", "training", "quality", "data", "attention", "settings",
    ]  # fmt: skip
    assert "Validation text" in page
    assert "Tree of the beam search" in page
    assert "<script" not in page
    assert len(page.encode()) < 1e6
    assert {path.name for path in tmp_path.iterdir()} == {"my run", "the latest", "report.html"}
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_runs_are_compared_and_texts_that_are_missing_are_named(uninterrupted: Path, tmp_path: Path) -> None:
    other, third = (shutil.copytree(uninterrupted, tmp_path / name, symlinks=True) for name in ("other", "third"))
    recipe = third / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 1", "seed: 7"))
    page = tmp_path / "page.html"
    result = run_command("report", uninterrupted, other, third, "-o", page)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert re.findall('<section id="(.*?)"', text) == ["runs", "curves", "comparison"]
    assert re.findall("<td>seed</td>(.*?)</tr>", text) == ["".join(f'<td class="number">{seed}</td>' for seed in "117")]
    assert "All are equally good." in text
    (other / "valid.txt").unlink()
    shutil.rmtree(other / "checkpoints")
    result = run_command("report", other, "-o", page)
    assert result.exit_code == 0, result.output
    assert "warning: No translations of the validation text: " in result.stderr.replace("\n", " ")
    assert "No sentence is drawn: " in page.read_text(encoding="utf-8")


def test_files_of_any_systems_are_compared_without_torch(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [
        write_lines(tmp_path / "a.txt", "un gatto", "due gatti"),
        write_lines(tmp_path / "other" / "a.txt", "un cane", "due gatti"),
        write_lines(tmp_path / "ref.txt", "un gatto", "due gatti"),
        write_lines(tmp_path / "source.txt", "a cat", "two cats"),
    ]
    program = "import json, sys; from nmt.cli import app; app(json.loads(sys.argv[1]), standalone_mode=False); "
    program += "print('torch' in sys.modules)"
    first, second, reference, source = map(str, files)
    page = str(tmp_path / "page.html")
    options = ["report", first, second, "--reference", reference, "--source", source, "-o", page]
    command = [sys.executable, "-c", program, json.dumps(options)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    html = Path(page).read_text(encoding="utf-8")
    assert '<section id="comparison"' in html
    assert '<section id="quality"' in html
    assert f"{first} and {second}" in html
    assert f"<summary>Against ref.txt: {second}</summary>" in html


def test_options_and_files_that_do_not_belong_together_are_refused(uninterrupted: Path, tmp_path: Path) -> None:
    one, two = write_lines(tmp_path / "one", "a"), write_lines(tmp_path / "two", "a", "b")
    page = tmp_path / "page.html"
    for arguments, message in (
        ((one, "--reference", two), "has 1 line, but"),
        ((one, one, "--reference", one), "it is the same as"),
        ((uninterrupted, uninterrupted), "it is the same as"),
        ((one,), "it is a file, not a run; a report of translations needs --reference FILE"),
        ((uninterrupted, "--source", one), "--source: it belongs to files of translations"),
        ((tmp_path,), "this folder is not a run"),
    ):
        result = run_command("report", *arguments, "-o", page)
        assert result.exit_code == 2, arguments
        assert message in " ".join(result.stderr.split())
    over = run_command("report", one, "--reference", write_lines(tmp_path / "three", "a"), "-o", one)
    assert over.exit_code == 2
    assert one.read_text(encoding="utf-8") == "a\n"
    for name in ("recipe.yaml", "lock", "best/model.safetensors"):
        content = (uninterrupted / name).read_bytes()
        result = run_command("report", uninterrupted, "-o", uninterrupted / name)
        assert (result.exit_code, "it is an input of this command" in " ".join(result.stderr.split())) == (2, True)
        assert (uninterrupted / name).read_bytes() == content
    assert not page.exists()


def test_missing_matplotlib_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.errors.find_spec", lambda name: None)
    for arguments in (("report", tmp_path, "-o", tmp_path / "page.html"), ("figures", tmp_path / "figures")):
        result = run_command(*arguments)
        assert result.exit_code == 2
        assert "run: pip install matplotlib" in result.stderr
