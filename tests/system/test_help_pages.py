"""Errors in the arguments of a command."""

import re
from types import SimpleNamespace

import pytest
from typer import BadParameter
from typer.main import get_command

from nmt.cli import app


@pytest.mark.parametrize("is_terminal", [False, True])
def test_messages_break_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    monkeypatch.setattr(
        "nmt.system.help_pages.sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: is_terminal))
    )
    monkeypatch.setenv("COLUMNS", "50")
    with pytest.raises(BadParameter.__mro__[1]) as caught:  # the error of the arguments, which has no public name
        get_command(app).main(["translate", "Hello", "world"], standalone_mode=False)
    lines = f"Error: {caught.value.format_message()}".splitlines()  # type: ignore[attr-defined]
    words = "Error: 'Hello' is not an option; the text is read from standard input: echo 'Hello world' | nmt translate"
    assert " ".join(lines) == words
    assert (max(map(len, lines)) <= 50) == is_terminal
    assert (len(lines) > 1) == is_terminal


def test_help_pages_have_no_ranges_of_numbers() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        page = command.get_help(command.make_context(name, [], resilient_parsing=True))
        assert not re.search(r"x[<>]=", page), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("export model out --to onnx", "Invalid value for '--to': 'onnx' is not one of 'ctranslate2', 'hf'."),
        (
            "translate --device gpu",
            "Invalid value for '--device': 'gpu' is not one of 'auto', 'cuda', 'mps', 'cpu'.",
        ),
        (
            "translate --precision fp16",
            "Invalid value for '--precision': 'fp16' is not one of 'auto', 'fp32', 'bf16', 'int8'.",
        ),
    ],
)
def test_message_about_a_choice_names_no_library(arguments: str, message: str) -> None:
    with pytest.raises(BadParameter.__mro__[1]) as caught:
        get_command(app).main(arguments.split(), standalone_mode=False)
    assert caught.value.format_message() == message  # type: ignore[attr-defined]
