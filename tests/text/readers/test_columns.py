"""TSV and CSV: columns by number or name, quotes, delimiters, and errors with the line."""

import csv
import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import Row
from nmt.text.readers.columns import Columns, first_records, read_csv, read_tsv

ENGLISH_ITALIAN = LanguagePair(source="en", target="it")


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def csv_rows(path: Path, content: str, columns: Columns = (1, 2)) -> list[Row]:
    return list(read_csv(write(path / "a.csv", content), columns, ENGLISH_ITALIAN))


def test_attribution_of_tatoeba_is_ignored(tmp_path: Path) -> None:
    credit = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #5091135 (Guybrush88)"
    path = write(tmp_path / "ita.txt", f"Hi.\tCiao!\t{credit}\r\nRun!\tCorri!\t{credit}\r\n")
    assert list(read_tsv(path, (1, 2), ENGLISH_ITALIAN)) == [(1, "Hi.", "Ciao!"), (2, "Run!", "Corri!")]


def test_quotes_of_tsv_have_no_meaning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '"Hi," he said.\t"Ciao"\n')
    assert list(read_tsv(path, (1, 2), None)) == [(1, '"Hi," he said.', '"Ciao"')]


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("it,id,en", (1, 2)),
        ("target,x,source", (1, 2)),
        ("ita,x,eng", (1, 2)),
        ("italian,x,English", (1, 2)),
        ("Italiano,x,Inglese", ("Inglese", "Italiano")),
        (" uno , due ,tre", ("tre", "uno")),
    ],
)
def test_first_line_names_columns(tmp_path: Path, head: str, columns: Columns) -> None:
    assert csv_rows(tmp_path, f"{head}\nuno,1,one\n", columns) == [(2, "one", "uno")]
    path = write(tmp_path / "a.tsv", f"{head}\nuno,1,one\n".replace(",", "\t"))
    assert list(read_tsv(path, columns, ENGLISH_ITALIAN)) == [(2, "one", "uno")]


def test_first_line_without_names_is_a_pair(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "one,uno\ntwo,due\n") == [(1, "one", "uno"), (2, "two", "due")]
    assert csv_rows(tmp_path, "en,it\nuno,one\n", (2, 1)) == [(1, "it", "en"), (2, "one", "uno")]


def test_columns_that_are_not_there_or_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:1: no column with the name 'de' .* has 'en', 'it', 'it'"):
        csv_rows(tmp_path, "en,it,it\n1,2,3\n", ("en", "de"))
    with pytest.raises(DataError, match=r"a\.csv:1: several columns with the name 'it'"):
        csv_rows(tmp_path, "en,it,it\n1,2,3\n", ("en", "it"))
    with pytest.raises(DataError, match=r"a\.csv:2: found 1 column .*expected at least 3"):
        csv_rows(tmp_path, "en,x,it\n1\n", ("en", "it"))


def test_cells_with_breaks_are_one_line_and_errors_name_the_line_of_the_record(tmp_path: Path) -> None:
    content = 'one,"uno,\r\n""due"""\n\n"t\nw\no",tre\n'
    assert csv_rows(tmp_path, content) == [(1, "one", 'uno, "due"'), (3, "", ""), (4, "t w o", "tre")]
    with pytest.raises(DataError, match=r"a\.csv:3: .*set `format: tsv`"):
        csv_rows(tmp_path, 'a,"b\nc"\n"a"b,c\n')
    with pytest.raises(DataError, match=r"a\.csv:2: .*field limit"):
        csv_rows(tmp_path, 'a,b\n"a' + ",b\n" * 100_000)
    with pytest.raises(DataError, match=r"a\.csv:2: unexpected end of data"):
        csv_rows(tmp_path, 'a,b\n"a,b\n')


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiter_is_the_regular_one(tmp_path: Path, delimiter: str) -> None:
    rows = [["Hello, world; bye", "Ciao, mondo; ciao"], ["one", "uno"], ["a, b, c", "d"], ["x;y", "z"]]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    assert [list(row[1:]) for row in csv_rows(tmp_path, text.getvalue())] == rows


cells = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1, max_size=9)


@settings(max_examples=30)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=9))
def test_csv_reader_inverts_the_writer(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("Source", "Target"), *pairs])
    folder = tmp_path_factory.mktemp("csv")
    assert [tuple(row[1:]) for row in csv_rows(folder, text.getvalue(), ("Source", "Target"))] == pairs


def test_carriage_return_within_a_csv_line_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:2: new-line character .* in quotes"):
        csv_rows(tmp_path, "one,uno\ntwo\rtre,due\n")


def test_empty_file_has_no_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "")
    assert first_records(path, True) == []
    assert first_records(path, False) == []
    assert list(read_csv(path, ("en", "it"), None)) == list(read_tsv(path, (1, 2), None)) == []


def test_random_bytes_end_with_an_error(tmp_path: Path) -> None:
    generator = random.Random(1)
    (tmp_path / "a").write_bytes(b"".join(generator.randbytes(20) + b"\n" for _ in range(10_000)))
    for read in (read_csv, read_tsv):
        with pytest.raises(DataError, match=f"^{tmp_path}/a: expected text"):
            list(read(tmp_path / "a", (1, 2), None))
