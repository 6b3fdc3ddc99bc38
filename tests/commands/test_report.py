"""`nmt report`: the page of a run, its place, and refusals."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.builders import run_command, write_lines


def test_page_is_written_into_the_current_folder(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_command("report", uninterrupted)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "wrote report.html" in result.stderr
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>run</title>" in page
    assert len(page.encode()) < 6e6
    assert {path.name for path in tmp_path.iterdir()} == {"report.html"}


def test_link_to_a_run_is_followed(uninterrupted: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    assert run_command("report", uninterrupted.parent / "runs" / "latest", "-o", output).exit_code == 0
    assert output.exists()


def test_texts_that_the_page_lacks_are_named_on_stderr(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run, symlinks=True)
    (run / "prepared").mkdir(exist_ok=True)
    (run / "prepared" / "manifest.json").write_text("{}", encoding="utf-8")
    result = run_command("report", run, "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "warning: No translations of the validation text: " in result.stderr.replace("\n", " ")
    assert "make it with nmt prepare" in result.stderr.replace("\n", " ")


def test_lines_of_runs_are_refused_for_files(tmp_path: Path) -> None:
    text = write_lines(tmp_path / "text", "un gatto")
    result = run_command("report", text, "--reference", text, "--line", "1", "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "--line: it is for runs, and would have no effect on files" in result.stderr


def test_translations_without_a_reference_are_refused(tmp_path: Path) -> None:
    result = run_command("report", write_lines(tmp_path / "text", "un gatto"), "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "it is a file, not a run; a report of translations needs --reference FILE" in result.stderr


def test_folder_that_is_no_run_and_missing_library_are_errors(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "page.html"
    result = run_command("report", tmp_path, "-o", output)
    assert result.exit_code == 2
    assert "this folder is not a run" in result.stderr
    monkeypatch.setitem(sys.modules, "plotly", None)
    result = run_command("report", uninterrupted, "-o", output)
    assert result.exit_code == 2
    assert "pip install matplotlib plotly" in result.stderr
    assert not output.exists()
