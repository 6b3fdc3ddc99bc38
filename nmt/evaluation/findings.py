"""Faults of single translations that need no judgement: lost numbers, repetition, another script, copies of the source.

What the source or a reference contains, too, is not a fault: `Ha ha ha ha` may be repeated, and a reference may leave a
number out. Without references, more translations are reported that are correct.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_, eq

from nmt.system.console import counted
from nmt.text.content import content_diff, lost_numbers, without_items
from nmt.text.languages import (
    HAN,
    KANA,
    SCRIPTS,
    TargetLanguage,
    Variant,
    other_variant,
    script_of,
    script_shares,
    variant_of,
)
from nmt.text.normalize import normalize
from nmt.text.words import words

# The kinds of findings and what they mean, the most serious first.
KINDS = {
    "empty": "no translation",
    "copy": "a copy of the source",
    "repetition": "words repeated in a loop",
    "script": "another script than the language's",
    "variant": "Simplified in place of Traditional Chinese or the reverse",
    "number": "a number missing or added",
    "placeholder": "a placeholder, tag, accelerator, code, URL or e-mail address missing or added",
    "punctuation": "ASCII punctuation in Chinese",
}

_LETTERS = {name: letters for name, letters in SCRIPTS.items() if name != "Japanese"} | {"Kana": KANA}
_LONGEST_UNIT = 20  # the longest repeated sequence that is searched for, in words
_ASCII_MARK = re.compile(rf"(?<=[{HAN}])(?:[,!?;](?!\d)|[.:](?![.\w/:-]))|[,!?;](?=[{HAN}])")
_WORD_LOOP = re.compile(r"([^\W\d_]{1,8}?)\1{7,}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of one line."""

    line: int  # from 1
    kind: str  # one of KINDS
    detail: str


def diagnose(
    hypotheses: Sequence[str],
    language: TargetLanguage,
    references: Sequence[Sequence[str]] = (),
    source: Sequence[str] | None = None,
) -> list[Finding]:
    """Return the findings of all lines, in order; the references and the source are parallel to the hypotheses.

    Without a source, numbers and placeholders are compared with the references. The variant of Chinese is the one that
    the language states, else that of the references.
    """
    script = _script_of_text(language, references)
    sample = (line for lines in references for line in lines[:2000])
    variant = variant_of(language.stated, sample) if language.code == "zh" else None
    findings: list[Finding] = []
    for index, text in enumerate(hypotheses):
        line = _Line(
            normalize(text),
            None if source is None else normalize(source[index]),
            [normalize(reference[index]) for reference in references],
        )
        if not line.text:
            if any(line.others):
                findings.append(Finding(index + 1, "empty", ""))
            continue
        details = [
            ("copy", _copy(line)),
            ("repetition", _repetition(line)),
            ("script", _script(line, script)),
            ("variant", _variant(line, variant)),
            ("number", _number(line)),
            ("placeholder", _placeholder(line)),
            ("punctuation", _punctuation(line) if language.code == "zh" else ""),
        ]
        findings += [Finding(index + 1, kind, detail) for kind, detail in details if detail]
    return findings


def summary(findings: Sequence[Finding]) -> str:
    """Return the number of lines of each kind, such as `3 lines: copy 2, number 1`; empty without findings."""
    if not findings:
        return ""
    count = Counter(finding.kind for finding in findings)
    kinds = ", ".join(f"{kind} {count[kind]:,}" for kind in KINDS if count[kind])
    return f"{counted(len({finding.line for finding in findings}), 'line')}: {kinds}"


@dataclass(frozen=True)
class _Line:
    """A normalized translation with the normalized lines that belong to it."""

    text: str
    source: str | None
    references: list[str]

    @property
    def others(self) -> list[str]:
        return [*([] if self.source is None else [self.source]), *self.references]


def _copy(line: _Line) -> str:
    """Return a note if a sentence equals its source; single words and names may equal it."""
    if line.source is None or line.text.casefold() != line.source.casefold():
        return ""
    if any(reference.casefold() == line.text.casefold() for reference in line.references):
        return ""
    letters = re.findall(r"[^\W\d_]{2,}", without_items(line.text))
    has_sentence = len(letters) > 2 and any(word.islower() for word in letters)
    return "equals the source" if has_sentence or (line.references and letters) else ""


def _repetition(line: _Line) -> str:
    unit = _loop(line.text)
    return unit if unit and not any(_loop(other) for other in line.others) else ""


def _loop(text: str) -> str:
    """Return a unit of words that is repeated in a row, four times or more, with the number; else an empty string.

    A single character must be repeated eight times, a unit of three words or more three times.
    """
    tokens = words(text.casefold())
    for length in range(1, min(_LONGEST_UNIT, len(tokens) // 3) + 1):
        start = 0
        for equal, run in groupby(map(eq, tokens, tokens[length:])):
            size = sum(1 for _ in run)
            unit, times = tokens[start : start + length], size // length + 1
            min_times = 3 if length > 2 else 4 if len("".join(unit)) > 1 else 8
            if equal and times >= min_times and any(map(str.isalpha, "".join(unit))):
                return f"{(' ' if len(''.join(unit)) > length else '').join(unit)} × {times}"
            start += size
    loop = _WORD_LOOP.search(text)
    return f"{loop[1]} × {len(loop[0]) // len(loop[1])}" if loop else ""


def _script(line: _Line, expected: str | None) -> str:
    """Return letters of a script that neither the language nor the other lines have, or that its script is missing."""
    if expected is None:
        return ""
    text = without_items(line.text)
    known = {character for other in line.others for character in other}
    allowed = {"Latin", "Greek", expected} | ({"Han", "Kana"} if expected == "Japanese" else set())
    foreign = [
        f"{name}: {''.join(dict.fromkeys(signs))[:10]}"
        for name, letters in _LETTERS.items()
        if name not in allowed and (signs := [sign for sign in re.findall(f"[{letters}]", text) if sign not in known])
    ]
    if foreign:
        return ", ".join(foreign)
    expected_script = re.compile(f"[{SCRIPTS[expected]}]")
    if expected == "Latin" or expected_script.search(text):
        return ""
    if line.references:
        required = all(expected_script.search(reference) for reference in line.references)
    else:
        required = len(re.findall(r"\b[a-zà-ÿ]{2,}\b", text)) > 3
    return f"no {expected} character" if required and any(map(str.isalpha, text)) else ""


def _script_of_text(language: TargetLanguage, references: Sequence[Sequence[str]]) -> str | None:
    """Return the script of a language; if it is unknown, that of most letters in the references."""
    if (script := script_of(language.code)) is not None or not references:
        return script
    shares = script_shares("".join(references[0][:2000]))
    return next((name for name, share in shares.items() if share > 0.9), None)


def _variant(line: _Line, usual: Variant | None) -> str:
    """Return characters of the variant other than `usual` that no reference has; none if `usual` is None."""
    if usual is None:
        return ""
    known, other = set("".join(line.references)), "Simplified" if usual == "Traditional" else "Traditional"
    wrong = dict.fromkeys(character for character in other_variant(line.text, usual) if character not in known)
    return f"{other}: {''.join(wrong)[:10]}" if wrong else ""


def _number(line: _Line) -> str:
    return _differences([(lost_numbers(other, line.text), lost_numbers(line.text, other)) for other in line.others])


def _placeholder(line: _Line) -> str:
    return _differences([content_diff(other, line.text) for other in line.others])


def _differences(compared: Sequence[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Return what is missing or added, in this order, in comparison with each of the other lines."""
    sides: list[Counter[str]] = [reduce(and_, map(Counter, side)) for side in zip(*compared, strict=True)]
    named = zip(("missing", "added"), sides, strict=False)
    return "; ".join(f"{name} {' '.join(counter.elements())}" for name, counter in named if counter)


def _punctuation(line: _Line) -> str:
    """Return ASCII marks at Han, unless a reference has such marks too; brackets and quotes are a matter of style."""
    marks = _ASCII_MARK.findall(without_items(line.text))
    return "".join(dict.fromkeys(marks)) if marks and not any(map(_ASCII_MARK.search, line.references)) else ""
