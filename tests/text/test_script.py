"""Scripts of lines by example."""

import pytest

from nmt.text.filters.script import ScriptCheck


@pytest.mark.parametrize(
    ("language", "is_target", "text", "is_wrong"),
    [
        ("it", True, "ciao", False),
        ("it", True, "10:30", False),
        ("it", True, "你好", True),
        ("it", True, "привет, это текст о PDF", True),  # Latin letters are few
        ("it", True, "Kyïv si scrive Київ", False),
        ("it", True, "α e β", False),
        ("zh", True, "你好", False),
        ("zh", True, "10:30", True),
        ("zh", False, "10:30", False),
        ("zh", True, "print(x)", True),
        ("zh", True, "Tom 在", False),
        ("zh", True, "これは日本語のテキストです", True),
        ("ja", True, "これは日本語のテキストです", False),
        ("ja", True, "東京", False),
        ("ru", False, "hello", True),
        ("ru", False, "привет", False),
        ("ko", True, "안녕", False),
    ],
)
def test_wrong_script_is_found(language: str, is_target: bool, text: str, is_wrong: bool) -> None:
    check = ScriptCheck.of(language, is_target)
    assert check is not None
    assert (check.wrong(text) is not None) == is_wrong


def test_languages_of_several_scripts_have_no_check() -> None:
    assert ScriptCheck.of("sr", is_target=True) is None
