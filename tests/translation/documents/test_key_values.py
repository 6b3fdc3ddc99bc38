"""Java's .properties and Apple's .strings: values, escapes, and everything that stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from tests.translation.documents.writing import read, texts, translated

PROPERTIES = """# a comment = not this
! not: this

title = Hello \\u00e8 you
menu.open:Open
spaced   A value \\
      in two lines
key\\ with\\=signs = x\\ty\\nz
empty=
message=You can''t open {0}
\tindented = Path C:\\\\x
"""
STRINGS = """/* A comment, "not" = "this"; */
// "not" = "this";
"title" = "Hello \\"you\\"";
  key = "Two\\nlines";
"a = b" = "x\\U00e8";
"""


@pytest.mark.parametrize(
    ("format_", "text", "expected"),
    [
        ("properties", PROPERTIES, ["Hello è you", "Open", "A value in two lines", "x\ty\nz", "", "You can't open {0}",
                                    "Path C:\\x"]),
        ("strings", STRINGS, ['Hello "you"', "Two\nlines", "xè"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_values_are_translated(format_: str, text: str, expected: list[str], line_end: str) -> None:
    text = text.replace("\n", line_end)
    assert [line.replace("\t", " ") for line in texts(read(format_, text))] == [
        one.replace("\t", " ") for one in expected
    ]
    assert translated(read(format_, text), str).decode() == text
    made = translated(read(format_, text), lambda line: line.replace("l", "L")).decode()
    kept = [line for line in text.split("\n") if not any("l" in one and one[:5] in line for one in expected)]
    assert all(
        line in made for line in kept if "two lines" not in line and "u00e8 you" not in line and "lines" not in line
    )


def test_what_is_no_entry_of_strings_is_an_error() -> None:
    with pytest.raises(DataError, match=r"^a:3: not \.strings: found 'b = \"Close;.*expected \"KEY\" = \"TEXT\";"):
        read("strings", 'a = "Open";\n\nb = "Close;\n')
    assert texts(read("strings", '{\n a = "Open";\n}\n')) == ["Open"]


def test_properties_without_other_characters_are_written_in_ascii() -> None:
    made = translated(
        read("properties", "a=Coffee\nb={0} is here, don''t go\n"), lambda line: line + " è l'È 🐈"
    ).decode()
    assert (
        made
        == "a=Coffee \\u00e8 l'\\u00c8 \\ud83d\\udc08\nb={0} is here, don''t go \\u00e8 l''\\u00c8 \\ud83d\\udc08\n"
    )
    assert translated(read("properties", "# è\na=Coffee"), lambda _: "Caffè") == "# è\na=Caffè".encode()
    assert (
        translated(read("properties", "# è\na=Coffee".encode("latin-1")), lambda _: "è 猫")
        == b"# \xe8\na=\\u00e8 \\u732b"
    )


@given(st.text(alphabet="a\\\"'\n\té {0}:=#!", max_size=8), st.sampled_from(["properties", "strings"]))
def test_what_is_written_is_read(value: str, format_: str) -> None:
    text = "a=b\n" if format_ == "properties" else '"a" = "b";\n'
    made = translated(read(format_, text), lambda _: value)
    assert [str(line).replace("\t", " ") for line in texts(read(format_, made))] == [value.replace("\t", " ")]


def test_quoted_braces_of_messages_of_java_stay_and_other_apostrophes_are_doubled() -> None:
    text = "a=Is it '{'x'}' {0}\nb=Don''t use '{0}' {1}\nc=It's {0}\n"
    made = translated(read("properties", text), lambda line: f"{line} l'ora").decode()
    assert made == "a=Is it '{'x'}' {0} l''ora\nb=Don''t use '{0}' {1} l''ora\nc=It's {0} l'ora\n"


@pytest.mark.parametrize(("format_", "text"), [("properties", "a=One\\tTwo"), ("strings", '"a" = "One\\tTwo";')])
def test_tabs_inside_a_text_stay(format_: str, text: str) -> None:
    assert translated(read(format_, text)).decode() == text.replace("One", "ONE").replace("Two", "TWO")


def test_lines_of_properties_may_end_at_a_carriage_return() -> None:
    text = "# one\ra=One\r!two\r\r  b=Two\r"
    assert translated(read("properties", text)).decode() == text.replace("One", "ONE").replace("Two", "TWO")
    text = "\\\r" * 30_000  # takes minutes if each line is searched for a key to the end of the file
    assert texts(read("properties", text)) == []
