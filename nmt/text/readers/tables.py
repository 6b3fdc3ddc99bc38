"""Pairs in columns: TSV, which has no quotes, and CSV with quoted cells (RFC 4180)."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.han_variants import nearest_code
from nmt.text.readers import Columns, SentencePair, one_line, shortened
from nmt.text.readers.opening import read_lines

_SAMPLE = 100  # lines that show the delimiter of a CSV file


def read_table(path: Path, is_csv: bool, columns: Columns, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a file in columns; a blank line is a pair of empty sentences.

    Raises DataError with file and line for a line without the columns, for names that the first line does not have,
    and for invalid quoting.
    """
    records = read_records(path, is_csv)
    line, first = next(records, (0, []))
    positions = _named(f"{path}:{line}", first, columns, languages)
    text = one_line if is_csv else str
    source, target = positions or (int(columns[0]) - 1, int(columns[1]) - 1)
    for number, cells in records if positions or not line else chain([(line, first)], records):
        if len(cells) > max(source, target):
            yield SentencePair(text(cells[source]), text(cells[target]), number)
        elif any(map(str.strip, cells)):
            found = "1 column (no tab)" if len(cells) == 1 and not is_csv else f"{len(cells)} columns"
            raise DataError(
                f"{path}:{number}: found {found}, expected at least {max(source, target) + 1}, since the source is "
                f"column {source + 1} and the target column {target + 1}: {shortened('	'.join(cells))!r}. Separate "
                "the columns with one tab, or set `columns` of this corpus in the recipe; other formats are known by "
                "the ending of the name (.csv, .jsonl, .tmx)"
            )
        else:
            yield SentencePair("", "", number)


def read_records(path: Path, is_csv: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of a table with the line at which each record begins."""
    if not is_csv:
        yield from enumerate((line.split("\t") for line in read_lines(path)), start=1)
        return
    lines = (f"{line}\n" for line in read_lines(path))
    sample = list(islice(lines, _SAMPLE))
    begin, delimiter = 1, max(",;\t", key=lambda delimiter: _regular_lines(sample, delimiter))
    if sample and sample[0].strip('"\n').startswith("sep="):  # of Excel
        begin, delimiter = 2, sample.pop(0).strip('"\n').removeprefix("sep=")
        if len(delimiter) != 1:
            raise DataError(f"{path}:1: found {f'sep={delimiter}'!r}, expected one character after sep=")
    records = csv.reader(chain(sample, lines), delimiter=delimiter, strict=True)
    offset = begin
    try:
        for cells in records:
            yield begin, cells
            begin = records.line_num + offset
    except csv.Error as error:
        raise DataError(
            f"{path}:{begin}: {error}; a cell with a quote, a line break or a {delimiter!r} must be in quotes, and "
            "quotes in it doubled; if quotes have no meaning in this file, give it a name that ends in .tsv"
        ) from None


def _regular_lines(lines: Sequence[str], delimiter: str) -> int:
    """Return how many lines a delimiter divides into the same number of cells, more than one."""
    widths = Counter[int]()
    with suppress(csv.Error):  # `read_records` reports it
        widths.update(len(cells) for cells in csv.reader(lines, delimiter=delimiter) if len(cells) > 1)
    return max(widths.values(), default=0)


def _named(
    place: str, cells: Sequence[str], columns: Columns, languages: LanguagePair | None
) -> tuple[int, int] | None:
    """Return the positions of the columns if the first line names them; None if it is a pair.

    Without `columns`, or if these are its positions, it names them with the codes of the languages or with `source` and
    `target`.
    """
    names = [cell.strip() for cell in cells]
    if isinstance(columns[0], str):
        for name in map(str, columns):
            if names.count(name) != 1:
                raise DataError(
                    f"{place}: {'several columns' if name in names else 'no column'} with the name {name!r} of "
                    f"`columns`; the first line has {', '.join(map(repr, map(shortened, names[:20])))}"
                )
        return names.index(columns[0]), names.index(str(columns[1]))
    sides: list[tuple[str | None, str | None]] = [("source", "target")]
    if languages is not None:
        source = nearest_code(languages.source, tuple(names))
        sides.append((source, nearest_code(languages.target, tuple(name for name in names if name != source))))
    for source, target in sides:
        if source is not None and target is not None and names.count(source) == names.count(target) == 1:
            found = names.index(source), names.index(target)
            if columns in ((1, 2), (found[0] + 1, found[1] + 1)):
                return found
    return None
