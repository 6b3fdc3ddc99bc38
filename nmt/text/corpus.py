"""Read the sentence pairs of a parallel text, in any of its formats."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from nmt.config import CorpusFile, FileFormat, LanguagePair, Recipe
from nmt.errors import DataError
from nmt.text.languages import is_language, language_code, primary_code
from nmt.text.normalize import normalize
from nmt.text.readers import Row
from nmt.text.readers.archive import split_member, text_members
from nmt.text.readers.columns import first_records, read_csv, read_tsv
from nmt.text.readers.compression import compression_named
from nmt.text.readers.gettext import read_po
from nmt.text.readers.json_lines import language_keys, read_json_lines
from nmt.text.readers.two_files import read_two_files
from nmt.text.readers.xml_units import declared_languages, read_units

_FORMATS: dict[str, FileFormat] = {
    ".csv": "csv", ".tmx": "tmx", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff",
    ".po": "po", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
"""Formats by the suffixes of file names; all others are tsv."""
_NUMBERS = ("id", "no")
"""Headers that are rather numbers than Indonesian and Norwegian, if there are two other languages."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation."""

    source: str
    target: str
    file: str = field(default="", compare=False)
    """Where it was read: the file of the source sentence, or the member of an archive."""
    line: int = field(default=0, compare=False)
    """The line of that file, from 1, at which it begins."""

    def normalized(self) -> "SentencePair":
        """Return the pair with normalized sentences."""
        return replace(self, source=normalize(self.source), target=normalize(self.target))


class _Text(NamedTuple):
    """One file with both languages, or two with one each."""

    paths: tuple[Path, ...]
    format: FileFormat


def text_files(corpus: CorpusFile) -> dict[str, Path]:
    """Return the files on disk that a corpus is read from, by key; a file may be missing."""
    files: dict[str, Path] = {}
    for key, path in corpus.files.items():
        found = [split_member(match)[0] for match in _matches(path)] or [path]
        files |= {key if len(found) == 1 else f"{key}.{number}": match for number, match in enumerate(found)}
    return files


def way_of_reading(corpus: CorpusFile) -> str:
    """Return the format of a corpus and the members of archives that it names: what decides how files are read."""
    kind = "two files" if corpus.source is not None else format_named(*corpus.files.values())
    members = [split_member(path)[1] for path in corpus.files.values()]
    return " ".join([kind, *(member for member in members if member is not None)])


def read_pairs(corpus: CorpusFile, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a corpus in order, as they stand in the file; a blank line is a pair of empty sentences.

    `languages` select the sides of a file that names its languages; None if they are not known yet: then they are the
    first two of the file.

    Raises DataError, with file and line: no such file, what the format does not permit, two files that differ in their
    number of lines.
    """
    for name, rows in read_rows(corpus, languages):
        for line, source, target in rows:
            yield SentencePair(source, target, name, line)


def pairs_of(recipe: Recipe, corpora: Iterable[CorpusFile]) -> list[SentencePair]:
    """Return the pairs of small texts."""
    return [pair for corpus in corpora for pair in read_pairs(corpus, recipe.languages_of(corpus))]


def evenly_spread(pairs: Iterable[SentencePair], most: int) -> list[SentencePair]:
    """Return a sample of pairs with equal distances: at most so many, and at least half as many, if there are."""
    sample: list[SentencePair] = []
    step = 1
    for number, pair in enumerate(pairs):
        if number % step == 0:
            sample.append(pair)
            if len(sample) > most:
                sample, step = sample[::2], 2 * step
    return sample


def read_rows(corpus: CorpusFile, languages: LanguagePair | None) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield the name of each file of a corpus with its pairs, as `read_pairs` does, and in less time."""
    for text in _texts(corpus, languages):
        yield str(text.paths[0]), _rows(text, corpus, languages)


def named_languages(corpus: CorpusFile) -> list[str]:
    """Return the languages that the first file of a corpus states, in its order; empty if it states none."""
    text = next(_texts(corpus, None), None)
    if text is None or corpus.file is None:
        return []
    path = text.paths[0]
    if len(text.paths) == 2:
        return [path.suffix[1:] for path in text.paths]
    if text.format in ("tmx", "xliff"):
        return declared_languages(path)
    if text.format == "jsonl":
        names = [key.rpartition(".")[2] for key in language_keys(path)]
    else:
        names = next(iter(first_cells(corpus, None)), [])
    codes = list(filter(is_language, (name if is_language(name) else language_code(name) for name in names)))
    return codes if len(codes) < 3 else [code for code in codes if code.lower() not in _NUMBERS]


def first_cells(corpus: CorpusFile, languages: LanguagePair | None) -> list[list[str]]:
    """Return the cells of the first lines of a corpus in columns; [] for other formats and for two files."""
    text = next(_texts(corpus, languages), None)
    if text is None or len(text.paths) == 2 or text.format not in ("tsv", "csv"):
        return []
    return first_records(text.paths[0], text.format == "csv")


def _texts(corpus: CorpusFile, languages: LanguagePair | None) -> Iterator[_Text]:
    """Yield what a corpus consists of: patterns replaced by files, archives by their members."""
    patterns = list(corpus.files.values())
    found = [_existing(pattern) for pattern in patterns]
    if len({*map(len, found)}) > 1:
        counts = " and ".join(f"{pattern} {len(paths):,}" for pattern, paths in zip(patterns, found, strict=True))
        raise DataError(f"expected equally many files of both languages, found for {counts}")
    for paths in zip(*found, strict=True):
        members = _members(paths[0], languages) if corpus.file is not None else []
        if len(members) == 2:
            yield _Text(tuple(paths[0] / member for member in members), "tsv")
        else:
            yield _Text(paths, format_named(paths[0].joinpath(*members)))


def _existing(pattern: Path) -> list[Path]:
    """Return the files that a path stands for.

    Raises DataError if a pattern stands for none, for a folder, or for a name that is not UTF-8, as records are.
    """
    matches = _matches(pattern)
    for match in matches:
        name = os.fsencode(match).decode(errors="replace")
        if name != str(match):
            raise DataError(f"{name}: the name of this file is not UTF-8; rename it")
    if not matches:
        raise DataError(f"{pattern}: no file has such a name")
    if folder := next((match for match in matches if match.is_dir()), None):
        raise DataError(f"{folder}: expected a file, found a folder; to read the files in it: {folder}/*.SUFFIX")
    return matches


def _matches(path: Path) -> list[Path]:
    """Return the files that match a path with `*`, `?` or `[…]`, sorted; another path as it is."""
    if not glob.has_magic(str(path)) or os.path.lexists(split_member(path)[0]):
        return [path]
    return [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]


def _members(path: Path, languages: LanguagePair | None) -> Sequence[str]:
    """Return the text in an archive: one member, or two with a language each; empty for another file."""
    if path.suffix.lower() != ".zip" or not path.is_file():
        return []
    members = text_members(path)
    if languages is not None:
        sides = [primary_code(languages.source), primary_code(languages.target)]
        by_code = {primary_code(Path(member).suffix[1:]): member for member in members}
        if all(side in by_code for side in sides):
            return [by_code[side] for side in sides]
    if len(members) not in (1, 2):
        shown = f" ({', '.join(members[:10])})" if members else ""
        raise DataError(
            f"{path}: found {len(members)} texts{shown}; name one as `file: {path}/NAME`, or two as source and target"
        )
    return members


def format_named(path: Path) -> FileFormat:
    """Return the format that the name of a file stands for."""
    without = path.with_suffix("") if compression_named(path.suffix.lower()) is not None else path
    return _FORMATS.get(without.suffix.lower(), "tsv")


def _rows(text: _Text, corpus: CorpusFile, languages: LanguagePair | None) -> Iterator[Row]:
    path, columns = text.paths[0], corpus.columns
    if len(text.paths) == 2:
        return read_two_files(path, text.paths[1])
    if text.format == "tsv":
        return read_tsv(path, columns, languages)
    if text.format == "csv":
        return read_csv(path, columns, languages)
    if text.format == "jsonl":
        keys = (columns[0], columns[1]) if isinstance(columns[0], str) and isinstance(columns[1], str) else None
        if keys is None and columns != (1, 2):
            raise DataError(f"{path}: `columns` of jsonl are keys, as in [translation.en, translation.it]")
        return read_json_lines(path, keys, languages)
    if text.format == "po":
        if columns not in ((1, 2), (2, 1)):
            raise DataError(f"{path}: `columns` of a PO file are [1, 2], or [2, 1] for the reverse direction")
        return read_po(path, reverse=columns == (2, 1))
    if columns != (1, 2):
        raise DataError(f"{path}: a {text.format} file has no columns; its languages are chosen by `languages`")
    return read_units(path, languages)
