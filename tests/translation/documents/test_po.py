"""PO files: which messages are translated, plural forms, and everything that stays, as polib and gettext read it."""

import re
import shutil
import subprocess
from pathlib import Path

import polib
import pytest

from nmt.errors import DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.localization import read_po
from nmt.translation.documents.translating import DocumentOptions
from tests.translation.documents.writing import texts, translated

HEADER = """# Translators
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"""
MESSAGES = """
#. a note
#: a.c:12
#, c-format
msgid "A line by hand "
"that is \\"long\\" %s\\n"
msgstr ""

#, fuzzy
#| msgid "old"
msgid "kept"
msgstr "tenuto"

msgctxt "menu"
msgid "x\\ty"
msgstr ""

msgid "one cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1] ""

msgctxt ""
msgid "two\\nlines"
msgstr ""

#~ msgid "gone"
#~ msgstr "andato"
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_messages_without_translation_become_fuzzy_and_all_else_stays(line_end: str, mark: bytes) -> None:
    data = mark + (HEADER + MESSAGES).replace("\n", line_end).encode()
    document = read_po(Content.decode(data, "a.po"))
    assert texts(document) == [
        'A line by hand that is "long" %s\n', "x\ty", "one cat", "%d cats", "two\nlines",
    ]  # fmt: skip
    assert document.slots[0].place == "line 7"
    made = translated(document)
    assert made.startswith(mark)
    assert made.count(b"\r\n") == (made.count(b"\n") if line_end == "\r\n" else 0)
    before, after = polib.pofile(HEADER + MESSAGES), polib.pofile(made.removeprefix(mark).decode())
    assert (after.metadata, after.header) == (before.metadata, before.header)
    for old, new in zip(before, after, strict=True):
        is_translated = not (old.obsolete or old.msgstr)
        for name in ("msgid", "msgid_plural", "msgctxt", "comment", "occurrences", "previous_msgid", "obsolete"):
            assert getattr(new, name) == getattr(old, name)
        assert new.flags == [*old.flags, *(["fuzzy"] if is_translated else [])]
        if is_translated and not old.msgid_plural:
            assert new.msgstr == old.msgid.upper()
    assert [one.msgstr_plural for one in after if one.msgid_plural] == [{0: "ONE CAT", 1: "%D CATS"}]
    assert texts(read_po(Content.decode(made, "b.po"))) == [], "everything is translated now"


def test_file_without_header_gets_none() -> None:
    made = translated(read_po(Content("a.po", 'msgid "a"\nmsgstr ""\n')))
    assert made == b'#, fuzzy\nmsgid "a"\nmsgstr "A"\n'


@pytest.mark.parametrize(("forms", "expected"), [(1, ["%D CATS"]), (3, ["ONE CAT", "%D CATS", "%D CATS"])])
def test_number_of_plural_forms_is_that_of_the_header(forms: int, expected: list[str]) -> None:
    header = HEADER.replace("nplurals=2", f"nplurals={forms}")
    text = f'{header}\nmsgid "one cat"\nmsgid_plural "%d cats"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    (entry,) = polib.pofile(translated(read_po(Content("a.po", text))).decode())
    assert list(entry.msgstr_plural.values()) == expected


def test_encoding_is_that_of_the_header() -> None:
    header = HEADER.replace("UTF-8", "ISO-8859-1")
    data = f'{header}\nmsgid "caffè"\nmsgstr ""\n'.encode("latin-1")
    made = translated(DocumentOptions("po").read(data, "a.po", ("en", "it")), lambda _: "perché")
    assert 'msgid "caffè"\nmsgstr "perché"\n' in made.decode("latin-1")
    template = f'{HEADER.replace("UTF-8", "CHARSET")}\nmsgid "è"\nmsgstr ""\n'.encode()
    assert texts(DocumentOptions("po").read(template, "a.pot", ("en", "it"))) == ["è"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b\n', "a.po:2: found 'msgstr \"b', expected msgid"),
        ('msgid "a"\n\nhello\n', "a.po:3: found 'hello', expected msgid"),
        ('msgid "a"\nmsgstr ""\n\nmsgstr "b"\n', "a.po:4: not a PO file: "),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_po(Content("a.po", text))


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_the_output(tmp_path: Path) -> None:
    file = tmp_path / "a.po"
    file.write_bytes(translated(read_po(Content("a.po", HEADER + MESSAGES)), lambda text: text.replace("cat", "gatt")))
    done = subprocess.run(
        ["msgfmt", "-c", "--statistics", "-o", "/dev/null", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "5 fuzzy translations" in done.stderr
