"""Markdown: paragraphs, headings, list items and cells of tables, as CommonMark and GitHub define them.

https://spec.commonmark.org/ and https://github.github.com/gfm/. Blocks are found by markdown-it-py, codes inside a text
by a pattern.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from nmt.text.items import Item, Line, joined, read
from nmt.text.languages import UNSPACED_TEXT
from nmt.translation.documents.document import Content, Replacement, Texts, code_line

_PARSER = MarkdownIt("commonmark").enable("table")
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n(?s:.*?)\n\1[ \t]*(?:\r?\n|\Z)")
# Code, a note or a task, an image, the ends of a link, an address, a tag, an escape, emphasis, a hard line break.
_DESTINATION = r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^][]*\])?"
# As GitHub and Jupyter write mathematics; no sums of money: `$5 and $6`. An opening that is not closed before the next
# one, or soon, is text: else thousands of them take quadratic time.
_MATHEMATICS = (
    r"\$\$(?s:.+?)\$\$|\\\[(?:(?!\\\[)(?s:.))+?\\\]|\\\((?:(?!\\\()(?s:.))+?\\\)"
    r"|\\begin\{[^{}]*\}(?s:.{1,3000}?)\\end\{[^{}]*\}"
    r"|(?<![\w$\\])\$(?![\s$])(?:[^$\\\n]|\\.)+(?<!\s)\$(?![\w$])"
)
# Underscores and asterisks in an address are no emphasis.
_URL = rf"https?://(?:[^\s<>()\[\]|`\\{UNSPACED_TEXT}]|\([^\s<>()\[\]|`]*\)|\\(?=\S))*(?<![_*~.,;:!?'\"])"
_CODE = re.compile(
    rf"((?<!`)(`+)(?!`)(?s:.+?)(?<!`)\2(?!`)|{_MATHEMATICS}"
    rf"|\({_URL}\)|\"{_URL}\"|(?<!\w){_URL}"
    r"|\[(?:\^[^][]*|[ xX])\]:?(?!\()"
    rf"|\[\[[^][]*\]\](?![(\[])|!\[[^][]*\]{_DESTINATION}|!?\[|\]{_DESTINATION}"
    r"|<[^<>\s][^<>]*>|\\[^\w\s]|(?<!\w)(?:\w*+\\_)++\w*+"
    r"|\*++(?=\S)|(?<=\S)\*++|~~|(?<!\w)_++(?=\S)|(?<=\S)_++(?!\w)|(?:\\|(?<! ) {2,})\n)"
)
# Lines of dialects that are no part of a paragraph: containers, admonitions, templates, imports; and the mark of a
# definition or a note.
_DIRECTIVE = re.compile(
    r"[ \t>]*(?::{3,}.*|(?:!!!|\?\?\?|\[!\w+\]).*|\{(?:[%{].*[%}]|:.*)\}|import .+ from [\"'][^\"']+[\"'];?)[ \t]*"
)
_DEFINITION = re.compile(r"(?:\[\^[^][]+\])?:[ \t]+")


def read_markdown(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the texts of paragraphs, headings, list items and tables; code, HTML blocks and front matter stay."""
    text, cursor, environment = content.text, 0, dict[str, Any]()
    without_front = _FRONT_MATTER.sub(lambda front: re.sub(r"[^\r\n]", "", front[0]), text)  # its lines stay, empty
    starts = [match.start() for match in re.finditer(r"^", text, re.MULTILINE)]
    for block in _PARSER.parse(without_front, environment):
        if block.type != "inline" or block.map is None or not block.content:
            continue
        groups, lines = [list[tuple[int, int]]()], block.content.split("\n")
        for number, line in enumerate(lines, block.map[0]):
            cursor = max(cursor, starts[min(number, len(starts) - 1)])
            # a bar in a cell is escaped
            if not (match := re.compile(re.escape(line).replace(r"\|", r"\\?\|")).search(text, cursor)):
                texts.keep("text that was not found", f"line {block.map[0] + 1:,}")
                groups.clear()
                break
            cursor, start = match.end(), match.end() - len(match[0].lstrip())
            if definition := _DEFINITION.match(line):
                start += definition.end()
            is_directive = bool(_DIRECTIVE.fullmatch(line))
            if is_directive or definition:
                groups.append([])
            if not is_directive:
                groups[-1].append((start, match.end()))
        for spans in filter(None, groups):
            start, end = spans[0][0], spans[-1][1]
            labels = environment.get("references", {})
            paragraph = _line("\n".join(text[first:last] for first, last in spans), labels)
            between = text[spans[0][1] : spans[1][0]] if len(spans) > 1 else ""  # line end and mark of a quote

            def form(line: Line, between: str = between) -> str:
                return str(line).replace("\n", between)

            yield start, end, texts.replaced(text[start:end], paragraph, content.place(start), form)


def _line(text: str, labels: Collection[str]) -> Line:
    """Return a text in which links and emphasis are pairs; a link by one of the labels becomes `[text][label]`."""
    parts, opened, pieces = list[Line](), dict[str, int](), _CODE.split(text)
    for index, code in enumerate(pieces):
        if index % 3 == 0:
            parts.append(read(re.sub(r"\s+", " ", code)))
        elif index % 3 == 1:
            name = "[" if code[0] in "[]" else code
            item = Item(code)
            if code == "[" or (name == code and code[0] in "*_~" and name not in opened):
                item, opened[name] = Item(code, "opening", name), index
            elif name in opened:
                inside = pieces[opened.pop(name) + 2 : index]
                label = "".join(piece for number, piece in enumerate(inside) if number % 3 != 2)
                is_label = code in ("]", "][]") and normalizeReference(label) in labels
                item = Item(f"][{label}]" if is_label else code, "closing", name)
            parts.append(code_line(item))
    return joined(parts)
