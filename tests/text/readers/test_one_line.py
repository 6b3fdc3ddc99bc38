"""Texts with line breaks on one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.readers import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [("", ""), (" a  b\t", "a  b"), ("a \r\n\t b\n", "a b"), ("\n\na\u2028\n \x85b", "a b"), (" \n ", "")],
)
def test_breaks_and_the_spaces_around_them_become_a_space(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text(" \t\n\r\x85\u2028\x1fab"))
def test_any_text_equals_one_regular_expression(text: str) -> None:
    assert one_line(text) == re.sub(r"\s*[\r\n\x85\u2028\u2029]+\s*", " ", text).strip()


def test_a_million_spaces_take_no_more_time_than_letters() -> None:
    """Were each space the begin of a match, this would take hours."""
    assert one_line(f"a{' ' * 1_000_000}b") == f"a{' ' * 1_000_000}b"
