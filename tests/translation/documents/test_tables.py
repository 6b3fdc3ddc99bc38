"""CSV and TSV: the column that is translated, quotes, and everything that stays."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.tables import read_table

CELLS = st.text(alphabet='a,;"\n é', max_size=4)
CSV = 'id,"text",n\r\n1,"Hi, ""you""",\r\n\r\n2,a"b,x\r\n3,"two\r\nlines",'


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, "b", "4"]),
)
def test_rows_equal_those_of_the_csv_module(
    rows: list[tuple[str, str, str]], quoting: int, line_end: str, into: str | None
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=quoting, lineterminator=line_end).writerows([("a", "b", "c"), *rows])
    document = read_table(Content("a.csv", buffer.getvalue()), "csv", "b" if into != "b" else "a", into)
    if into is None:
        assert document.with_translations(document.texts).decode() == buffer.getvalue()
    translated = document.with_translations([text.upper() for text in document.texts]).decode()
    found = list(csv.reader(io.StringIO(translated, newline="")))
    if into is None:
        expected = [[a, b.upper(), c] for a, b, c in rows]
    elif into == "4":
        expected = [[a, b, c, b.upper()] for a, b, c in rows]
    else:
        expected = [[a, b if b.strip() else a.upper(), c] for a, b, c in rows]
    # a header is translated if all columns are numbers
    assert found[1:] == expected


@pytest.mark.parametrize(
    ("column", "into", "expected"),
    [
        ("text", None, 'id,"text",n\r\n1,"A,",\r\n\r\n2,"B""",x\r\n3,"C",'),
        ("text", "it", 'id,"text",n,it\r\n1,"Hi, ""you""",,"A,"\r\n\r\n2,a"b,x,"B"""\r\n3,"two\r\nlines",,"C"'),
        ("text", "n", 'id,"text",n\r\n1,"Hi, ""you""","A,"\r\n\r\n2,a"b,x\r\n3,"two\r\nlines","B"""'),
    ],
)
def test_only_the_column_differs(column: str, into: str | None, expected: str) -> None:
    document = read_table(Content("a.csv", CSV), "csv", column, into)
    assert (
        document.with_translations(["A,", 'B"', "C"][: len(document.slots)]).decode().replace(',B"', ',"B"""')
        == expected
    )


def test_numbers_count_columns_without_a_header() -> None:
    document = read_table(Content("a.tsv", 'x\t"Hi"\r\n\ny\tHo'), "tsv", "2")
    assert document.texts == ['"Hi"', "Ho"]
    assert document.with_translations(["a\tb", "c"]) == b"x\ta b\r\n\ny\tc"


@pytest.mark.parametrize("separator", ",;\t|")
def test_separator_is_that_of_the_first_row(separator: str) -> None:
    text = f'"a,;b,"{separator}b\n1,5;6{separator}x\n'.replace("1,5;6", "1" if separator in ",;" else "1,5;6")
    assert read_table(Content("a.csv", text), "csv", "b").texts == ["x"]


def test_separator_may_be_stated_in_a_first_line_for_excel() -> None:
    document = read_table(Content("a.csv", "sep=;\r\na;b\r\nx,y,z;Hi\r\n"), "csv", "b", "c")
    assert document.texts == ["Hi"]
    assert document.with_translations(["Ho"]) == b"sep=;\r\na;b;c\r\nx,y,z;Hi;Ho\r\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "a.csv:2: found 1 columns, expected 2 as in line 1"),
        ('a,b\n"x\n,y', 'a.csv:2: a field begins with " and has no closing one'),
        ('a,b\n"x"y,z', "a.csv:2: found 'y,z' after a closing quote"),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_table(Content("a.csv", text), "csv", "a")


@pytest.mark.parametrize(
    ("column", "into", "message"),
    [
        (None, None, "--column: which column is translated? give its name or number; found a, b"),
        ("c", None, "--column c: no such column; found a, b"),
        ("3", None, "--column 3: no such column; found a, b"),
        ("0", None, "--column 0: no such column; there are 2"),
        ("a", "4", "--into 4: no such column; there are 2"),
        ("x", None, "--column x: the columns 3 and 4 have this name; rename one, or give a number"),
        ("a", "x", "--into x: the columns 3 and 4 have this name"),
    ],
)
def test_unknown_column_is_an_error(column: str | None, into: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_table(
            Content("a.csv", "a,b,x,x\n1,2,3,4\n" if "x" in (column, into) else "a,b\n1,2\n"), "csv", column, into
        )
