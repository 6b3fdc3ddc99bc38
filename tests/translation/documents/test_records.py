"""CSV, TSV and JSON lines: the column that is translated, and the values that stay."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.records import read_json_lines, read_table
from tests.translation.documents.writing import texts, translated

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
    document = read_table(Content("a.csv", buffer.getvalue()), "csv", "b" if into != "b" else "a", into)
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
         'id,text,it\r\n1,"Hi, ""you""","HI, ""YOU"""\r\n\r\n2,,\r\n'),
        ("sep=;\r\na;b\r\nx,y,z;Hi\r\n", "csv", "b", "c", "sep=;\r\na;b;c\r\nx,y,z;Hi;HI\r\n"),
        ('x\t"Hi"\r\n\r\ny\tHo\r\n', "tsv", "2", None, 'x\t"HI"\r\n\r\ny\tHO\r\n'),
        ("a\n" + "b" * 200_000 + "\n", "csv", "a", None, "a\n" + "B" * 200_000 + "\n"),
        ('"Text\n(en)";it\nHello;x\n', "csv", "it", None, '"Text\n(en)";it\nHello;X\n'),
        ("", "csv", "a", None, ""),
    ],
)  # fmt: skip
def test_only_the_column_differs(text: str, format_: str, column: str, into: str | None, expected: str) -> None:
    assert translated(read_table(Content("a", text), format_, column, into)).decode() == expected


def test_translation_in_tsv_has_no_tabs_and_line_ends() -> None:
    assert translated(read_table(Content("a", "x\n"), "tsv", "1"), lambda _: "a\tb\nc") == b"a b c\n"


@pytest.mark.parametrize("separator", ",;\t|")
def test_separator_is_that_of_the_first_row(separator: str) -> None:
    text = f'"a,;b,"{separator}b\n1{separator}x\n'
    assert texts(read_table(Content("a.csv", text), "csv", "b")) == ["x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "a.csv:2: found 1 columns, expected 2 as in line 1"),
        ('a,b\n1,"2\n3"\n4\n', "a.csv:4: found 1 columns, expected 2 as in line 1"),
        ('a,b\n"x\n,y', "a.csv:2: not CSV: unexpected end of data, in the row that begins in this line"),
        ('a,b\n"x"y,z', "a.csv:2: not CSV: ',' expected after '\"'"),
    ],
)
def test_damaged_table_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_table(Content("a.csv", text), "csv", "a")


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
        read_table(Content("a.csv", "a,b,x,x\n1,2,3,4\n"), "csv", column, into)


class TestJsonLines:
    LINES = '{"id":1.50,"text":"Hi"}\n\n{"text": "Ho", "it": ""}\n{"text": "\\ud800", "it": "già"}\n'

    @pytest.mark.parametrize("into", [None, "it"])
    def test_translation_replaces_the_text_or_gets_a_key(self, into: str | None) -> None:
        found = translated(read_json_lines(Content("a.jsonl", self.LINES), "text", into)).decode().split("\n")
        rows = [json.loads(line) if line else None for line in self.LINES.split("\n")]
        for row in filter(None, rows):
            if not (into and row.get(into)):
                row[into or "text"] = row["text"].upper()
        assert [json.loads(line) if line else None for line in found] == rows
        if into:
            assert found[3] == self.LINES.split("\n")[3], "a line that has a translation stays as it is"

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"a": 1}', "a.jsonl:2: found an object with the keys a, expected an object with a string for 'text'"),
            ('["text"]', "a.jsonl:2: found no object"),
            ('{"text": 3}', "a.jsonl:2: found an object with the keys text"),
            ('{"text": "a", "it": [5]}', "a.jsonl:2: --into it: found [5], expected a string"),
            ('{"text": "a"', "a.jsonl:2: not JSON: Expecting ',' delimiter at column 13"),
        ],
    )
    def test_damaged_line_is_an_error(self, line: str, message: str) -> None:
        with pytest.raises(DataError, match=re.escape(message)):
            read_json_lines(Content("a.jsonl", f'{{"text": "a"}}\n{line}'), "text", "it")

    def test_key_is_required(self) -> None:
        with pytest.raises(ConfigError, match=r"--column: which key of the lines is translated\?"):
            read_json_lines(Content("a.jsonl", "{}"), None)
