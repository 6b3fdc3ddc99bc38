"""PO files of gettext: messages without a translation get one, marked as fuzzy; existing translations stay.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import re

import polib

from nmt.errors import DataError
from nmt.translation.documents.document import Content, Document, Slot

_LINE = re.compile(r'\s*(#.*|(msg\w+(\[\d+\])?\s*)?"([^"\\]|\\.)*"\s*)?')
_PLACE = re.compile(r"\(line (\d+)\)(?:: (.*))?")


def read_po(content: Content) -> Document:
    """Find the messages without a translation. Raises DataError for what is no PO file.

    The number of plural forms is that of the header's `Plural-Forms`. The first form is the translation of the singular
    if there are several, the others are that of the plural.
    """
    file = _parsed(content)
    stated = re.search(r"nplurals\s*=\s*(\d+)", file.metadata.get("Plural-Forms", ""))
    slots: list[Slot] = []
    for entry in file:
        if entry.obsolete or entry.msgstr or any(entry.msgstr_plural.values()):
            continue
        count = max(1, int(stated[1])) if stated else len(entry.msgstr_plural)
        if entry.msgid_plural:
            entry.msgstr_plural = dict.fromkeys(range(count), "")
        for form in range(count if entry.msgid_plural else 1):
            plural = entry.msgid_plural and (form > 0 or count == 1)

            def write(translation: str, entry: polib.POEntry = entry, form: int = form) -> None:
                if entry.msgid_plural:
                    entry.msgstr_plural[form] = translation
                else:
                    entry.msgstr = translation
                entry.flags = list(dict.fromkeys([*entry.flags, "fuzzy"]))

            slots.append(Slot(entry.msgid_plural if plural else entry.msgid, f"line {entry.linenum:,}", write))

    def encoded() -> bytes:
        text = str(file).removeprefix("" if file.header else "#\n")  # polib writes a header also where there is none
        text = text.removeprefix("" if file.metadata else 'msgid ""\nmsgstr ""\n\n')
        return content.encode(f"{text.rstrip()}\n".replace("\n", content.line_end))

    return Document(content.name, slots, encoded, "all messages have a translation already, which is kept")


def _parsed(content: Content) -> polib.POFile:
    for line in content.lines:  # polib accepts strings that are not closed
        if not _LINE.fullmatch(line.text):
            raise content.error(
                line.start, f'found {line.text[:60]!r}, expected msgid, msgstr, a string in " or a comment'
            )
    try:
        return polib.pofile(content.text)
    except OSError as error:
        found = _PLACE.search(str(error))
        place, problem = (found[1], found[2] or "invalid syntax") if found else ("1", str(error))
        raise DataError(f"{content.name}:{place}: not a PO file: {problem}") from None
