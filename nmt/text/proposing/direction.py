"""The languages of a parallel text: as stated, as in the names of its files, or as the text shows them.

In a table, they show which columns hold the text: exports have numbers, ids, codes and addresses beside it. Training on
swapped sides would go unnoticed until the end, so `nmt prepare` checks the texts of a recipe.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nmt.config import CorpusFile, LanguagePair, Recipe
from nmt.errors import ConfigError, DataError
from nmt.text.corpus import first_cells, named_languages, read_pairs, way_of_reading
from nmt.text.han_variants import is_traditional
from nmt.text.identification import found_instead, identify, language_of
from nmt.text.languages import is_language, language_code, primary_code
from nmt.text.proposing.profile import Line, TextProfile
from nmt.text.readers import shortened

_CODE = r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,8})?"
_EXTENSIONS = ("gz", "bz2", "xz", "zst", "zip", "txt", "tsv", "csv")
_SHOWN = 100  # characters of an example
_OPTION = "--languages"
_FIRST_PAIRS = 5_000
_SEED = 1
_LEAST_TEXT = 0.5  # share of the cells of a column of text that are text
_ID = re.compile(r"\S*(\d|://)\S*")


@dataclass(frozen=True)
class Direction:
    """The languages, and where they come from."""

    source: str
    target: str
    origin: str
    """`--languages`, `the file`, `the file names` or `the text`."""


def stated_direction(option: str) -> Direction:
    """Return the languages of `--languages en-it`. Raises ConfigError for another form."""
    match = re.fullmatch(f"({_CODE})-({_CODE})", option)
    if match is None:
        raise ConfigError(f"--languages: found {option!r}, expected two language codes such as en-it or en-zh_Hant")
    return Direction(match[1], match[2], _OPTION)


def known_direction(option: str | None, corpus: CorpusFile) -> Direction | None:
    """Return the languages of a text as stated, as in its file, such as TMX, or as in the names of its files, or None.

    Raises ConfigError for an option of another form, and for a file in more than two languages.
    """
    if option is not None:
        return stated_direction(option)
    files = list(corpus.files.values())
    codes = named_languages(corpus)
    if len(codes) > 2:
        raise ConfigError(f"{files[0]}: found the languages {', '.join(codes)}; state two: --languages en-it")
    return Direction(_short(codes[0]), _short(codes[1]), "the file") if len(codes) == 2 else named_direction(files)


def unknown_languages(direction: Direction) -> str | None:
    """Return a warning about languages that are in no table of nmt, None if there are none."""
    unknown = [code for code in (direction.source, direction.target) if not is_language(code)]
    if not unknown:
        return None
    return (
        f"{direction.origin}: nmt has no words and no script of {' and '.join(unknown)}, so the text is not compared "
        "with them; codes are those of ISO 639, such as en, it and zh"
    )


def named_direction(files: Sequence[Path]) -> Direction | None:
    """Return the languages in the names of files, None if there are none.

    Two files are named by what differs in their names: `text.en` and `text.it`, `eng_Latn.dev` and `ita_Latn.dev`. The
    name of one file has both, as in `en-it.tsv`.
    """
    if len(files) == 1:
        for pair in re.finditer(f"(?<![A-Za-z])({_CODE})-({_CODE})(?![A-Za-z])", files[0].name):
            if is_language(pair[1]) and is_language(pair[2]):
                return Direction(_short(pair[1]), _short(pair[2]), "the file name")
        return None
    names = [[part for part in file.name.split(".") if part not in _EXTENSIONS] for file in files]
    for source, target in zip(*map(reversed, names), strict=False):
        if source != target and all(re.fullmatch(_CODE, part) and is_language(part) for part in (source, target)):
            return Direction(_short(source), _short(target), "the file names")
    return None


def checked_direction(
    known: Direction | None, files: Sequence[Path], profile: TextProfile
) -> tuple[Direction, str | None]:
    """Return the languages of a text, the known ones or else those that it shows, and a warning if it is in others.

    Raises ConfigError, with lines of the text, if it is not in the known languages, unless these are stated with
    `--languages`, and without lines if the text does not show its languages.
    """
    direction = known or _shown_direction(profile)
    if direction is None:
        raise ConfigError(
            f"{files[0]}: neither the names of the files nor the text show the languages; state them: --languages en-it"
        )
    problem = mismatch(direction, files, profile)
    if problem is None:
        return direction, None
    if primary_code(direction.source) == primary_code(direction.target):
        raise ConfigError(
            f"{_OPTION}: source and target are both {direction.source}; the text looks like "
            f"{' and '.join(problem.found)}:\n{problem.evidence}\nState its languages: {_OPTION} "
            f"{'-'.join(problem.found)}"
        )
    explained = _explained(problem, direction, files)
    if direction.origin == _OPTION:
        return direction, explained
    raise ConfigError(explained)


class Mismatch(NamedTuple):
    """What shows that a text is not in its languages."""

    evidence: str
    """A line for each wrong side, each followed by lines of the text."""
    found: tuple[str, str]
    """The languages or scripts of the sides as they are."""
    swapped: bool
    """Whether each side is in the language of the other."""


def mismatch(direction: Direction, files: Sequence[Path], profile: TextProfile) -> Mismatch | None:
    """Return what shows that a text is not in its languages, None if nothing does."""
    codes, found, evidence = (direction.source, direction.target), list[str](), list[str]()
    for side, code in enumerate(codes):
        lines = profile.lines(side)
        other = found_instead([line.text for line in lines], code)
        found.append(other or code)
        if other is not None:
            place = files[side] if len(files) == 2 else f"{files[0]}, {('source', 'target')[side]}"
            evidence.append(f"  {place}: expected {code} ({direction.origin}), found {other}:")
            for line in _examples(lines, other):
                evidence.append(f"    line {line.number}: {shortened(' '.join(line.text.split()), _SHOWN)}")
    swapped = list(map(primary_code, found)) == list(map(primary_code, reversed(codes)))
    return Mismatch("\n".join(evidence), (found[0], found[1]), swapped) if evidence else None


def _examples(lines: Sequence[Line], language: str) -> list[Line]:
    """Return a few lines in a language, short ones if there are any."""
    readable = [line for line in lines if 20 <= len(line.text) <= 100] or list(lines)
    in_it = (line for line in readable if identify(line.text)[0] == language)
    return list(islice(in_it, 3)) or readable[:3]


def _explained(problem: Mismatch, direction: Direction, files: Sequence[Path]) -> str:
    """Return the mismatch and what to do."""
    stated = f"{direction.source}-{direction.target}"
    if problem.swapped:
        order = f"{files[1]} {files[0]}" if len(files) == 2 else "a file with the sides in the other order"
        advice = (
            f"The sides are swapped. For {direction.source} to {direction.target}, give {order} --languages {stated}; "
            f"for {direction.target} to {direction.source}, give the same files and --languages "
            f"{'-'.join(problem.found)}"
        )
    elif direction.origin == _OPTION:
        advice = "The languages are taken as stated"
    else:
        advice = f"Give the right files, or state the languages, which are then used: --languages {stated}"
    return "\n".join(["the text is not in its languages:", problem.evidence, advice])


def _shown_direction(profile: TextProfile) -> Direction | None:
    source, target = (language_of([line.text for line in profile.lines(side)]) for side in (0, 1))
    return None if source is None or target is None or source == target else Direction(source, target, "the text")


def _short(code: str) -> str:
    """Return a code in the form of recipes: without script and region, except for Traditional Chinese."""
    return "zh-Hant" if primary_code(code) == "zh" and is_traditional(code) else primary_code(code)


def check_languages(recipe: Recipe) -> None:
    """Raise DataError, with lines of the text, if a text is certainly not in the languages of the recipe.

    A text whose first pairs are wrong is read as a whole: its start may be unlike the rest. Texts of fewer than some
    hundred words, and languages that nmt has no words of, are not checked.
    """
    if "language" in recipe.data.filters.keep:
        return
    for key, corpus in {**recipe.data.prepared_texts, **recipe.data.test_texts}.items():
        problem = _problem(recipe, corpus, _FIRST_PAIRS)
        problem = problem and _problem(recipe, corpus, None)
        if problem is not None:
            raise DataError(
                f"{key}: the text is not in its languages:\n{problem.evidence}\n{_advice(corpus, problem)}; or, if the "
                "text is right, set data.filters.keep: [language]"
            )


def _problem(recipe: Recipe, corpus: CorpusFile, most: int | None) -> Mismatch | None:
    languages, profile = recipe.languages_of(corpus), TextProfile(_SEED)
    for pair in islice(read_pairs(corpus, languages), most):
        profile.add(pair)
    direction = Direction(languages.source, languages.target, "`languages`")
    return mismatch(direction, list(corpus.files.values()), profile)


def _advice(corpus: CorpusFile, problem: Mismatch) -> str:
    if not problem.swapped:
        columns = "set its `columns`, " if way_of_reading(corpus).split()[0] in ("tsv", "csv") else ""
        return f"Name other files, {columns}or change `languages`"
    exchange = "`source` and `target` of this text" if corpus.source is not None else "the two `columns` of this text"
    return f"The sides are swapped: exchange {exchange}, or source and target of `languages`"


def with_text_columns(corpus: CorpusFile, languages: LanguagePair | None) -> CorpusFile:
    """Return a corpus with the columns that hold its text, in the first lines of its file.

    They are the first two with text; of more columns, those in the languages, if these are known and found. A corpus
    with fewer such columns, with a line that names them, or in another format is returned as it is.
    """
    if corpus.file is None:
        return corpus
    records = first_cells(corpus, languages)
    if _has_header(records):
        return corpus
    columns = [column for column in range(max(map(len, records), default=0)) if _is_text(_cells(records, column))]
    if len(columns) > 2 and languages is not None:
        lines = {column: _cells(records, column) for column in columns}
        codes = {language_of(lines[column]): column for column in reversed(columns)}
        sides = [codes.get(primary_code(code)) for code in (languages.source, languages.target)]
        columns = [side for side in sides if side is not None] if None not in sides else columns
    if len(columns) < 2:
        return corpus
    return corpus.model_copy(update={"columns": (columns[0] + 1, columns[1] + 1)})


def _has_header(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names the columns of the text; language codes that all lines have are no names."""
    if not records:
        return False
    names = [language_code(cell) for cell in records[0]]
    of_languages = [cell for cell, name in zip(records[0], names, strict=True) if is_language(name)]
    everywhere = len(records) > 1 and {*of_languages} <= {*records[1]}
    return {"source", "target"} <= {*names} or (len(of_languages) > 1 and not everywhere)


def _cells(records: Sequence[Sequence[str]], column: int) -> list[str]:
    return [cells[column] for cells in records if len(cells) > column and cells[column]]


def _is_text(cells: Sequence[str]) -> bool:
    text = sum(any(map(str.isalpha, cell)) and not _ID.fullmatch(cell) and not is_language(cell) for cell in cells)
    return text > _LEAST_TEXT * len(cells)
