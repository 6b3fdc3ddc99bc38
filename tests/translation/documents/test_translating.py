"""Documents through `nmt translate`, with a translator that returns capitals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.text.content import content_diff
from nmt.text.items import Line, read
from nmt.translation.documents.translating import translate_html
from nmt.translation.result import Translation
from nmt.translation.translator import Translator
from tests.builders import run_command, save_model, tiny_loaded_model

SRT = "1\r\n00:00:01,000 --> 00:00:02,000\r\nThe cat\r\nsleeps.\r\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(directory, tiny_loaded_model())
    return directory


@pytest.fixture
def capitals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the translator; returns the list of lines that it is given. It loses the last item of `lost` lines."""
    given: list[str] = []

    def translation(source: str | Line) -> Translation:
        line = read(source) if isinstance(source, str) else source
        made = line._replace(text=line.text.upper())
        made = made.without(line.items[-1]) if "lost" in str(source) else made
        return Translation(
            str(source), str(made), 0.0, line=made, diff=content_diff(str(line).upper(), str(made).upper())
        )

    def translate_lines(_: Any, lines: Sequence[str | Line], *others: Any) -> list[Translation]:
        given.extend(map(str, lines))
        return list(map(translation, lines))

    monkeypatch.setattr(Translator, "translate_lines", translate_lines)
    return given


def test_file_is_translated_by_its_name(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    source, output = tmp_path / "a.srt", tmp_path / "b.srt"
    source.write_bytes(SRT.encode())
    done = run_command("translate", "-m", model, "-i", source, "-o", output)
    assert (done.exit_code, done.stdout) == (0, "")
    assert output.read_bytes() == SRT.replace("The cat", "THE CAT").replace("sleeps", "SLEEPS").encode()
    assert capitals == ["The cat sleeps."]
    assert done.stderr.splitlines()[-1].startswith("translated 1 text in ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.srt", "b.srt"]
    done = run_command("translate", "-m", model, "-i", source, "--format", "text", "-q")
    assert done.stdout == "1\n00:00:01,000 --> 00:00:02,000\nTHE CAT\nSLEEPS.\n"


def test_line_ends_indentation_and_lines_without_words_stay(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    source = tmp_path / "a.json"
    source.write_text(
        '{"a": "  One.\\r\\n\\r\\n\\tTwo.\\n42 %\\n", "b": " ", "c": "<b>{name}</b>", "d": "https://a.org"}'
    )
    done = run_command("translate", "-m", model, "-i", source, "-q")
    assert done.stdout == source.read_text().replace("One", "ONE").replace("Two", "TWO")
    assert capitals == ["One.", "Two."]


def test_messages_of_icu_stay_with_a_warning(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    source = tmp_path / "a.json"
    source.write_text('{"a": "{n, plural, one {# file} other {# files}}", "b": "Open"}')
    done = run_command("translate", "-m", model, "-i", source)
    assert done.stdout == source.read_text().replace("Open", "OPEN")
    assert "warning: 1 message of ICU with a plural or select stays as it is: a\n" in done.stderr
    assert capitals == ["Open"]


@pytest.mark.usefixtures("absolute_paths")
def test_damaged_document_changes_nothing(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    source, output = tmp_path / "a.srt", tmp_path / "b.srt"
    source.write_text("1\n00:00 --> 1\nHi\n")
    output.write_text("before")
    done = run_command("translate", "-m", model, "-i", source, "-o", output)
    assert (done.exit_code, done.stdout, output.read_text()) == (2, "", "before")
    assert done.stderr.startswith(f"error: {source}:2: found '00:00 --> 1', expected times")


def test_texts_that_differ_are_named_by_their_places(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    cues = ["one", "open lost {a}", "two", "lost {b}", "three"]
    source = tmp_path / "a.srt"
    source.write_text("\n\n".join(f"00:00:01 --> 00:00:02\n{cue}" for cue in cues))
    done = run_command("translate", "-m", model, "-i", source)
    assert done.exit_code == 0, done.stderr
    assert "2 texts whose translation differs from its source in terms, items, accelerators or numbers: " in done.stderr
    assert "numbers: line 5, line 11\n" in done.stderr


def test_many_texts_are_translated_in_order(
    model: Path, tmp_path: Path, capitals: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "batch_lines", 7)
    source = tmp_path / "a.srt"
    source.write_text("\n\n".join(f"0:0:{n} --> 0:0:{n}\nword {n}" for n in range(60)))
    done = run_command("translate", "-m", model, "-i", source, "-q")
    assert done.stdout == source.read_text().replace("word", "WORD")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--column a", "--column: the format text has no columns or keys for it; leave it out, or give another format"),
        ("--into a", "--into: the format text has no columns"),
        ("--format srt --column 1", "--column: the format srt has no columns or keys for it; leave it out"),
        ("--format json --into a", "--into: the format json has no columns or keys for it; leave it out"),
        ("--format po --exclude a", "--exclude: the format po has no columns or keys for it; leave it out"),
        ("--format sub", "--format: found sub, expected text, srt"),
        ("--format srt --json", "--json: the output of a file in the format srt is a file of this format"),
        ("--format srt --n-best 2", "--n-best: the output of a file in the format srt"),
        ("--format srt --alignment", "--alignment: the output of a file in the format srt"),
        ("--format srt --reference x", "--reference: the output of a file in the format srt"),
    ],
)
def test_options_without_effect_are_refused(model: Path, options: str, message: str) -> None:
    done = run_command("translate", "-m", model, *options.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")


def test_column_of_a_table_is_translated(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    (tmp_path / "a.CSV").write_text("id,en\n1,a cat\n2,a dog\n")
    done = run_command("translate", "-m", model, "-i", tmp_path / "a.CSV", "--column", "en", "--into", "it", "-q")
    assert done.stdout == "id,en,it\n1,a cat,A CAT\n2,a dog,A DOG\n", done.stderr


def test_file_without_texts_to_translate_is_explained(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    (tmp_path / "a.csv").write_text("en,it\na cat,UN GATTO\n")
    done = run_command("translate", "-m", model, "-i", tmp_path / "a.csv", "--column", "en", "--into", "it")
    assert done.stdout == "en,it\na cat,UN GATTO\n"
    assert "a.csv: nothing to translate: all have a text in it already, which is kept; empty it to tr" in done.stderr
    (tmp_path / "a.srt").write_text("")
    done = run_command("translate", "-m", model, "-i", tmp_path / "a.srt")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "a.srt: nothing to translate: it has no text" in done.stderr
    (tmp_path / "a.json").write_text('{"Where is the station?": "", "b": "42"}')
    done = run_command("translate", "-m", model, "-i", tmp_path / "a.json")
    assert "a.json: nothing to translate: no text has a letter: Where is the station?, b\n" in done.stderr
    assert "translated 0 texts in 0.0 s; 2 without a letter\n" in done.stderr


def test_stream_is_a_document_by_its_content(model: Path, capitals: list[str]) -> None:
    done = run_command("translate", "-m", model, "-q", stdin=SRT)
    assert done.stdout == SRT.replace("The cat", "THE CAT").replace("sleeps", "SLEEPS").replace("\r", "")
    assert run_command("translate", "-m", model, "-q", stdin="{0} files\n").stdout == "{0} FILES\n"
    refused = run_command("translate", "-m", model, stdin="<?xml version='1.0'?><tmx></tmx>")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "error: standard input: files of XML are not translated" in refused.stderr
    as_lines = run_command("translate", "-m", model, "-q", "--format", "text", stdin=SRT)
    assert as_lines.stdout == "1\n00:00:01,000 --> 00:00:02,000\nTHE CAT\nSLEEPS.\n"
    table = run_command("translate", "-m", model, stdin="a,b\n1,2\n3,4\n")
    assert table.stderr.startswith(
        "error: --column: which column is translated? give its name or number; found a, b; for l"
    )


def test_wrapped_sentences_are_joined_and_wrapped_again(model: Path, tmp_path: Path, capitals: list[str]) -> None:
    source = tmp_path / "a.po"
    source.write_text('msgid ""\n"It is so that\\n"\n"the cat sleeps. {0}\\n"\nmsgstr ""\n')
    done = run_command("translate", "-m", model, "-i", source, "-q")
    assert done.stdout.endswith('msgstr ""\n"IT IS SO THAT THE\\n"\n"CAT SLEEPS. {0}\\n"\n'), done.stdout
    assert capitals == ["It is so that the cat sleeps. {0}"]


def test_html_is_translated_from_python(model: Path, capitals: list[str]) -> None:
    page = '<p title="a">Hi <b>you</b> &amp; me</p>'
    translator = Translator.load(model)
    assert translate_html(translator, page) == '<p title="A">HI <b>YOU</b> &amp; ME</p>'
    with pytest.raises(TypeError, match="translate_html: expected a string, found None"):
        translate_html(translator, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="options: expected what Translator"):
        translate_html(translator, page, "it")  # type: ignore[arg-type]
