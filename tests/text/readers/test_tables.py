"""TSV, CSV and two files: columns by number or name, quotes, delimiters, lines that stop corresponding, errors."""

import csv
import io
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import Columns, SentencePair
from nmt.text.readers.tables import delimiter_of, first_unrelated, read_records, read_table, read_two_files
from tests.builders import demo_pairs, write_lines


def rows(folder: Path, content: str, columns: Columns = (1, 2), is_csv: bool = True) -> list[SentencePair]:
    path = folder / ("a.csv" if is_csv else "a.tsv")
    path.write_bytes(content.encode())
    return list(read_table(path, is_csv, columns, LanguagePair(source="en", target="it")))


def test_quotes_and_further_columns_of_tsv_have_no_meaning(tmp_path: Path) -> None:
    found = rows(tmp_path, '"Hi," he said.\t"Ciao"\tCC-BY 2.0 (France)\r\nRun!\tCorri!\tCC-BY\r\n', is_csv=False)
    assert found == [('"Hi," he said.', '"Ciao"', 1), ("Run!", "Corri!", 2)]


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("it,id,en", (1, 2)),
        ("target,x,source", (1, 2)),
        ("ita,x,eng", (1, 2)),
        ("Target,x,SOURCE", (1, 2)),
        ("Italian,x,English", (1, 2)),
        ("IT,x,EN", (1, 2)),
        ("Italiano,x,Inglese", ("Inglese", "Italiano")),
        (" uno , due ,tre", ("tre", "uno")),
        ("it,id,en", (3, 1)),  # names of the stated positions
        ("it,en-GB,en", (1, 2)),  # the nearest code
    ],
)
def test_first_line_names_columns(tmp_path: Path, head: str, columns: Columns) -> None:
    content = f"{head}\nuno,1,one\n"
    assert rows(tmp_path, content, columns) == [("one", "uno", 2)]
    assert rows(tmp_path, content.replace(",", "\t"), columns, is_csv=False) == [("one", "uno", 2)]


def test_first_line_without_names_is_a_pair(tmp_path: Path) -> None:
    assert rows(tmp_path, "one,uno\ntwo,due\n") == [("one", "uno", 1), ("two", "due", 2)]
    assert rows(tmp_path, "en,it\nuno,one\n", (2, 1)) == [("it", "en", 1), ("one", "uno", 2)]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("en,it,it\n1,2,3\n", ("en", "de"), "a.csv:1: no column with the name 'de' of `columns`; the first line has"),
        ("en,it,it\n1,2,3\n", ("en", "it"), "a.csv:1: several columns with the name 'it'"),
        ("en,x,it\n1\n", ("en", "it"), "a.csv:2: found 1 columns, expected at least 3"),
        (
            "en,it\nIf it rains, I stay.,Se piove, resto.\n",
            (1, 2),
            "a.csv:2: found 4 cells, expected 2 as in the first line",
        ),
        ('a,"b\nc"\n"a"b,c\n', (1, 2), "a.csv:3: "),
        ('a,b\n"a,b\n', (1, 2), "a.csv:2: unexpected end of data; a cell with a quote, a line break or a ','"),
    ],
)
def test_errors_name_the_line_of_the_record(tmp_path: Path, content: str, columns: Columns, message: str) -> None:
    with pytest.raises(DataError) as caught:
        rows(tmp_path, content, columns)
    assert message in str(caught.value)


def test_quote_that_is_not_closed_is_reported_before_the_whole_text_is_in_ram(tmp_path: Path) -> None:
    content = 'a,b\n"a' + f"{',b' * 1000}\n" * 9000
    with pytest.raises(DataError, match=r"a\.csv:2: field larger than field limit \(16777216\)"):
        rows(tmp_path, content)


def test_cells_with_breaks_are_one_line(tmp_path: Path) -> None:
    content = 'one,"uno,\r\n""due"""\n\n"t\nw\no",tre\n'
    assert rows(tmp_path, content) == [("one", 'uno, "due"', 1), ("", "", 3), ("t w o", "tre", 4)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["", "sep={}\r\n", '"sep={}"\r\n'], ids=len)
def test_delimiter_is_the_regular_one_also_after_the_line_of_excel(tmp_path: Path, delimiter: str, first: str) -> None:
    pairs = [["Hello, world; bye", "Ciao, mondo; ciao"], ["one", "uno"], ["a, b, c", "d"], ["x;y", "z"]]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(pairs)
    found = rows(tmp_path, "\ufeff" + first.format(delimiter) + text.getvalue())
    assert found == [(*pair, number) for number, pair in enumerate(pairs, start=2 if first else 1)]
    if first:  # commas are as regular
        assert rows(tmp_path, first.format(";") + "a, b;c, d\n" * 9)[-1] == ("a, b", "c, d", 10)
    for unclear in ("sep=", "sep= ", "sep=\\t"):
        assert rows(tmp_path, f"{unclear}\na{delimiter}b\n") == [("a", "b", 2)]


@pytest.mark.parametrize(("line", "delimiter"), [("a;b;c, d\n", ";"), ("text\n", ","), ("", ","), ('"a;b",c\n', ",")])
def test_delimiter_of_one_line(line: str, delimiter: str) -> None:
    assert delimiter_of([line]) == delimiter


def test_delimiter_is_outside_quotes_also_if_the_sample_ends_inside() -> None:
    lines = ['"one, two";"uno, due"\n', '"three;\n', "a, b;\n", 'four"'] * 40
    assert delimiter_of(lines) == ";"


cells = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1, max_size=9)


@settings(max_examples=30)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=9))
def test_csv_reader_inverts_the_writer(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("Source", "Target"), *pairs])
    folder = tmp_path_factory.mktemp("csv")
    assert [row[:2] for row in rows(folder, text.getvalue(), ("Source", "Target"))] == pairs


def test_empty_file_has_no_records(tmp_path: Path) -> None:
    for is_csv in (True, False):
        assert rows(tmp_path, "", is_csv=is_csv) == rows(tmp_path, "", ("en", "it"), is_csv=is_csv) == []
        assert list(read_records(tmp_path / ("a.csv" if is_csv else "a.tsv"), is_csv)) == []


def lengths(count: int, seed: int = 1, spread: float = 0.2) -> tuple[list[int], list[int]]:
    """Return lengths of sentences and of their translations, whose ratio is lognormal."""
    generator = np.random.default_rng(seed)
    sources = generator.lognormal(3.5, 0.5, count)
    targets = 1.1 * sources * generator.lognormal(0, spread, count)
    return [int(length) + 1 for length in sources], [int(length) + 1 for length in targets]


@pytest.mark.parametrize("extra", [1, -1, 20, -500])
def test_planted_change_is_found_in_its_block_or_the_next(extra: int) -> None:
    for seed in range(20):
        place = random.Random(seed).randrange(60, 4500)
        sources, targets = lengths(5000, seed)
        longer = sources if extra > 0 else targets
        longer[place:place] = lengths(abs(extra), seed + 100)[0]
        first = first_unrelated(sources, targets)
        assert first is not None
        assert -250 <= first - place <= 500


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3, 0.5])
def test_texts_that_correspond_have_no_change(spread: float) -> None:
    assert first_unrelated(*lengths(20_000, spread=spread)) is None


def test_texts_sorted_by_length_have_no_change() -> None:
    pairs = sorted(zip(*lengths(20_000), strict=True))
    assert first_unrelated(*(list(side) for side in zip(*pairs, strict=True))) is None


@pytest.mark.parametrize("count", [0, 1, 250, 1999])
def test_short_texts_are_not_judged(count: int) -> None:
    sources, targets = lengths(count)
    assert first_unrelated(sources, targets[::-1]) is None
    assert first_unrelated([5] * count, []) is None


@pytest.mark.parametrize("swapped", [False, True])
def test_files_of_unequal_length_name_the_lines_where_they_part(tmp_path: Path, swapped: bool) -> None:
    sources, targets = map(list, zip(*demo_pairs(3000), strict=True))
    del targets[400]
    write_lines(tmp_path / "long", *sources)
    write_lines(tmp_path / "short", *targets)
    names = ("short", "long") if swapped else ("long", "short")
    with pytest.raises(DataError) as caught:
        list(read_two_files(*(tmp_path / name for name in names)))
    message = re.sub(r"\S+/", "", str(caught.value))
    assert message.startswith("long:3000: no line to pair with: long has 3,000 lines, short has 2,999; by the lengths")
    place = re.search(r"a line is missing or was added at one of (\d+) to (\d+)", message)
    assert place is not None
    assert (int(place[1]), int(place[2])) in ((251, 500), (501, 750))
