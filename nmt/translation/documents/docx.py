"""Word's .docx: paragraphs, also of tables, text boxes, headers and footers, in a package that python-docx reads.

In a paragraph, texts whose formatting is not the most frequent one are in pairs of items; all that is not text, such
as a tab or an image, is an item. The code of every item begins and ends in a run of the most frequent formatting.
"""

import re
from collections import Counter
from html import escape, unescape
from io import BytesIO
from zipfile import ZipFile

from lxml import etree

from nmt.errors import ConfigError, DataError
from nmt.text.items import Item, Line, joined
from nmt.translation.documents.document import Texts, code_line, formed, read_text

# At even indices code, at odd ones texts.
_TEXT = re.compile(r"<w:t(?: [^>]*)?>([^<]*)</w:t>")
# Text that a tracked change has moved to another place.
_MOVED = re.compile(r"<w:moveFrom .*?</w:moveFrom>", re.DOTALL)
# Invisible code that divides texts of the same formatting: attributes of revisions, proofreading, layout.
_INVISIBLE = re.compile(r"(?<=<w:r) [^>]*\"(?=>)|<w:(?:proofErr|lastRenderedPageBreak|lang|noProof)\b[^>]*/>")
# Elements around runs; the begin and the end of a run, whose properties may contain previous ones.
_AROUND = re.compile(r"</?w:(?:hyperlink|ins|moveTo|smartTag)(?: [^>]*\")?>")
_RUN = re.compile(r"<w:r>(?:<w:rPr>.*?</w:rPr>(?!</w:rPrChange>))?|</w:r>")
_PARAGRAPHS = ".//w:p[not(ancestor::w:p)][.//w:t[not(ancestor::w:moveFrom)]/text()]"
_MOST_UNPACKED = 1 << 25  # bytes: an archive of some kilobytes may unpack to gigabytes
_EMPTY = re.compile(
    r"<w:r>(?:<w:rPr>(?:(?!</w:r>|</w:rPr><[^/]).)*</w:rPr>)?</w:r>"
    r"|<w:(hyperlink|ins|moveTo|smartTag)\b[^>]*></w:\1>"
)
# The parts of a link between which a text was divided.
_DIVIDED = re.compile(r"(<w:hyperlink\b[^>]*>)((?:(?!</?w:hyperlink\b).)*)</w:hyperlink>\1")


def write_docx(data: bytes, name: str, texts: Texts) -> bytes:
    """Return a file with translated paragraphs. Raises DataError for a damaged one, ConfigError without python-docx."""
    try:
        from docx import Document as open_docx

        if sum(member.file_size for member in ZipFile(BytesIO(data)).infolist()) > _MOST_UNPACKED:
            raise ValueError(f"more than {_MOST_UNPACKED >> 20} MiB when unpacked")
        document = open_docx(BytesIO(data))
        for part in document.part.package.iter_parts():
            if part.content_type.endswith(("document.main+xml", "header+xml", "footer+xml")):
                for i, paragraph in enumerate(part.element.xpath(_PARAGRAPHS), start=1):
                    _translate_paragraph(paragraph, texts, f"paragraph {i:,} of {part.partname.filename}")
            elif b"</w:t>" in part.blob:
                texts.keep("part with notes or comments", part.partname.filename)
        document.save(output := BytesIO())
        return output.getvalue()
    except ImportError:
        raise ConfigError(f"{name}: docx needs python-docx: pip install python-docx") from None
    except Exception as error:  # of zipfile, zlib, lxml and python-docx, which have no class in common
        raise DataError(f"{name}: damaged, or no document of Word: {error}; save it again as .docx") from None


def _translate_paragraph(paragraph: etree._Element, texts: Texts, place: str) -> None:
    """Translate a paragraph; a form is the tags before a text and the tags after it."""
    raw = _INVISIBLE.sub("", etree.tostring(paragraph, encoding=str, with_tail=False)).replace("<w:rPr></w:rPr>", "")
    raw = _MOVED.sub(lambda moved: re.sub(r"(</?w:)t(?=[ >])", r"\1movedText", moved[0]), raw)
    (head, *parts, tail), around, properties = _TEXT.split(raw), "", ""
    spans, sizes, lines = list[tuple[str, tuple[str, str], str]](), Counter[tuple[str, str]](), list[Line]()
    for code, text in zip([head, *parts[1::2]], parts[::2], strict=True):
        for tag in _AROUND.findall(code):
            around = re.sub(r"<(w:\w+)[^>]*></\1>", "", around + tag)
        properties = ([properties] + [run for run in _RUN.findall(code) if run != "</w:r>"])[-1].removeprefix("<w:r>")
        ends = "".join(f"</{name}>" for name in reversed(re.findall(r"<(w:\w+)", around)))
        form = (f"{around}<w:r>{properties}", f"</w:r>{ends}")
        sizes[form] += len(text)
        item = f"{spans[-1][1][0]}{code}{form[1]}" if spans and _RUN.sub("", _AROUND.sub("", code)) else ""
        if spans and not item and spans[-1][1] == form:
            item, text = spans[-1][0], spans.pop()[2] + text
        spans.append((item, form, text))
    # prefers formatting outside of hyperlinks
    begin, end = usual = max(sizes, key=lambda form: (form[0].startswith("<w:r>"), sizes[form]))
    for i, (item, form, text) in enumerate(spans):
        lines += [code_line(Item(f"{end}{item}{begin}"))] if item else []
        opening, closing = Item(end + form[0], "opening", str(i)), Item(form[1] + begin, "closing", str(i))
        part = read_text(unescape(text))
        lines += [part] if form == usual else [code_line(opening), part, code_line(closing)]
    line = joined(lines)
    if (translation := texts.translation(line, place)) is not None and translation != line:
        xml = formed(translation, lambda text: f'<w:t xml:space="preserve">{escape(text)}</w:t>' if text else "")
        xml = f"{head}{spans[0][1][1]}{begin}{xml}{end}{spans[-1][1][0]}{tail}"
        xml, divided = _EMPTY.sub("", _EMPTY.sub("", xml)), 1
        while divided:
            xml, divided = _DIVIDED.subn(r"\1\2", xml)
        paragraph[:] = etree.fromstring(xml.replace("w:movedText", "w:t"))[:]
