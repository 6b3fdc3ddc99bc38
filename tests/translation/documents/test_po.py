"""PO files: which messages are translated, plural forms, escapes, and everything that stays."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation.documents.document import Content, Document
from nmt.translation.documents.po import declared_charset, read_po

HEADER = """# Translators
#, fuzzy
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
msgid\t"x\\ty"
msgstr ""
msgid "no blank line"
msgstr ""

msgid "one cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1] ""

msgctxt ""
msgid "two\\nlines"
msgstr ""
"
#~ msgid "gone"
#~ msgstr "andato"
""".replace('\nmsgstr ""\n"\n', '\nmsgstr ""\n\n')
EXPECTED = (
    MESSAGES.replace('%s\\n"\nmsgstr ""', '%s\\n"\nmsgstr "A LINE BY HAND THAT IS \\"LONG\\" %S\\n"')
    .replace('ty"\nmsgstr ""', 'ty"\nmsgstr "X\\tY"')
    .replace('line"\nmsgstr ""', 'line"\nmsgstr "NO BLANK LINE"')
    .replace('msgstr[0] ""', 'msgstr[0] "ONE CAT"')
    .replace('msgstr[1] ""', 'msgstr[1] "%D CATS"')
    .replace('lines"\nmsgstr ""', 'lines"\nmsgstr ""\n"TWO\\n"\n"LINES"')
)


def upper(document: Document) -> str:
    return document.with_translations([text.upper() for text in document.texts]).decode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_messages_without_translation_are_translated_and_all_else_stays(line_end: str, mark: bytes) -> None:
    data = mark + (HEADER + MESSAGES).replace("\n", line_end).encode()
    document = read_po(Content.decode(data, "a.po"))
    assert document.texts == [
        'A line by hand that is "long" %s\n', "x\ty", "no blank line", "one cat", "%d cats", "two\nlines",
    ]  # fmt: skip
    assert document.slots[0].place == "line 11"
    assert upper(document) == (mark.decode() + HEADER + EXPECTED).replace("\n", line_end)
    again = read_po(Content.decode(upper(document).encode(), "b.po"))
    assert again.texts == [], "everything is translated now"


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (1, 'msgstr[0] "%D CATS"\n'),
        (2, 'msgstr[0] "ONE CAT"\nmsgstr[1] "%D CATS"\n'),
        (3, 'msgstr[0] "ONE CAT"\nmsgstr[1] "%D CATS"\nmsgstr[2] "%D CATS"\n'),
    ],
)
def test_number_of_plural_forms_is_that_of_the_header(forms: int, expected: str) -> None:
    message = 'msgid "one cat"\nmsgid_plural "%d cats"\n'
    header = HEADER.replace("nplurals=2", f"nplurals={forms}")
    document = read_po(Content("a.po", f'{header}\n{message}msgstr[0] ""\nmsgstr[1] ""\n\nmsgid "a"\nmsgstr ""\n'))
    assert upper(document) == f'{header}\n{message}{expected}\nmsgid "a"\nmsgstr "A"\n'


def test_encoding_is_that_of_the_header() -> None:
    header = HEADER.replace("UTF-8", "ISO-8859-1")
    data = f'{header}\nmsgid "caffè"\nmsgstr ""\n'.encode("latin-1")
    document = read_po(Content.decode(data, "a.po", declared_charset(data)))
    assert document.with_translations(["perché"]).decode("latin-1") == f'{header}\nmsgid "caffè"\nmsgstr "perché"\n'
    with pytest.raises(DataError, match=r"a.po: its encoding, ISO-8859-1, has no '猫'"):
        document.with_translations(["猫"])
    assert declared_charset(HEADER.replace("UTF-8", "CHARSET").encode()) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b\n', "a.po:2: found 'msgstr \"b', expected msgid"),
        ('msgid "a"\n\nhello\n', "a.po:3: found 'hello', expected msgid"),
        ('"a"\n', "a.po:1: found '\"a\"', expected msgid"),
        ('msgid "a"\n', "a.po:1: found a message of msgid; expected"),
        ('msgstr "a"\n', "a.po:1: found a message of msgstr; expected"),
        ('msgid "a"\nmsgstr[0] ""\n', "a.po:1: found a message of msgid, msgstr[0]; expected"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] ""\n', "a.po:1: found a message of msgid, msgid_plural, msgstr[1]"),
        ('msgid "a\\q"\nmsgstr ""\n', "a.po:1: found the unknown escape \\q"),
        ('msgid "a\\x110000"\nmsgstr ""\n', "a.po:1: found the unknown escape \\x110000"),
        ('msgid "a\\xFFFFFFFFFFFFFFFF"\nmsgstr ""\n', "a.po:1: found the unknown escape \\xFFFFFFFFFFFFFFFF"),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_po(Content("a.po", text))


@given(st.text(alphabet='a"\\\n\t\r %\u2028è', min_size=1, max_size=8))
def test_strings_are_read_as_they_are_written(source: str) -> None:
    document = read_po(Content("a.po", 'msgid "x"\nmsgstr ""\n'))
    written = document.with_translations([source]).decode().replace('msgid "x"\n', "").replace("msgstr", "msgid")
    again = read_po(Content("b.po", f'{written}msgstr ""\n'))
    assert again.texts == [source]


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_the_output(tmp_path: Path) -> None:
    document = read_po(Content("a.po", HEADER.replace("#, fuzzy\n", "") + MESSAGES))
    file = tmp_path / "a.po"
    file.write_bytes(document.with_translations([text.replace("cat", "gatt") for text in document.texts]))
    done = subprocess.run(
        ["msgfmt", "-c", "--statistics", "-o", "/dev/null", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "5 translated messages, 1 fuzzy translation." in done.stderr
