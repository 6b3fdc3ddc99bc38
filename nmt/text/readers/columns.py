"""Pairs in columns: TSV, which has no quotes, and CSV with quoted cells (RFC 4180)."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.languages import language_code, primary_code
from nmt.text.readers import Row, one_line, shortened
from nmt.text.readers.opening import read_lines

Columns = tuple[int | str, int | str]
_DELIMITERS = ",;\t"
_SAMPLE = 100  # lines that show the delimiter of a CSV file


def read_tsv(path: Path, columns: Columns, languages: LanguagePair | None) -> Iterator[Row]:
    """Yield the pairs of a file with columns separated by tabs; a blank line is a pair of empty sentences."""
    lines = enumerate((line.split("\t") for line in read_lines(path)), start=1)
    return _pairs(path, lines, columns, languages)


def read_csv(path: Path, columns: Columns, languages: LanguagePair | None) -> Iterator[Row]:
    """Yield the pairs of a file with cells separated by commas, semicolons or tabs; quoted cells may have them too."""
    for line, source, target in _pairs(path, _csv_records(path), columns, languages):
        yield line, one_line(source), one_line(target)


def first_records(path: Path, is_csv: bool) -> list[list[str]]:
    """Return the cells of the first lines; those of the first one may name the columns."""
    of_csv = (cells for _, cells in _csv_records(path))
    records = of_csv if is_csv else (line.split("\t") for line in read_lines(path))
    return [list(map(str.strip, cells)) for cells in islice(records, _SAMPLE)]


def _pairs(
    path: Path, records: Iterator[tuple[int, list[str]]], columns: Columns, languages: LanguagePair | None
) -> Iterator[Row]:
    first = next(records, None)
    if first is None:
        return
    named = _named_columns(f"{path}:{first[0]}", first[1], columns, languages)
    source, target = named or (int(columns[0]) - 1, int(columns[1]) - 1)
    needed = max(source, target) + 1
    for number, cells in records if named else chain([first], records):
        if len(cells) >= needed:
            yield number, cells[source], cells[target]
        elif any(map(str.strip, cells)):
            found = "1 column (no tab)" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(
                f"{path}:{number}: found {found}, expected at least {needed}, since the source is column {source + 1} "
                f"and the target column {target + 1}: {shortened('	'.join(cells))!r}. Separate the columns with one "
                "tab, or set `columns` of this corpus in the recipe, or `format` if this is another format"
            )
        else:
            yield number, "", ""


def _named_columns(
    place: str, cells: Sequence[str], columns: Columns, languages: LanguagePair | None
) -> tuple[int, int] | None:
    """Return the positions of the columns if the first line names them; None if it is a pair.

    Without `columns`, it names them with the codes of the languages or with `source` and `target`.
    """
    names = [cell.strip() for cell in cells]
    if isinstance(columns[0], str) and isinstance(columns[1], str):
        return _position(place, names, columns[0]), _position(place, names, columns[1])
    if columns != (1, 2):
        return None
    codes = [language_code(name) for name in names]
    candidates = [("source", "target")]
    if languages is not None:
        candidates.append((primary_code(languages.source), primary_code(languages.target)))
    for source, target in candidates:
        if source != target and codes.count(source) == codes.count(target) == 1:
            return codes.index(source), codes.index(target)
    return None


def _position(place: str, names: Sequence[str], name: str) -> int:
    if names.count(name) != 1:
        found = "several columns" if name in names else "no column"
        shown = ", ".join(map(repr, map(shortened, names[:20])))
        raise DataError(f"{place}: {found} with the name {name!r} of `columns`; the first line has {shown}")
    return names.index(name)


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records with the line at which each begins. Raises DataError for invalid quoting."""
    lines = (f"{line}\n" for line in read_lines(path))
    sample = list(islice(lines, _SAMPLE))
    delimiter = _delimiter(sample)
    records = csv.reader(chain(sample, lines), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for cells in records:
            yield begin, cells
            begin = records.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{begin}: {error}; a cell with a quote, a line break or a {delimiter!r} must be in quotes, and "
            "quotes in it doubled; if quotes have no meaning in this file, set `format: tsv`"
        ) from None


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that gives most lines the same number of cells, more than one."""

    def regular(delimiter: str) -> int:
        widths = Counter[int]()
        with suppress(csv.Error):  # `_csv_records` reports it
            widths.update(len(cells) for cells in csv.reader(lines, delimiter=delimiter) if len(cells) > 1)
        return max(widths.values(), default=0)

    return max(_DELIMITERS, key=regular)
