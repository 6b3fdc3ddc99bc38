"""Messages: control characters in names and texts are escaped."""

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.system.console import Console, printable

ATTACK = "\x1b]0;title\x07\x1b[2J\x9b31m\rname\x7f\u202etxt.exe"
ESCAPED = r"\x1b]0;title\x07\x1b[2J\x9b31m\rname\x7f\u202etxt.exe"


@given(st.text())
def test_printable_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown if character not in "\n\t")
    assert printable(shown) == shown


def test_printable_keeps_text() -> None:
    assert printable("è 今天\tअच्छा 👩\u200d👧\n") == "è 今天\tअच्छा 👩\u200d👧\n"
    assert printable(ATTACK) == ESCAPED


def test_messages_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.info(ATTACK)
    console.warn(ATTACK)
    console.error(ATTACK)
    with console.progress(ATTACK, 3) as advance:
        advance(1)
    output = capsys.readouterr()
    assert output.out == ""
    assert "\x1b" not in output.err
    assert output.err.count(ESCAPED) == 3


def test_messages_have_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Console().info("[red]x[/red] [/] :smile: http://x")
    assert capsys.readouterr().err == "[red]x[/red] [/] :smile: http://x\n"


def test_log_gets_all_messages_with_times_also_if_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    console = Console(quiet=True)
    console.log = lines.append
    for print_message in (console.info, console.warn, console.error, console.result, console.info_at_once):
        print_message(f"in {os.getcwd()}/x")
    texts = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "", line) for line in lines]
    assert texts[:3] == ["in x\n", "warning: in x\n", "error: in x\n"]
    assert texts[3:] == [f"in {os.getcwd()}/x\n"] * 2
    assert capfd.readouterr() == (texts[3], "".join(texts[1:3]))


@pytest.mark.parametrize(("quiet", "silent", "expected"), [(True, False, "warning: b\nerror: c\n"), (False, True, "")])
def test_quiet_and_silent_suppress_messages(
    capsys: pytest.CaptureFixture[str], quiet: bool, silent: bool, expected: str
) -> None:
    console = Console(quiet, silent)
    console.info("a")
    console.warn("b")
    console.error("c")
    assert capsys.readouterr().err == expected


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Console:
    """Return a console that takes stderr for a terminal of so many columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    return Console()


def plain(text: str) -> str:
    """Return text without the commands that change colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_lines_break_between_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "every word of this message is whole, whatever the width of the terminal"
    Console().info(message)
    assert capsys.readouterr().err == f"{message}\n"
    on_a_terminal(monkeypatch, 20).warn(message)
    lines = plain(capsys.readouterr().err).splitlines()
    assert max(map(len, lines)) <= 20
    assert " ".join(line.strip() for line in lines) == f"warning: {message}"


def test_paths_below_the_current_folder_are_relative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    Console().info(f"{here}/run: see '{here}/a b', run={here}/x, /mnt{here}/y, {here}, {here}-2/z")
    assert capsys.readouterr().err == f"run: see 'a b', run=x, /mnt{here}/y, {here}, {here}-2/z\n"
    Console().info(f"file://{here}/x")
    monkeypatch.chdir("/")
    Console().info("http://127.0.0.1:8000/ and /tmp/x, //host/y")
    assert capsys.readouterr().err == f"file://{here}/x\nhttp://127.0.0.1:8000/ and /tmp/x, //host/y\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("one two three four", "one two t…"),
        ("今天天气很好", "今天天气 …"),  # characters of two columns; rich fills half a one
        ("a\nb\t\x1b[2J", r"a b \x1b[…"),
    ],
)
def test_shortened_text_fits_and_keeps_characters_whole(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    assert on_a_terminal(monkeypatch, 14).shortened(text, 4) == expected


def test_message_of_a_signal_handler_is_written_past_the_buffer(capfd: pytest.CaptureFixture[str]) -> None:
    print("buffered", end="", file=sys.stderr)
    sys.stderr.flush()
    Console().info_at_once("now")
    Console(quiet=True).info_at_once("not this")
    assert capfd.readouterr().err == "bufferednow\n"


def test_progress_without_a_terminal_prints_the_share_and_the_remaining_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 60.0, 90.0, 100.0, 180.0])
    monkeypatch.setattr("nmt.system.console.time.monotonic", lambda: next(seconds))
    with Console().progress("reading", 4000, "lines") as advance:
        for amount in (1000, 1000, 500, 500):
            advance(amount)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 1,000 lines, 25%",
        "reading: 2,000 lines, 50%, 0:01:00 left",
        "reading: 3,000 lines, 75%, 0:01:00 left",
    ]
