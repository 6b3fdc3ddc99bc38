"""The texts of runs: test translations as they were written, validation translations by the best checkpoint."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.config import recipe_to_yaml
from nmt.report.run_records import RunRecords
from nmt.report.run_texts import common_texts, run_texts
from nmt.report.translated_text import TranslatedText
from nmt.system.console import Console
from nmt.text.languages import target_language
from tests.builders import run_command, tiny_recipe, write_lines, write_tsv
from tests.report.run_files import train_line, write_run

PAIRS = [("one cat", "un gatto"), ("two cats", "due gatti"), ("a dog", "un cane")]


def run_with_test(folder: Path, translations: list[str], name: str = "run") -> Path:
    recipe = tiny_recipe(folder / name)
    corpus = recipe.data.train[0].model_copy(update={"file": write_tsv(folder / "test.tsv", PAIRS)})
    data = recipe.data.model_copy(update={"test": (corpus,), "train": (corpus,)})
    run = write_run(
        folder / name, [train_line(10, 3.0)], recipe_to_yaml(recipe.model_copy(update={"data": data}), folder / name)
    )
    write_lines(run / "test.txt", *translations)
    return run


def text(lines: list[str], source: list[str] | None = None) -> TranslatedText:
    source = source or [pair[0] for pair in PAIRS]
    reference = [dict(PAIRS).get(line, "?") for line in source]
    return TranslatedText("test", "Test text", ("en", "it"), target_language("it"), reference, {"x": lines}, source)


def test_test_text_of_a_run(tmp_path: Path) -> None:
    run = RunRecords(run_with_test(tmp_path, ["un gatto", "due cani", "cane"]))
    (found,), problems = run_texts(run, 0, Console(quiet=True))
    assert problems == []
    assert found.systems == {run.name: ["un gatto", "due cani", "cane"]}
    assert (found.source, found.reference) == ([pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS])


def test_missing_and_changed_texts_are_explained(tmp_path: Path) -> None:
    run = RunRecords(run_with_test(tmp_path, ["un gatto"]))
    texts, (problem,) = run_texts(run, 0, Console(quiet=True))
    assert texts == []
    assert "test.txt has 1 line, but the test text has 3; it has changed since" in problem
    write_lines(run.path / "test.txt", "un gatto", "due gatti", "un cane")
    assert [one.systems for one in run_texts(run, 0, Console(quiet=True))[0]] == [
        {run.name: ["un gatto", "due gatti", "un cane"]}
    ]
    (run.path / "test.txt").unlink()
    assert "nmt train writes it when training ends" in run_texts(run, 0, Console(quiet=True))[1][0]
    (tmp_path / "test.tsv").unlink()
    _, problems = run_texts(run, 5, Console(quiet=True))
    assert any(problem.startswith("No translations of the validation text: ") for problem in problems)


def test_common_lines_of_two_runs_are_compared() -> None:
    first = text(["un gatto", "due gatti", "cane"])
    second = text(["un cane", "gatto"], ["a dog", "one cat"])
    (common,), problems = common_texts([first], [second], ("A", "B"))
    assert problems == []
    assert common.source == ["one cat", "a dog"]
    assert common.systems == {"A": ["un gatto", "cane"], "B": ["gatto", "un cane"]}
    assert "of 3" in common.note
    assert common_texts([first], [text(["x"], ["other"])], ("A", "B"))[1] == [
        "Test text: the runs have no sentence pair in common."
    ]
    assert common_texts([first], [], ("A", "B"))[1] == ["Test text: only one of the runs has translations of it."]


@pytest.mark.slow
def test_page_of_a_run_translates_its_validation_text(uninterrupted: Path, tmp_path: Path) -> None:
    run = RunRecords(uninterrupted)
    texts, problems = run_texts(run, 3, Console(quiet=True))
    assert problems in ([], [problems[0]] if problems else [])
    validation = texts[-1]
    assert validation.id == "validation"
    assert len(validation.systems[run.name]) == len(validation.reference) == 3
    other = shutil.copytree(uninterrupted, tmp_path / "other", symlinks=True)
    result = run_command(
        "report", uninterrupted, "--compare", other, "--validation-lines", "2", "-o", tmp_path / "page.html"
    )
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<section id="comparison"' in page
    assert "Validation text" in page
    same = run_command("report", uninterrupted, "--compare", uninterrupted, "-o", tmp_path / "page.html")
    assert same.exit_code == 2
    assert "it is the same run; name another one" in same.stderr


def test_files_of_any_systems_are_compared_without_torch(tmp_path: Path, repository: Path) -> None:
    pytest.importorskip("plotly")
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
    options = ["report", first, "--compare", second, "--reference", reference, "--source", source, "-o", page]
    command = [sys.executable, "-c", program, json.dumps(options)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    html = Path(page).read_text(encoding="utf-8")
    assert '<section id="comparison"' in html
    assert '<section id="quality"' in html
    assert f"{first} and {second}" in html


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    one, two = write_lines(tmp_path / "one", "a"), write_lines(tmp_path / "two", "a", "b")
    page = tmp_path / "page.html"
    wrong = run_command("report", one, "--reference", two, "-o", page)
    assert wrong.exit_code == 2
    assert "has 1 line, but" in wrong.stderr
    same = run_command("report", one, "--reference", one, "--compare", one, "-o", page)
    assert "it is the same file as the first one" in same.stderr
    over = run_command("report", one, "--reference", write_lines(tmp_path / "three", "a"), "-o", one)
    assert over.exit_code == 2
    assert one.read_text(encoding="utf-8") == "a\n"
    assert not page.exists()
