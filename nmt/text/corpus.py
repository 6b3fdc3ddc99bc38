"""Read the sentence pairs of a parallel text, in any of its formats."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from nmt.config import CorpusFile, LanguagePair, Recipe
from nmt.errors import DataError
from nmt.text.languages import is_language, nearest_codes
from nmt.text.readers import SentencePair
from nmt.text.readers.opening import COMPRESSED, limits_reported, split_member, text_members
from nmt.text.readers.tables import read_json_lines, read_objects, read_records, read_table, read_two_files
from nmt.text.readers.units import declared_languages, read_po, read_units

# Formats by the endings of file names; all others are tsv.
_FORMATS = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tmx": "units", ".xlf": "units",
    ".xliff": "units", ".sdlxliff": "units", ".mxliff": "units", ".mqxliff": "units", ".po": "po", ".pot": "po",
}  # fmt: skip
# The first pairs of a corpus, and the most of them, evenly spread, that are its sample.
FIRST_PAIRS, SAMPLE = 400_000, 40_000
_FIRST_LINES = 100  # of a table, which show its columns
# Names of columns that mean a number, not Indonesian or Norwegian, if two other languages are named.
_NUMBERS = ("id", "no")


def text_files(corpus: CorpusFile) -> dict[str, Path]:
    """Return the files on disk that a corpus is read from, by key; a file may be missing."""
    return {key: split_member(path)[0] for key, path in corpus.files.items()}


def read_pairs(corpus: CorpusFile, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a corpus in order, as they stand in the file; a blank line is a pair of empty sentences.

    `languages` select the sides of a file that names its languages; None if they are not known yet.

    Raises DataError, with file and line: no such file, what the format does not permit, two files that differ in their
    number of lines.
    """
    with limits_reported(", ".join(map(str, corpus.files.values()))):
        first, *second = parts_of(corpus, languages)
        format_, columns = format_of(first), corpus.columns
        if second:
            yield from read_two_files(first, second[0])
        elif format_ == "jsonl":
            yield from read_json_lines(first, columns, languages)
        elif format_ in ("tsv", "csv"):
            yield from read_table(first, format_ == "csv", columns, languages)
        elif columns != (1, 2):
            raise DataError(f"{first}: a file of this format has no columns; its sides are chosen by `languages`")
        else:
            yield from (read_po if format_ == "po" else read_units)(first, languages)


def pairs_of(recipe: Recipe, corpora: Iterable[CorpusFile]) -> list[SentencePair]:
    """Return the pairs of small texts."""
    return [pair for corpus in corpora for pair in read_pairs(corpus, recipe.languages_of(corpus))]


def sample_of(corpus: CorpusFile, languages: LanguagePair | None) -> list[SentencePair]:
    """Return evenly spread pairs of a corpus: at most `SAMPLE`, and at least half as many if it has so many."""
    sample, step = list[SentencePair](), 1
    for number, pair in enumerate(islice(read_pairs(corpus, languages), FIRST_PAIRS)):
        if number % step == 0:
            sample.append(pair)
            if len(sample) > SAMPLE:
                sample, step = sample[::2], 2 * step
    return sample


def named_languages(corpus: CorpusFile) -> list[str]:
    """Return the languages that a file with both languages states, in its order; [] for two files, or if none."""
    if corpus.file is None:
        return []
    first, *second = parts_of(corpus, None)
    if second:
        names = [path.suffix[1:] for path in (first, *second)]
    elif (format_ := format_of(first)) == "units":
        names = declared_languages(first)
    elif format_ == "jsonl":
        names = [key.rpartition(".")[2] for _, values in islice(read_objects(first), 1) for key in values]
    else:
        names = next(iter(first_records(corpus, None)), [])
    codes = list(filter(is_language, dict.fromkeys(map(str.strip, names))))
    return codes if len(codes) <= 2 else [code for code in codes if code.lower() not in _NUMBERS]


def first_records(corpus: CorpusFile, languages: LanguagePair | None) -> list[list[str]]:
    """Return the cells of the first lines of a corpus in columns; [] for other formats and for two files."""
    path, *second = parts_of(corpus, languages)
    if second or format_of(path) not in ("tsv", "csv"):
        return []
    return [cells for _, cells in islice(read_records(path, format_of(path) == "csv"), _FIRST_LINES)]


def parts_of(corpus: CorpusFile, languages: LanguagePair | None) -> list[Path]:
    """Return the file with both languages of a corpus, or the two files with one each; they may be in an archive.

    An archive has two files whose names end in the language codes, as in OPUS, or one file.
    """
    if corpus.file is None:
        return list(corpus.files.values())
    members = text_members(corpus.file)
    by_code = {Path(member).suffix[1:]: member for member in members}
    codes = tuple(filter(is_language, by_code)) if languages is None else nearest_codes(languages, by_code)
    if codes is not None and len(codes) == 2:
        members = [by_code[code] for code in codes]
    elif len(members) > 1:
        raise DataError(
            f"{corpus.file}: found {len(members)} texts ({', '.join(members[:10])}), whose names do not end in the "
            f"codes of two languages; name one, as {corpus.file}/{members[0]}, or the two of source and target"
        )
    return [corpus.file / member for member in members] or [corpus.file]


def format_of(path: Path) -> str:
    """Return the format that the name of a file stands for: tsv, csv, jsonl, units or po."""
    ending = (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
    return _FORMATS.get(ending, "tsv")
