"""The languages of a parallel text: stated by an option, by the file or by file names, or detected in the text.

Training on swapped sides would go unnoticed until the end, so `nmt prepare` checks the texts of a recipe.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.config import CorpusFile, LanguagePair, Recipe
from nmt.errors import ConfigError, DataError
from nmt.text.corpus import first_records, named_languages, sample_of
from nmt.text.languages import agrees, found_instead, is_language, language_of, main_script, short_code
from nmt.text.readers import named_sides

OPTION = "--languages"
_CODE = r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,8})?"
_EXTENSIONS = ("gz", "bz2", "xz", "zst", "zip", "txt", "tsv", "csv")
_EXAMPLES, _LEAST_BYTES, _SHOWN = 3, 20, 100  # lines shown as evidence, the fewest bytes and most characters of one
_ID = re.compile(r"\S*(\d|://)\S*")


class Origin(StrEnum):
    """Where languages come from, as text for messages."""

    OPTION = OPTION
    RECIPE = "`languages`"
    FILE = "the file"
    FILE_NAMES = "the file names"
    FILE_NAME = "the name of the file"  # the languages may be in any order, as in ita-eng.zip
    TEXT = "the text"


class Direction(NamedTuple):
    """The languages, and where they come from."""

    languages: LanguagePair
    origin: Origin


def known_direction(option: str | None, corpus: CorpusFile) -> Direction | None:
    """Return the languages of `--languages en-it`, or those in a file such as TMX, or in the names of files, or None.

    Raises ConfigError for an option of another form, and for a file in more than two languages.
    """
    if option is not None:
        match = re.fullmatch(f"({_CODE})-({_CODE})", option)
        if match is None:
            raise ConfigError(f"{OPTION}: found {option!r}, expected two language codes such as en-it or en-zh_Hant")
        return Direction(LanguagePair(match[1], match[2]), Origin.OPTION)
    files, codes = list(corpus.files.values()), named_languages(corpus)
    if len(codes) > 2:
        raise ConfigError(f"{files[0]}: found the languages {', '.join(codes)}; state two: {OPTION} en-it")
    return Direction(_pair(codes), Origin.FILE) if codes[1:] else named_direction(files)


def named_direction(files: Sequence[Path]) -> Direction | None:
    """Return the languages in the names of files, None if there are none.

    For two files, they are what differs in the names: `text.en` and `text.it`, `eng_Latn.dev` and `ita_Latn.dev`. The
    name of one file has both, as in `en-it.tsv`.
    """
    if len(files) == 1:
        code_pairs = re.findall(f"(?<![A-Za-z])({_CODE})-({_CODE})(?![A-Za-z])", files[0].name)
    else:
        names = [[part for part in file.name.split(".") if part not in _EXTENSIONS] for file in files]
        code_pairs = [parts for parts in zip(*map(reversed, names), strict=False) if parts[0] != parts[1]]
    for codes in code_pairs:
        if all(re.fullmatch(_CODE, code) and is_language(code) for code in codes):
            return Direction(_pair(codes), Origin.FILE_NAMES if files[1:] else Origin.FILE_NAME)
    return None


def _pair(codes: Sequence[str]) -> LanguagePair:
    """Return two codes in the form of recipes; of one language, with script and region, as sr_Cyrl and sr_Latn."""
    short = [*map(short_code, codes)]
    return LanguagePair(*(short if short[0] != short[1] else codes))


def shown_direction(known: Direction | None, corpora: Sequence[CorpusFile]) -> Direction:
    """Return the known languages, else those of the text; the order in the name of one file is checked in the text.

    Raises ConfigError if the text does not show its languages.
    """
    if known is not None and known.origin is not Origin.FILE_NAME:
        return known
    languages = None if known is None else known.languages
    pairs = [pair for corpus in corpora for pair in sample_of(corpus, languages)]
    source, target = map(language_of, ([pair.source for pair in pairs], [pair.target for pair in pairs]))
    if known is not None:
        reverse = LanguagePair(*known.languages[::-1])
        return Direction(reverse, Origin.TEXT) if _shows((source, target), reverse) else known
    if source is None or target is None or source == target:
        name, advice = next(iter(corpora[0].files.values())), f"state them: {OPTION} en-it"
        raise ConfigError(f"{name}: neither the names of the files nor the text show the languages; {advice}")
    return Direction(LanguagePair(source, target), Origin.TEXT)


def _shows(detected: Sequence[str | None], languages: LanguagePair) -> bool:
    """Whether the languages or scripts detected on two sides, of which one may be None, agree with these languages."""
    return any(detected) and all(map(agrees, detected, languages))


class WrongSides(NamedTuple):
    """The evidence that a text is not in its languages."""

    evidence: str  # a line for each wrong side, each followed by lines of the text
    swapped: bool  # whether each side is in the language of the other


def wrong_sides(corpus: CorpusFile, direction: Direction) -> WrongSides | None:
    """Return the evidence that a text is certainly not in its languages; None if there is none.

    Texts of fewer than 100 lines, and languages that cannot be told apart, are not judged.
    """
    sample = sample_of(corpus, direction.languages)
    texts = [[pair.source for pair in sample], [pair.target for pair in sample]]
    names = list(map(str, corpus.files.values()))
    names = names if len(names) == 2 else [f"{names[0]}, source", f"{names[0]}, target"]
    evidence = list[str]()
    for name, text, code in zip(names, texts, direction.languages, strict=True):
        if (found := found_instead(text, code)) is not None:
            evidence.append(f"  {name}: expected {code} ({direction.origin}), found {found}:")
            lines = zip(text, (pair.line for pair in sample), strict=True)
            readable = [pair for pair in lines if len(pair[0].encode()) >= _LEAST_BYTES and len(pair[0]) <= _SHOWN]
            evidence += [f"    line {number}: {line.strip()}" for line, number in readable[:_EXAMPLES]]
    if not evidence:
        return None
    # without a certain language, the script; None for a column of numbers or an empty one
    detected = [language_of(text) or main_script("".join(text)) for text in texts]
    swapped = None not in detected and _shows(detected, LanguagePair(*direction.languages[::-1]))
    return WrongSides("\n".join(["the text is not in its languages:", *evidence]), swapped)


def checked_sides(corpus: CorpusFile, direction: Direction, warnings: list[str]) -> CorpusFile:
    """Return a text with its sides in the order of the languages; add a warning if it is in others than those stated.

    The sides are exchanged only if `--languages` states the languages, and never if the file names its columns.
    Raises ConfigError, with lines of the text, if it is certainly not in its languages and these are not stated.
    """
    wrong = wrong_sides(corpus, direction)
    if wrong is None:
        return corpus
    if direction.origin is not Origin.OPTION:
        codes = f"{direction.languages.source}-{direction.languages.target}"
        effect = "swapped sides are then exchanged" if wrong.swapped else "they are then used"
        advice = f"Give other files, or state the languages of the translation: {OPTION} {codes}"
        raise ConfigError(f"{wrong.evidence}\n{advice}; {effect}")
    if wrong.swapped and corpus.file is None:
        return corpus.model_copy(update={"source": corpus.target, "target": corpus.source})
    records = first_records(corpus, direction.languages)
    if wrong.swapped and records and not _are_named(records):
        return corpus.model_copy(update={"columns": corpus.columns[::-1]})
    warnings.append(f"{wrong.evidence}\nThe languages are taken as stated")
    return corpus


def check_languages(recipe: Recipe) -> None:
    """Raise DataError, with lines of the text, if a text is certainly not in the languages of the recipe."""
    if "language" in recipe.data.filters.keep:
        return
    for key, corpus in recipe.data.texts.items():
        direction = Direction(recipe.languages_of(corpus), Origin.RECIPE)
        if (wrong := wrong_sides(corpus, direction)) is not None:
            advice = "Name other files, set the `columns` of a table, or change `languages`"
            if wrong.swapped:
                sides = "`source` and `target`" if corpus.source is not None else "the two `columns`"
                advice = f"The sides are swapped: exchange {sides} of this text, or source and target of `languages`"
            keep = "or, if the text is right, set data.filters.keep: [language]"
            raise DataError(f"{key}: {wrong.evidence}\n{advice}; {keep}")


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
    codes = {*filter(is_language, names)}  # a code that is in the last line, too, is no name
    return named_sides(names, None) is not None or (len(codes) > 1 and not codes <= {*records[-1]})


def _is_text(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and not _ID.fullmatch(cell) and not is_language(cell)
