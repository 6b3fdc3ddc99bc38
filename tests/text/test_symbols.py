"""Lines of digits and symbols by example."""

import pytest

from nmt.text.filters.symbols import mostly_symbols


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("16, 18, 27, 28, 61, 87, 104", "100% digits and symbols"),
        ("-----+------+-----", "100% digits and symbols"),
        ("x = 2 ** 10 / (3.5 - 1)", "93% digits and symbols"),
        ("It's 3:30.", None),
        ("10:30", None),
        ("iPad 167 x 167", None),
        ("你好！！！……123", None),
        ("Plain text, with 12 words.", None),
    ],
)
def test_text_of_mostly_symbols_is_found(text: str, found: str | None) -> None:
    assert mostly_symbols(text, "testo") == found
    assert mostly_symbols("text", text) == found
