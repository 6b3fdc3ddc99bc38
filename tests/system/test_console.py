"""Messages: control characters in names and texts are escaped."""

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


def test_messages_and_tables_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.info(ATTACK)
    console.warn(ATTACK)
    console.error(ATTACK)
    console.table(ATTACK, [ATTACK], [[ATTACK]])
    with console.progress(ATTACK, 3) as advance:
        advance(1)
    output = capsys.readouterr()
    assert output.out == ""
    assert "\x1b" not in output.err
    assert output.err.count(ESCAPED) == 6


def test_messages_have_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Console().info("[red]x[/red] [/] :smile: http://x")
    assert capsys.readouterr().err == "[red]x[/red] [/] :smile: http://x\n"


@pytest.mark.parametrize(("quiet", "silent", "expected"), [(True, False, "warning: b\nerror: c\n"), (False, True, "")])
def test_quiet_and_silent_suppress_messages(
    capsys: pytest.CaptureFixture[str], quiet: bool, silent: bool, expected: str
) -> None:
    console = Console(quiet, silent)
    console.info("a")
    console.warn("b")
    console.error("c")
    console.table("", ["d"], [["e"]])
    assert capsys.readouterr().err == expected
