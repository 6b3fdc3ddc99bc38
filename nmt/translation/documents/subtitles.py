"""Subtitles: SubRip (.srt) and WebVTT (.vtt). Lines of a cue are one text; its translation is wrapped again.

https://www.w3.org/TR/webvtt1/ defines WebVTT; SubRip has no standard.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from nmt.text.languages import UNSPACED, UNSPACED_TEXT
from nmt.translation.documents.document import Content, Document, Edits, Line, Slot

_SRT_MOMENT, _VTT_MOMENT = r"\d+:\d{1,2}:\d{1,2}(?:[.,:]\d{1,3})?", r"(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}"
_TIMES = {
    "srt": (re.compile(rf"\s*{_SRT_MOMENT}\s*-->\s*{_SRT_MOMENT}(?:\s.*)?"), "00:00:01,000 --> 00:00:02,500"),
    "vtt": (re.compile(rf"\s*{_VTT_MOMENT}[ \t]+-->[ \t]+{_VTT_MOMENT}(?:[ \t].*)?"), "00:01.000 --> 00:02.500"),
}
_DASH = r"[-–—‐](?:\s+(?=\S)|(?=[^\W\d]|[\"'“‘«¿¡…]))"
# The start of a line that belongs to another speaker than the line before.
_SPEAKER = re.compile(rf"\s*(?:<(?!v)[^<>]*>|\{{\\[^{{}}]*\}})*(?:{_DASH}|<v[\s.>])")
# Spaces and the dash of a speaker, which are no part of the text.
_LEADING = re.compile(rf"\s*(?:(?:<[^<>]*>|\{{\\[^{{}}]*\}})*{_DASH})?")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_UNBROKEN = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
# A line break in whose place no space is needed.
_BREAK_BETWEEN = re.compile(rf"(?<=[{UNSPACED_TEXT}])\n(?=[{UNSPACED_TEXT}])")
# Between two characters of text without spaces, not before punctuation and not inside a tag.
_BREAK_INSIDE = re.compile(rf"(?<=[{UNSPACED_TEXT}])(?=[{UNSPACED}])(?![^<>]{{0,100}}>)")


def read_subtitles(content: Content, format_: str) -> Document:
    """Find the texts of cues: what follows a line with times, in WebVTT up to a blank line.

    In SubRip, numbers are optional, and a blank line in the text is tolerated. Blocks without times, such as NOTE,
    STYLE and REGION, have no text to translate. Raises DataError for a line that should have times, or text before the
    first ones.
    """
    lines, (times, example) = content.lines, _TIMES[format_]
    is_srt, in_cue, runs = format_ == "srt", False, list[list[Line]]([[]])
    if not is_srt and not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", content.text):
        raise content.error(0, "not WebVTT: the first line must begin with WEBVTT; for SubRip, give --format srt")
    for line, following in zip(lines, [*lines[1:], Line("", 0)], strict=False):
        if "-->" in line.text or (is_srt and re.match(_SRT_MOMENT, line.text.strip())):
            if not times.fullmatch(line.text):
                raise content.error(line.start, f"found {line.text[:60]!r}, expected times such as {example}")
            in_cue = True
            runs.append([])
        elif not line.text.strip():
            in_cue = in_cue and is_srt
            runs.append([])
        elif line.text.strip().isdigit() and "-->" in following.text:
            continue  # the number of a cue
        elif in_cue:
            if _SPEAKER.match(line.text):
                runs.append([])
            runs[-1].append(line)
        elif is_srt:
            raise content.error(line.start, f"found {line.text[:60]!r} before the times of a first subtitle")
    edits = Edits(content)
    return Document(content.name, [_slot(content, edits, run, not is_srt) for run in runs if run], edits.encoded)


def _slot(content: Content, edits: Edits, run: Sequence[Line], escaped: bool) -> Slot:
    """Return the slot of the lines of one speaker; `escaped` tells whether `&` is written as `&amp;`."""
    leading = _LEADING.match(run[0].text)
    before = leading.end() if leading else 0
    texts = [run[0].text[before:].rstrip(), *(line.text.strip() for line in run[1:])]
    widest = max(map(_width, texts))
    text = _BREAK_BETWEEN.sub("", "\n".join(texts)).replace("\n", " ")

    def form(translation: str) -> str:
        wrapped = content.line_end.join(wrap(translation, len(run), widest))
        return re.sub(r"&(?!#?\w+;)", "&amp;", wrapped) if escaped else wrapped

    text = re.sub(r"&amp;(?!#?\w+;)", "&", text) if escaped else text
    return edits.slot(text, run[0].start + before, run[-1].start + len(run[-1].text.rstrip()), form)


def wrap(text: str, count: int, widest: int) -> list[str]:
    """Break a text into at most `count` lines of similar width; fewer if none is then wider than `widest`.

    >>> wrap("Non so che cosa fare adesso", 2, widest=20)
    ['Non so che cosa', 'fare adesso']
    """
    parts = [part for word in _UNBROKEN.findall(text) for part in _BREAK_INSIDE.split(f"{word} ")]
    lines = [text]
    for most in range(1, count + 1):
        width = _width(text) // most
        while len(lines := list(_filled(parts, width))) > most:
            width += 1
        if max(map(_width, lines)) <= widest:
            break
    return lines


def _filled(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines, each filled as far as the width allows."""
    line = ""
    for part in parts:
        if line and _width(f"{line}{part}".rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += part
    yield line.rstrip()


def _width(text: str) -> int:
    """Return the columns of a text without its tags; Chinese and similar characters take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in _TAG.sub("", text))
