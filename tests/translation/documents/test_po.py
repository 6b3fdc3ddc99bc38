"""PO files: which messages are translated, plural forms, and everything that stays, as polib and gettext read it."""

import re
import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from tests.translation.documents.writing import read, texts, translated

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

#, fuzzy
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

#, fuzzy
#~ msgid "gone"
#~ msgstr "andato"

msgid "last"
msgstr ""
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_messages_without_translation_become_fuzzy_and_all_else_stays(line_end: str, mark: bytes) -> None:
    data = mark + (HEADER + MESSAGES).replace("\n", line_end).encode()
    document = read("po", data)
    assert document.texts.entries[0][1] == "line 10"
    made = translated(document)
    assert made.startswith(mark)
    assert made.count(b"\r\n") == (made.count(b"\n") if line_end == "\r\n" else 0)
    before, after = polib.pofile(HEADER + MESSAGES), polib.pofile(made.removeprefix(mark).decode())
    expected = [
        text for one in before if not (one.obsolete or one.msgstr) for text in (one.msgid, one.msgid_plural) if text
    ]
    assert [text.replace("\\t", "\t") for text in texts(document)] == expected
    for old, new in zip(before, after, strict=True):
        is_translated = not (old.obsolete or old.msgstr)
        assert new.flags == list(dict.fromkeys([*old.flags, *(["fuzzy"] if is_translated else [])]))
        if is_translated and not old.msgid_plural:
            assert new.msgstr == old.msgid.upper().replace("%S", "%s")
    assert [one.msgstr_plural for one in after if one.msgid_plural] == [{0: "ONE CAT", 1: "%d CATS"}]
    # without what was written, it is the original
    lines = made.decode().split("\n")
    kept = [
        line.replace(", fuzzy", "") for line in lines if not line.startswith(("msgstr", '"', "#, fuzzy\r", "#, fuzzy"))
    ]
    original = (mark + data.removeprefix(mark)).decode().split("\n")
    assert [line for line in original if not line.startswith(("msgstr", '"', "#, fuzzy"))] == kept
    assert texts(read("po", made)) == [], "everything is translated now"


def test_file_without_header_gets_none() -> None:
    made = translated(read("po", 'msgid "a"\nmsgstr ""\n'))
    assert made == b'#, fuzzy\nmsgid "a"\nmsgstr "A"\n'


@pytest.mark.parametrize(("forms", "expected"), [(1, ["%d CATS"]), (3, ["ONE CAT", "%d CATS", "%d CATS"])])
def test_number_of_plural_forms_is_that_of_the_header(forms: int, expected: list[str]) -> None:
    header = HEADER.replace("nplurals=2", f"nplurals={forms}")
    text = f'{header}\nmsgid "one cat"\nmsgid_plural "%d cats"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    (entry,) = polib.pofile(translated(read("po", text)).decode())
    assert list(entry.msgstr_plural.values()) == expected


def test_encoding_is_that_of_the_header() -> None:
    header = HEADER.replace("UTF-8", "ISO-8859-1")
    data = f'{header}\nmsgid "caffè"\nmsgstr ""\n'.encode("latin-1")
    made = translated(read("po", data), lambda _: "perché")
    assert 'msgid "caffè"\nmsgstr "perché"\n' in made.decode("latin-1")
    template = f'{HEADER.replace("UTF-8", "CHARSET")}\nmsgid "è"\nmsgstr ""\n'.encode()
    assert texts(read("po", template)) == ["è"]
    assert texts(read("po", HEADER.replace('"Plural', '"X-Source-Language: en\\n"\n"Plural'))) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b\n', "a:2: found 'msgstr \"b', expected msgid"),
        ('msgid "a"\n\nhello\n', "a:3: found 'hello', expected msgid"),
        ('msgid "a"\nmsgstr ""\n\nmsgstr "b"\n', "a:4: not a PO file: a second msgstr"),
        ('msgid "a"\n# x\n"b"\nmsgstr ""\n', "a:3: found '\"b\"', expected msgid"),
        ('msgid "a"\nmsgctxt "b"\n', "a:1: not a PO file: a message without msgid or msgstr"),
        (HEADER.replace("nplurals=2", "nplurals=1000000000"), "a:2: nplurals=1000000000, expected at most 20"),
        (HEADER.replace("nplurals=2", f"nplurals={'9' * 5000}"), "a:2: nplurals=9999999999, expected at most 20"),
        (HEADER.replace("UTF-8", "idna"), "a:1: not IDNA: no encoding of files; convert the file"),
        (HEADER.replace("UTF-8", "unicode_escape"), "a:1: not UNICODE_ESCAPE: no encoding of files; convert the file"),
        (HEADER.replace("UTF-8", "rot13"), "a:1: not ROT13: 'rot13' is not a text encoding"),
        (HEADER.replace('"Plural', '"Language: de\\n"\n"Plural'), "a:2: Language: de, but the model translates to it"),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read("po", text)


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_the_output(tmp_path: Path) -> None:
    file = tmp_path / "a.po"
    file.write_bytes(translated(read("po", HEADER + MESSAGES), lambda text: text.replace("cat", "gatt")))
    done = subprocess.run(
        ["msgfmt", "-c", "--statistics", "-o", "/dev/null", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "6 fuzzy translations" in done.stderr


@pytest.mark.parametrize("escape", [r"\033[1m", r"\a", r"\x1b", r"\e", r"\303\250", r"\'", r"\u00ae", r"\0"])
def test_escapes_that_are_no_characters_of_text_stay(escape: str) -> None:
    done = f'msgid "Done{escape}"\nmsgstr "Fatto{escape}"\n\n'
    made = translated(read("po", f'{done}msgid "bold {escape}"\nmsgstr ""\n')).decode()
    assert made == f'{done}#, fuzzy\nmsgid "bold {escape}"\nmsgstr "BOLD {escape}"\n'


STRINGS = st.text(alphabet='ab"\\\n\t{è', max_size=6)


@given(st.lists(st.tuples(STRINGS.filter(bool), st.sampled_from(["", "x"])), max_size=4, unique_by=lambda one: one[0]))
def test_polib_reads_what_was_written(messages: list[tuple[str, str]]) -> None:
    file = polib.POFile()
    file.extend(polib.POEntry(msgid=msgid, msgstr=msgstr) for msgid, msgstr in messages)
    made = polib.pofile(translated(read("po", str(file)), str).decode())
    assert [(one.msgid, one.msgstr) for one in made] == [(msgid, msgstr or msgid) for msgid, msgstr in messages]


def test_empty_forms_of_a_plural_are_filled() -> None:
    text = """msgid ""
msgstr "Plural-Forms: nplurals=3;"

msgid "%d cat"
msgid_plural "%d cats"
msgstr[0] "%d gatto"
msgstr[1] ""
"""
    made = translated(read("po", text)).decode()
    assert made == text.replace('msgid "%d cat"', '#, fuzzy\nmsgid "%d cat"').replace(
        'msgstr[1] ""\n', 'msgstr[1] "%d CATS"\nmsgstr[2] "%d CATS"\n'
    )
