"""Subtitles: SubRip (.srt) and WebVTT (.vtt). Lines of a cue are one text; its translation is wrapped again.

https://www.w3.org/TR/webvtt1/ defines WebVTT; SubRip has no standard.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape, unescape

from nmt.text.items import Line, joined
from nmt.text.languages import UNSPACED_TEXT
from nmt.translation.documents.document import Content, FileLine, Replacement, Texts, formed, read_coded, width, wrap

_SRT_MOMENT, _VTT_MOMENT = r"\d+:\d{1,2}:\d{1,2}(?:[.,:]\d{1,3})?", r"(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}"
_TIMES = {
    "srt": (re.compile(rf"\s*{_SRT_MOMENT}\s*-->\s*{_SRT_MOMENT}(?:\s.*)?"), "00:00:01,000 --> 00:00:02,500"),
    "vtt": (re.compile(rf"\s*{_VTT_MOMENT}[ \t]+-->[ \t]+{_VTT_MOMENT}(?:[ \t].*)?"), "00:01.000 --> 00:02.500"),
}
# Damaged times, since the text of a subtitle may be a time or have an arrow.
_LIKE_TIMES = re.compile(rf"\s*{_SRT_MOMENT}\s*[-–—=]*>+\s*{_SRT_MOMENT}")
_SMALL = "".join(filter(str.islower, map(chr, range(0x250))))  # letters of Latin, also with accents
# Tags, and the dash of another speaker in the line; between spaces, one before a small letter divides a sentence.
_TAG = re.compile(
    r"(<rt>[^<>]*</rt>|</?[A-Za-z][^<>]*>|<[\d:.]+>|\{\\[^{}]*\}|(?<=[.!?…\"”])\s+[-–—](?=[^\W\d])"
    rf"|(?<=[.!?…])\s+[-–—]\s+(?=[\"'“‘«¿¡]?[^\W\d_{_SMALL}]))"
)
_DASH = r"(?:[-–—‐](?:\s+(?=\S)|(?=[^\W\d]|[\"'“‘«¿¡…]))|(?:>>+|[♪♫]+)\s*(?=\S))"
# The start of a line that belongs to another speaker than the line before.
_SPEAKER = re.compile(rf"\s*(?:<(?!v)[^<>]*>|\{{\\[^{{}}]*\}})*(?:{_DASH}|<v[\s.>])")
# Spaces and the dash of a speaker, which are no part of the text.
_LEADING = re.compile(rf"\A\s*(?:(?:<[^<>]*>|\{{\\[^{{}}]*\}})*{_DASH})?")
# A line break in whose place no space is needed.
_BREAK_BETWEEN = re.compile(rf"(?<=[{UNSPACED_TEXT}])\n(?=[{UNSPACED_TEXT}])")


def read_subtitles(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the texts of cues: what follows a line with times, in WebVTT up to an empty line.

    In SubRip, numbers are optional, and blank lines in the text and after numbers are tolerated. Blocks without times,
    such as NOTE, STYLE and REGION, have no text to translate. Raises DataError for a line that should have times, or
    text before the first ones.
    """
    lines, (times, example), is_srt = content.lines, _TIMES[content.options.format], content.options.format == "srt"
    in_cue, runs, two_above, above = False, list[list[FileLine]]([[]]), "", ""  # the lines above
    if not is_srt and not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", content.text):
        raise content.error(0, "not WebVTT: the first line must begin with WEBVTT; for SubRip, give --format srt")
    for index, line in enumerate(lines):
        text = line.text.strip("\ufeff \t")
        following = next((line.text for line in lines[index + 1 : index + 4] if line.text.strip()), "")
        is_number, follows_number = text.isdigit() and "-->" in following, above.isdigit() and not two_above
        if times.fullmatch(line.text):
            in_cue = True
            runs.append([])
        elif ("-->" in text and (not is_srt or follows_number)) or (is_srt and _LIKE_TIMES.match(text)):
            raise content.error(line.start, f"found {line.text[:60]!r}, expected times such as {example}")
        elif not text:
            in_cue = in_cue and (is_srt or line.text != "")
            runs.append([])
        elif in_cue and not is_number:
            if _SPEAKER.match(line.text):
                runs.append([])
            runs[-1].append(line)
        elif is_srt and not is_number:
            raise content.error(line.start, f"found {line.text[:60]!r} before the times of a first subtitle")
        two_above, above = above, text
    for run in filter(None, runs):
        yield _replacement(content, texts, run, not is_srt)


def _replacement(content: Content, texts: Texts, run: Sequence[FileLine], escaped: bool) -> Replacement:
    """Replace the lines of one speaker; `escaped` tells whether `&` is written as `&amp;`."""
    first = _LEADING.sub("", run[0].text, count=1)
    start, end = run[0].start + len(run[0].text) - len(first), run[-1].start + len(run[-1].text.rstrip())
    texts_of_lines = [first.rstrip(), *(line.text.strip() for line in run[1:])]
    parts = [read_coded(text, _TAG, unescape if escaped else str) for text in texts_of_lines]
    together = joined([parts[0], *(joined([Line("\n"), part]) for part in parts[1:])])
    line = Line(_BREAK_BETWEEN.sub("", together.text).replace("\n", " "), together.items)

    def form(translation: Line) -> str:
        in_format = partial(formed, escape=partial(escape, quote=False) if escaped else str)
        return content.line_end.join(map(in_format, wrap(translation, len(run), max(map(width, parts)))))

    return start, end, texts.replaced(content.text[start:end], line, content.place(start), form)
