"""The languages of a parallel text: as stated, as in the file or in the names of files, or as the text shows them.

Training on swapped sides would go unnoticed until the end, so `nmt prepare` checks the texts of a recipe.
"""

import re
from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.config import CorpusFile, LanguagePair, Recipe
from nmt.errors import ConfigError, DataError
from nmt.text.corpus import first_records, named_languages, read_pairs
from nmt.text.languages import found_instead, is_language, is_traditional, language_of, primary_code
from nmt.text.preparing.audit import sample_of
from nmt.text.readers import SentencePair

OPTION = "--languages"
_CODE = r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,8})?"
_EXTENSIONS = ("gz", "bz2", "xz", "zst", "zip", "txt", "tsv", "csv")
_EXAMPLES, _SHOWN = 3, 100  # lines, and characters of a line
_ID = re.compile(r"\S*(\d|://)\S*")


class Direction(NamedTuple):
    """The languages, and where they come from: `--languages`, `the file`, `the file names` or `the text`."""

    source: str
    target: str
    origin: str


def known_direction(option: str | None, corpus: CorpusFile) -> Direction | None:
    """Return the languages of `--languages en-it`, or those in a file such as TMX, or in the names of files, or None.

    Raises ConfigError for an option of another form, and for a file in more than two languages.
    """
    if option is not None:
        match = re.fullmatch(f"({_CODE})-({_CODE})", option)
        if match is None:
            raise ConfigError(f"{OPTION}: found {option!r}, expected two language codes such as en-it or en-zh_Hant")
        return Direction(match[1], match[2], OPTION)
    files, codes = list(corpus.files.values()), named_languages(corpus)
    if len(codes) > 2:
        raise ConfigError(f"{files[0]}: found the languages {', '.join(codes)}; state two: {OPTION} en-it")
    return Direction(_short(codes[0]), _short(codes[1]), "the file") if codes[1:] else named_direction(files)


def named_direction(files: Sequence[Path]) -> Direction | None:
    """Return the languages in the names of files, None if there are none.

    Two files are named by what differs in their names: `text.en` and `text.it`, `eng_Latn.dev` and `ita_Latn.dev`. The
    name of one file has both, as in `en-it.tsv`.
    """
    if len(files) == 1:
        found = re.findall(f"(?<![A-Za-z])({_CODE})-({_CODE})(?![A-Za-z])", files[0].name)
    else:
        names = [[part for part in file.name.split(".") if part not in _EXTENSIONS] for file in files]
        found = [parts for parts in zip(*map(reversed, names), strict=False) if parts[0] != parts[1]]
    for source, target in found:
        if all(re.fullmatch(_CODE, code) and is_language(code) for code in (source, target)):
            return Direction(_short(source), _short(target), "the file names")
    return None


def _short(code: str) -> str:
    """Return a code in the form of recipes: without script and region, except for Traditional Chinese."""
    return "zh-Hant" if primary_code(code) == "zh" and is_traditional(code) else primary_code(code)


class WrongSides(NamedTuple):
    """What shows that a text is not in its languages."""

    # A line for each wrong side, each followed by lines of the text.
    evidence: str
    # The languages or scripts of the sides as they are.
    found: tuple[str, str]
    # Whether each side is in the language of the other.
    swapped: bool


def wrong_sides(pairs: Sequence[SentencePair], direction: Direction, files: Sequence[Path]) -> WrongSides | None:
    """Return what shows that a text, given by a sample, is certainly not in its languages; None if nothing does."""
    codes, found, evidence = (direction.source, direction.target), list[str](), list[str]()
    for side, code in enumerate(codes):
        lines = [((pair.source, pair.target)[side], pair.line) for pair in pairs]
        found.append(found_instead([line for line, _ in lines], code) or code)
        if found[-1] != code:
            name = str(files[side]) if len(files) == 2 else f"{files[0]}, {('source', 'target')[side]}"
            evidence.append(f"  {name}: expected {code} ({direction.origin}), found {found[-1]}:")
            readable = (f"    line {number}: {line.strip()}" for line, number in lines if 20 <= len(line) <= _SHOWN)
            evidence += islice(readable, _EXAMPLES)
    swapped = list(map(primary_code, found)) == list(map(primary_code, reversed(codes)))
    return WrongSides("\n".join(evidence), (found[0], found[1]), swapped) if evidence else None


def checked_direction(
    known: Direction | None, files: Sequence[Path], pairs: Sequence[SentencePair]
) -> tuple[Direction, str | None]:
    """Return the languages of a text, the known ones or else those that it shows, and a warning if it is in others.

    Raises ConfigError, with lines of the text, if it is not in the known languages, unless these are stated with
    `--languages`, and without lines if the text does not show its languages.
    """
    if known is None:
        source, target = language_of([pair.source for pair in pairs]), language_of([pair.target for pair in pairs])
        if source is None or target is None or source == target:
            advice = f"state them: {OPTION} en-it"
            raise ConfigError(f"{files[0]}: neither the names of the files nor the text show the languages; {advice}")
        return Direction(source, target, "the text"), None
    wrong = wrong_sides(pairs, known, files)
    if wrong is None:
        return known, None
    if wrong.swapped and len(files) == 1 and known.origin == "the file names":  # ita-eng.zip may begin with English
        return Direction(known.target, known.source, "the text"), None
    stated = f"{known.source}-{known.target}"
    advice = f"Give the right files, or state the languages, which are then used: {OPTION} {stated}"
    if wrong.swapped:
        order = f"{files[1]} {files[0]}" if len(files) == 2 else "a file with the sides in the other order"
        advice = (
            f"The sides are swapped. For {known.source} to {known.target}, give {order} {OPTION} {stated}; for "
            f"{known.target} to {known.source}, give the same files and {OPTION} {'-'.join(wrong.found)}"
        )
    explained = f"the text is not in its languages:\n{wrong.evidence}\n{advice}"
    if known.origin == OPTION:
        return known, f"{explained}. The languages are taken as stated"
    raise ConfigError(explained)


def check_languages(recipe: Recipe) -> None:
    """Raise DataError, with lines of the text, if a text is certainly not in the languages of the recipe.

    Texts of fewer than 100 lines, and languages that cannot be told apart, are not checked.
    """
    if "language" in recipe.data.filters.keep:
        return
    for key, corpus in {**recipe.data.prepared_texts, **recipe.data.test_texts}.items():
        languages = recipe.languages_of(corpus)
        direction = Direction(languages.source, languages.target, "`languages`")
        wrong = wrong_sides(sample_of(read_pairs(corpus, languages)), direction, list(corpus.files.values()))
        if wrong is not None:
            advice = "Name other files, set the `columns` of a table, or change `languages`"
            if wrong.swapped:
                sides = "`source` and `target`" if corpus.source is not None else "the two `columns`"
                advice = f"The sides are swapped: exchange {sides} of this text, or source and target of `languages`"
            raise DataError(
                f"{key}: the text is not in its languages:\n{wrong.evidence}\n{advice}; or, if the text is right, set "
                "data.filters.keep: [language]"
            )


def with_text_columns(corpus: CorpusFile, languages: LanguagePair | None) -> CorpusFile:
    """Return a corpus with the first two columns that hold text in most lines: exports have ids and codes beside it.

    A corpus with fewer such columns, with a line that names them, or in another format is returned as it is.
    """
    records = first_records(corpus, languages)
    if not records or _are_named(records):
        return corpus
    columns = enumerate(zip_longest(*records, fillvalue=""), start=1)
    text = [number for number, cells in columns if 2 * sum(map(_is_text, cells)) > len(records)]
    return corpus.model_copy(update={"columns": (text[0], text[1])}) if len(text) > 1 else corpus


def _are_named(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some records names the columns."""
    names = [cell.strip() for cell in records[0]]
    codes = {*filter(is_language, names)}  # those that the last line has too are no names
    return {"source", "target"} <= {*map(str.casefold, names)} or (len(codes) > 1 and not codes <= {*records[-1]})


def in_direction(corpus: CorpusFile, known: Direction | None) -> CorpusFile:
    """Return a corpus with its sides exchanged if its text shows that they are those of the other direction.

    Only languages that are stated with `--languages` exchange them, and never sides that a file names.
    """
    if known is None or known.origin != OPTION:
        return corpus
    languages = LanguagePair(known.source, known.target)
    wrong = wrong_sides(sample_of(read_pairs(corpus, languages)), known, list(corpus.files.values()))
    if wrong is None or not wrong.swapped:
        return corpus
    if corpus.file is None:
        return corpus.model_copy(update={"source": corpus.target, "target": corpus.source})
    records = first_records(corpus, languages)
    if not records or _are_named(records):
        return corpus
    return corpus.model_copy(update={"columns": corpus.columns[::-1]})


def _is_text(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and not _ID.fullmatch(cell) and not is_language(cell)
