"""Subtitles: SubRip (.srt) and WebVTT (.vtt). Lines of a cue are one text; its translation is wrapped again.

https://www.w3.org/TR/webvtt1/ defines WebVTT; SubRip has no standard.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise

from nmt.text.languages import UNSPACED, UNSPACED_TEXT
from nmt.translation.documents.document import Content, Document, Line, Slot

_SRT_MOMENT = r"\d+:\d{1,2}:\d{1,2}(?:[.,:]\d{1,3})?"
_SRT_TIMES = re.compile(rf"\s*{_SRT_MOMENT}\s*-->\s*{_SRT_MOMENT}(?:\s.*)?")
_VTT_MOMENT = r"(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}"
_VTT_TIMES = re.compile(rf"\s*{_VTT_MOMENT}[ \t]+-->[ \t]+{_VTT_MOMENT}(?:[ \t].*)?")
_DASH = r"[-–—‐](?:\s+(?=\S)|(?=[^\W\d]|[\"'“‘«¿¡…]))"
_SPEAKER = re.compile(rf"(?:<(?!v)[^<>]*>|\{{\\[^{{}}]*\}})*(?:{_DASH}|<v[\s.>])")
"""The start of a line that belongs to another speaker than the line before."""
_LEADING_DASH = re.compile(rf"\s*(?:<[^<>]*>|\{{\\[^{{}}]*\}})*{_DASH}")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_AMPERSAND = re.compile(r"&amp;(?!#?\w+;)")
_BARE_AMPERSAND = re.compile(r"&(?!#?\w+;)")
_UNBROKEN = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
_BREAK_BETWEEN = re.compile(rf"(?<=[{UNSPACED_TEXT}])\n(?=[{UNSPACED_TEXT}])")
"""A line break in whose place no space is needed."""
_BREAK_INSIDE = re.compile(rf"(?<=[{UNSPACED_TEXT}])(?=[{UNSPACED}])(?![^<>]{{0,100}}>)")
"""Between two characters of text without spaces, not before punctuation and not inside a tag."""


def read_srt(content: Content) -> Document:
    """Find the texts of SubRip subtitles. Raises DataError for a line that should have times, or text before the first.

    Numbers are optional, and a blank line in the text of a cue is tolerated.
    """
    lines = content.lines
    timed = [index for index, line in enumerate(lines) if "-->" in line.text]
    for index in timed:
        if not _SRT_TIMES.fullmatch(lines[index].text):
            raise content.error(
                lines[index].start,
                f"found {lines[index].text[:60]!r}, expected times such as 00:00:01,000 --> 00:00:02,500",
            )
    # the line before the times is a number
    starts = [index - (index > 0 and lines[index - 1].text.strip().isdigit()) for index in timed]
    for line in lines[: starts[0] if starts else None]:
        if line.text.strip():
            raise content.error(line.start, f"found {line.text[:60]!r} before the times of a first subtitle")
    slots: list[Slot] = []
    for times, end in zip(timed, [*starts[1:], len(lines)], strict=False):
        slots += _slots(content, lines[times + 1 : end])
    return Document(content, slots)


def read_vtt(content: Content) -> Document:
    """Find the texts of WebVTT cues. Raises DataError for a missing header, or a line that should have times.

    Blocks without times, such as NOTE, STYLE and REGION, have no text to translate.
    """
    lines = content.lines
    if not lines or not re.match(r"WEBVTT(?:[ \t]|\Z)", lines[0].text):
        raise content.error(0, "not WebVTT: the first line must begin with WEBVTT; for SubRip, give --format srt")
    slots: list[Slot] = []
    for block in _blocks(lines):
        if re.match(r"(NOTE|STYLE|REGION)(?:\s|\Z)", block[0].text):
            continue
        # a line with times ends the cue before it, also without a blank line
        timed = [index for index, line in enumerate(block) if "-->" in line.text]
        for times, end in zip(timed, [*timed, len(block)][1:], strict=True):
            if timed[0] > 1 or not _VTT_TIMES.fullmatch(block[times].text):
                raise content.error(
                    block[times].start,
                    f"found {block[times].text[:60]!r}, expected times such as 00:01.000 --> 00:02.500 as the first or "
                    "second line of a cue",
                )
            slots += [
                replace(slot, text=_AMPERSAND.sub("&", slot.text), write=partial(_escaped, slot.write))
                for slot in _slots(content, block[times + 1 : end])
            ]
    return Document(content, slots)


def _escaped(write: Callable[[str], str], text: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", write(text))


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield runs of lines between blank lines."""
    for blank, run in groupby(lines, key=lambda line: not line.text.strip()):
        if not blank:
            yield list(run)


def _slots(content: Content, lines: Sequence[Line]) -> Iterator[Slot]:
    """Yield a slot for the text of each speaker."""
    for block in _blocks(lines):
        starts = [0, *(index for index in range(1, len(block)) if _SPEAKER.match(block[index].text.lstrip()))]
        for first, end in pairwise([*starts, len(block)]):
            own = block[first:end]
            dash = _LEADING_DASH.match(own[0].text)  # it is no part of the sentence
            before = len(dash[0]) if dash else len(own[0].text) - len(own[0].text.lstrip())
            texts = [own[0].text[before:].rstrip(), *(line.text.strip() for line in own[1:])]
            write = partial(wrap, count=len(own), widest=max(map(_width, texts)), line_end=content.line_end)
            start, stop = own[0].start + before, own[-1].start + len(own[-1].text.rstrip())
            text = _BREAK_BETWEEN.sub("", "\n".join(texts)).replace("\n", " ")
            yield Slot(text, f"line {content.line_number(start):,}", start, stop, write)


def wrap(text: str, count: int, widest: int, line_end: str = "\n") -> str:
    """Break a text into at most `count` lines of similar width; fewer if none is then wider than `widest`.

    >>> wrap("Non so che cosa fare adesso", 2, widest=20)
    'Non so che cosa\\nfare adesso'
    """
    parts = [part for word in _UNBROKEN.findall(text) for part in _BREAK_INSIDE.split(f"{word} ")]
    widths = [_width(part) for part in parts]
    for lines in range(1, count + 1):
        width = _least_width(widths, lines) if lines > 1 else sum(widths) - 1
        if width <= widest or lines == count:
            starts = _starts(widths, width)
            ends = [*starts[1:], len(parts)]
            return line_end.join("".join(parts[start:end]).strip() for start, end in zip(starts, ends, strict=True))
    return text


def _least_width(widths: Sequence[int], lines: int) -> int:
    """Return the least width with which parts of these widths fill at most so many lines."""
    low, high = max(widths, default=1) - 1, sum(widths)
    return low + bisect_left(range(low, high), True, key=lambda width: len(_starts(widths, width)) <= lines)


def _starts(widths: Sequence[int], width: int) -> list[int]:
    """Return the index of the first part of each line, each filled as far as the width allows, from the first on."""
    starts, filled = [0], 0
    for index, part in enumerate(widths):
        if filled and filled + part - 1 > width:  # the last part of a line needs no space after it
            starts.append(index)
            filled = 0
        filled += part
    return starts


def _width(text: str) -> int:
    """Return the columns of a text without its tags; Chinese and similar characters take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in _TAG.sub("", text))
