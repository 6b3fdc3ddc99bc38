"""Read the sentence pairs of a parallel text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from nmt.config import CorpusFile, Languages
from nmt.errors import DataError
from nmt.system.console import counted
from nmt.text.opening import read_lines


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation."""

    source: str
    target: str
    file: str = field(default="", compare=False)
    """Where it was read: the file of the source sentence, or the member of an archive."""
    line: int = field(default=0, compare=False)
    """The line of that file, from 1, at which it begins."""


def text_files(corpus: CorpusFile) -> dict[str, Path]:
    """Return the files on disk that a corpus is read from, by key; a file may be missing."""
    return corpus.files


def read_pairs(corpus: CorpusFile, languages: Languages | None) -> Iterator[SentencePair]:
    """Yield the pairs of a corpus in order, as they stand in the file; a blank line is a pair of empty sentences.

    `languages` select the sides of a file that names its languages; None if they are not known yet.

    Raises DataError: a tsv line without its columns, or two files that differ in their number of lines.
    """
    if corpus.tsv is not None:
        return _read_tsv(corpus.tsv, corpus.columns)
    return _read_two_files(*corpus.files.values())


def _read_tsv(path: Path, columns: tuple[int, int]) -> Iterator[SentencePair]:
    source, target = columns
    needed = max(columns)
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) < needed:
            if line.strip():
                found = "1 column (no tab)" if len(fields) == 1 else f"{len(fields)} columns"
                raise DataError(
                    f"{path}:{number}: found {found}, expected at least {needed}, since the source is column {source} "
                    f"and the target column {target}: {line if len(line) <= 60 else line[:60] + '…'!r}. "
                    "Separate the columns with one tab, or set `columns` of this corpus in the recipe"
                )
            fields = [""] * needed
        yield SentencePair(fields[source - 1], fields[target - 1], str(path), number)


def _read_two_files(source: Path, target: Path) -> Iterator[SentencePair]:
    sources, targets = read_lines(source), read_lines(target)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets), start=1):
        if source_line is None or target_line is None:
            total = number + sum(1 for _ in (targets if source_line is None else sources))
            short, long = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"{long}:{number}: no line to pair with: {long} has {counted(total, 'line')}, {short} has "
                f"{number - 1:,}. "
                "The two files must hold a sentence and its translation on lines of the same number"
            )
        yield SentencePair(source_line, target_line, str(source), number)
