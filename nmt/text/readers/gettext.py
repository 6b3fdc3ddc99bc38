"""Pairs in PO files of GNU gettext: the translated messages, in the encoding that the header states."""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import polib

from nmt.errors import DataError
from nmt.text.readers import Row, one_line
from nmt.text.readers.opening import read_chunks

_LARGEST = 1 << 26  # bytes; a catalog takes ten times as much RAM
_PLACE = re.compile(r"\(line (\d+)\)(?:: (.*))?")


def read_po(path: Path, reverse: bool) -> Iterator[Row]:
    """Yield the messages that have a translation, without fuzzy and obsolete ones; of plurals the first and last form.

    `reverse` exchanges the sides. The whole file is in RAM, so it has at most 64 MiB. Raises DataError with file and
    line for invalid syntax.
    """
    for entry in _entries(path):
        forms = [entry.msgstr]
        if entry.msgid_plural:
            forms = [form for _, form in sorted(entry.msgstr_plural.items())]
        sources = [entry.msgid, entry.msgid_plural]
        for source, target in {sources[0]: forms[0], sources[-1]: forms[-1]}.items():
            if source and target and not entry.obsolete and not entry.fuzzy:
                first, second = (target, source) if reverse else (source, target)
                yield entry.linenum, one_line(first), one_line(second)


def _entries(path: Path) -> list[polib.POEntry]:
    with NamedTemporaryFile(suffix=".po") as plain:  # polib opens files by name
        for chunk in read_chunks(path):
            plain.write(chunk)
            if plain.tell() > _LARGEST:
                raise DataError(f"{path}: a PO file of more than 64 MiB; divide it")
        plain.flush()
        try:
            return list(polib.pofile(plain.name))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not in the encoding of its header, {error.encoding}: {error.reason}") from None
        except LookupError as error:
            raise DataError(f"{path}: its header states an unknown encoding: {error}") from None
        except OSError as error:
            place = _PLACE.search(str(error))
            line = f":{place[1]}" if place else ""
            problem = f": {place[2]}" if place and place[2] else ""
            raise DataError(f"{path}{line}: invalid syntax of a PO file{problem}") from None
