"""CSV and TSV: the column that is translated, and the values that stay."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from tests.translation.documents.writing import read, texts, translated

CELLS = st.text(alphabet='a,;"\n é', max_size=4)


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, "b", "4"]),
)
def test_other_cells_keep_their_values(
    rows: list[tuple[str, str, str]], quoting: int, line_end: str, into: str | None
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=quoting, lineterminator=line_end).writerows([("a", "b", "c"), *rows])
    document = read("csv", buffer.getvalue(), columns=["b" if into != "b" else "a"], into=into)
    if into is None:
        assert translated(document, str).decode() == buffer.getvalue()
    found = list(csv.reader(io.StringIO(translated(document).decode(), newline="")))
    if into is None:
        expected = [[a, b.upper(), c] for a, b, c in rows]
    elif into == "4":
        expected = [[a, b, c, b.upper()] for a, b, c in rows]
    else:
        expected = [[a, b if b.strip() else a.upper(), c] for a, b, c in rows]
    assert found[1:] == expected
    if into != "4":
        assert found[0] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "format_", "column", "into", "expected"),
    [
        ('id,text\r\n1,"Hi, ""you"""\r\n\r\n2,', "csv", "text", "it",
         'id,text,it\r\n1,"Hi, ""you""","HI, ""YOU"""\r\n\r\n2,,'),
        ('"sep=;"\na;b\nx,y;Hi\n', "csv", "b", None, '"sep=;"\na;b\nx,y;HI\n'),
        ("sep=;\r\na;b\r\nx,y,z;Hi\r\n", "csv", "b", "c", "sep=;\r\na;b;c\r\nx,y,z;Hi;HI\r\n"),
        ('x\t"Hi"\r\n\r\ny\tHo\r\n', "tsv", "2", None, 'x\t"HI"\r\n\r\ny\tHO\r\n'),
        ("a\n" + "b" * 200_000 + "\n", "csv", "a", None, "a\n" + "B" * 200_000 + "\n"),
        ('"Text\n(en)";it\nHello;x\n', "csv", "it", None, '"Text\n(en)";it\nHello;X\n'),
        ("", "csv", "a", None, ""),
    ],
)  # fmt: skip
def test_only_the_column_differs(text: str, format_: str, column: str, into: str | None, expected: str) -> None:
    assert translated(read(format_, text, columns=[column], into=into)).decode() == expected


def test_translation_in_tsv_has_no_tabs_and_line_ends() -> None:
    assert translated(read("tsv", "x\n", columns=["1"]), lambda _: "a\tb\nc") == b"a b c\n"


@pytest.mark.parametrize("separator", ",;\t|")
def test_separator_is_that_of_the_first_row(separator: str) -> None:
    text = f'"a,;b,"{separator}b\n1{separator}x\n'
    assert texts(read("csv", text, columns=["b"])) == ["x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "a:2: found 1 columns, expected 2 as in line 1"),
        ('a,b\n1,"2\n3"\n4\n', "a:4: found 1 columns, expected 2 as in line 1"),
        ('a,b\n"x\n,y', "a:2: not CSV: unexpected end of data, in the row that begins in this line"),
        ('a,b\n"x"y,z', "a:2: not CSV: ',' expected after '\"'"),
    ],
)
def test_damaged_table_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read("csv", text, columns=["a"])


def test_limit_of_cells_is_not_changed_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the process."""
    monkeypatch.setattr(csv, "field_size_limit", pytest.fail)
    assert texts(read("csv", "a\nb\n", columns=["a"])) == ["b"]


@pytest.mark.parametrize(
    ("column", "into", "message"),
    [
        (None, None, "--column: which column is translated? give its name or number; found a, b"),
        ("c", None, "--column c: no such column; found a, b"),
        ("5", None, "--column 5: no such column; found a, b"),
        ("0", None, "--column 0: no such column; there are 4"),
        ("a", "6", "--into 6: no such column; there are 4"),
        ("x", None, "--column x: the columns 3 and 4 have this name; rename one, or give a number"),
        ("a", "x", "--into x: the columns 3 and 4 have this name"),
    ],
)
def test_unknown_column_is_an_error(column: str | None, into: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read("csv", "a,b,x,x\n1,2,3,4\n", columns=[column] if column else [], into=into)
