"""The content of a file: encodings, lines, and replacement of spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation.documents.document import Content, Edits


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8", None), ("utf-8-sig", None), ("utf-16", None), ("utf-16", "latin-1"), ("latin-1", "iso-8859-1")],
)
def test_content_is_written_as_it_was_read(encoding: str, declared: str | None) -> None:
    data = "è\r\nx\ry\n".encode(encoding)
    content = Content.decode(data, "file", declared)
    assert content.text == "è\r\nx\ry\n"
    assert Edits(content).encoded() == data


@given(st.text(alphabet="a\r\n\u2028", max_size=12))
def test_lines_end_as_in_universal_newlines(text: str) -> None:
    content = Content("file", text)
    expected = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [line.text for line in content.lines] == (expected if expected[-1] else expected[:-1])
    for number, line in enumerate(content.lines, 1):
        assert text.startswith(line.text, line.start)
        assert content.line_number(line.start) == number


@pytest.mark.parametrize(
    ("data", "declared", "message"),
    [
        (b"a\nb\xe8\n", None, "file:2: not UTF-8: found the byte 0xE8; convert the file: iconv"),
        (b"a", "nonsense-8", "file: declares the encoding 'nonsense-8', which is unknown"),
    ],
)
def test_content_in_another_encoding_is_refused(data: bytes, declared: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Content.decode(data, "file", declared)


def test_character_that_the_encoding_lacks_is_an_error() -> None:
    edits = Edits(Content("file", "a", "iso-8859-1"))
    edits.slot("a", 0, 1).write("猫")
    with pytest.raises(DataError, match=r"file: its encoding, iso-8859-1, has no '猫'.*; convert the file to UTF-8"):
        edits.encoded()
