"""The content of a file: encodings, lines, and replacement of spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation.documents.document import Content, ReadOptions

TEXT = ReadOptions("text")


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-32", None),
        ("utf-16", "latin-1"),
        ("latin-1", "l1"),
    ],
)
def test_content_is_written_as_it_was_read(encoding: str, declared: str | None) -> None:
    data = "è\r\nx\ry\n".encode(encoding)
    content = Content.decode(data, "file", TEXT, declared)
    assert content.text == "è\r\nx\ry\n"
    assert content.encode(content.text) == data


def test_two_byte_order_marks_stay() -> None:
    content = Content.decode(b"\xef\xbb\xbf\xef\xbb\xbfa", "file", TEXT)
    assert (content.text, content.encode("a")) == ("a", b"\xef\xbb\xbf\xef\xbb\xbfa")


@given(st.text(alphabet="a\r\n\u2028", max_size=12))
def test_lines_end_as_in_universal_newlines_and_at_cr_cr_lf(text: str) -> None:
    content = Content("file", text, TEXT)
    plain = text
    while "\r\r\n" in plain:
        plain = plain.replace("\r\r\n", "\r\n")
    expected = plain.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [line.text for line in content.lines] == (expected if expected[-1] else expected[:-1])
    for number, line in enumerate(content.lines, 1):
        assert text.startswith(line.text, line.start)
        assert content.line_number(line.start) == number


@pytest.mark.parametrize(
    ("data", "declared", "message"),
    [
        (b"a\nb\xe8\n", None, "file:2: not UTF-8: .* byte 0xe8 .*; convert the file: iconv"),
        (b"a", "nonsense-8", "file:1: not NONSENSE-8: unknown encoding"),
        ("Hello".encode("utf-16-le"), None, "file:1: not UTF-8: binary data, or UTF-16 without a mark"),
        (b"x" * 70, "idna", "file:1: not IDNA"),
    ],
)
def test_content_in_another_encoding_is_refused(data: bytes, declared: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Content.decode(data, "file", TEXT, declared)


def test_character_that_the_encoding_lacks_is_an_error() -> None:
    content = Content("file", "a", TEXT, "iso-8859-1")
    with pytest.raises(DataError, match=r"file: its encoding, iso-8859-1, has no '猫'.*; convert the file to UTF-8"):
        content.encode("猫")
