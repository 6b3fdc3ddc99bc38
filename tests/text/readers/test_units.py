"""TMX, XLIFF and PO: languages, inline tags, states, encodings and errors."""

import tracemalloc
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import SentencePair
from nmt.text.readers import units as units_module
from nmt.text.readers.units import read_po, read_units


def tmx(*units: dict[str, str], head: str = "") -> str:
    body = "".join(
        "<tu>\n" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items()) + "</tu>\n"
        for unit in units
    )
    return f'{head}<tmx version="1.4"><header srclang="en"/><body>\n{body}</body></tmx>'


def rows(folder: Path, content: str | bytes, source: str = "en", target: str = "it") -> list[SentencePair]:
    path = folder / "a.tmx"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_units(path, LanguagePair(source=source, target=target)))


UNIT = {"en": "one", "it": "uno"}


def test_lines_are_those_of_the_units(tmp_path: Path) -> None:
    assert rows(tmp_path, tmx(UNIT, UNIT)) == [("one", "uno", 2), ("one", "uno", 4)]
    assert rows(tmp_path, tmx(*[UNIT] * 33_000))[-1].line in (66_000, 66_001)  # of libxml2 beyond line 65,535
    named = tmx(UNIT).replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ').replace("xml:lang", "lang")
    assert rows(tmp_path, named) == [("one", "uno", 2)]


@pytest.mark.parametrize(
    ("codes", "source", "target", "expected"),
    [
        (("EN_us", "de", "it"), "en", "it", ("EN_us", "it")),
        (("en-GB", "en-US"), "en-US", "en-GB", ("en-US", "en-GB")),
        (("en-GB", "en-US"), "en", "en-GB", ("en-US", "en-GB")),
        (("en", "zh-Hans", "zh-HK"), "en", "zh-Hant", ("en", "zh-HK")),
        (("eng", "ita"), "it", "en", ("ita", "eng")),
        (("en", "sr-Cyrl-RS", "sr-Latn-RS"), "en", "sr_Latn", ("en", "sr-Latn-RS")),
        (("en-US", "nb-NO"), "en", "no", ("en-US", "nb-NO")),
    ],
)
def test_nearest_languages_are_chosen(
    tmp_path: Path, codes: tuple[str, ...], source: str, target: str, expected: tuple[str, str]
) -> None:
    assert rows(tmp_path, tmx({code: code for code in codes}), source, target) == [(*expected, 2)]


def test_units_without_both_languages_are_left_out_and_a_file_of_them_is_refused(tmp_path: Path) -> None:
    assert rows(tmp_path, tmx({"en": "a", "de": "b"}, {"en": "c"}, UNIT)) == [("one", "uno", 6)]
    with pytest.raises(DataError, match=r"a\.tmx: no unit has both en and it; found de, en, fr$"):
        rows(tmp_path, tmx({"en": "a", "de": "b"}, {"en": "a", "fr": "b"}))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("A&nbsp;cat&mdash;&Egrave; &hellip;&NotEqualTilde;", "A cat—È …≂̸"),
        ("&#xD83D;&#xDE00;&#55357;&#56832;!&#65;&#xd83d;&#x41;", "😀😀!A\ufffdA"),
        ("a&#x1F;b&#0;c\x1fd\x01e&#xFFFE;f", "a bc def"),
        ("AT&T; &amp;nbsp; &amp;lt; <![CDATA[&nbsp;&T;]]>", "AT&T; &nbsp; &lt; &nbsp;&T;"),
        ("a &lt;b&gt; &amp; &#233;<![CDATA[<c>]]>", "a <b> & é<c>"),
        ("<bpt i='1'>&lt;b&gt;</bpt>bold<ept i='1'>&lt;/b&gt;</ept>!", "bold!"),
        ("line<ph>&lt;br/&gt;</ph>break <ph/> twice<ph/>.", "line break twice."),
        ("<hi>w</hi>ord", "word"),
        ("<ph>code <sub>text of the code</sub> code</ph>after<!-- remark -->", "after"),
    ],
)
def test_inline_tags_are_removed(tmp_path: Path, text: str, plain: str) -> None:
    assert rows(tmp_path, tmx({"en": text, "it": "x"})) == [(plain, "x", 2)]


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("UTF-16", "utf-8"), ("utf-16LE", "utf-8-sig"), ("UTF-8", "utf-16"), ("UTF-8", "utf-16-le"), ("utf-8", "utf-32")],
)
def test_declaration_that_would_not_be_readable_is_ignored(tmp_path: Path, declared: str, encoding: str) -> None:
    content = tmx({"en": "caf\u00e9 😀", "it": "x"}, head=f'<?xml version="1.0" encoding="{declared}"?>')
    assert rows(tmp_path, content.encode(encoding)) == [("caf\u00e9 😀", "x", 2)]


def test_faults_are_read_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tmx({"en": "\u00e9&nbsp;&#xD83D;&#xDE00;<![CDATA[&x;]]>", "it": "x"}, UNIT)
    for size in range(1, 60):
        monkeypatch.setattr(units_module, "_BLOCK_BYTES", size)
        assert rows(tmp_path, content) == [("\u00e9 😀&x;", "x", 2), ("one", "uno", 4)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "windows-1252"])
def test_encoding_is_that_of_the_declaration_or_of_the_mark(tmp_path: Path, encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    content = tmx({"en": "caf\u00e9", "it": "caff\u00e8"}, head=head)
    assert rows(tmp_path, content.encode(encoding)) == [("caf\u00e9", "caff\u00e8", 2)]


def test_entities_are_neither_fetched_nor_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for entity in (f'b SYSTEM "file://{tmp_path}/secret"', 'b "expanded"'):
        found = rows(tmp_path, tmx({"en": "a &b; c", "it": "x"}, head=f"<!DOCTYPE tmx [<!ENTITY {entity}>]>"))
        assert found == [("a &b; c", "x", 2)]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", ":1: not valid XML: "),
        (tmx(UNIT, UNIT).split("<tu>")[0], ":2: not valid XML: Premature end"),
        (tmx({"en": "a & b", "it": "x"}), ":3: not valid XML: "),
        (tmx({"en": "a &#x110000; b", "it": "x"}), ":3: not valid XML: xmlParseCharRef: "),
        (
            tmx(UNIT, {"en": "caf\u00e9", "it": "x"}).encode("latin-1"),
            ":5: found the byte 0xE9, which is not utf-8; decl",
        ),
        (tmx(head='<?xml version="1.0" encoding="rot13"?>'), ":1: unknown encoding 'rot13'; convert the file"),
        (tmx(head='<?xml version="1.0" encoding="idna"?>'), ":1: unknown encoding 'idna'; convert the file to UTF-8"),
    ],
)
def test_invalid_xml_is_refused_with_its_line(tmp_path: Path, content: str | bytes, place: str) -> None:
    with pytest.raises(DataError) as caught:
        rows(tmp_path, content)
    assert f"a.tmx{place}" in str(caught.value)


def test_ram_does_not_grow_with_the_file(tmp_path: Path) -> None:
    unit = {"en": "A sentence of the usual length. " * 20, "it": "x"}
    peaks = []
    for count in (200, 2_000):
        (tmp_path / "a.tmx").write_text(tmx(*[unit] * count))
        tracemalloc.start()
        assert sum(1 for _ in read_units(tmp_path / "a.tmx", LanguagePair(source="en", target="it"))) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en-US" target-language="it" original="a"><header/><body><group>
<trans-unit id="1"><source>Open <g id="1">the <x id="2"/>file</g></source><target>Apri <g id="1">il file</g></target>
<alt-trans><source>Open</source><target>Aprire</target></alt-trans></trans-unit>
<trans-unit id="2"><source>Five. Six.</source><seg-source><mrk mtype="seg">Five.</mrk> <mrk mtype="seg">Six.</mrk>
</seg-source><target state="final"><mrk mtype="seg">Cinque.</mrk> <mrk mtype="seg"/></target></trans-unit>
<trans-unit id="3"><source>Two. Three.</source><seg-source><mrk mtype="seg">Two.</mrk> <mrk mtype="seg">Three.</mrk>
</seg-source><target><mrk mtype="seg">Due e tre.</mrk></target></trans-unit>
{}</group></body></file></xliff>"""
NOT_FINAL = [
    "<source>a</source>",
    "<source>a</source><target/>",
    '<source>a</source><target state="needs-review-translation">b</target>',
    '<source>a</source><target state="new">b</target>',
]
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="it" trgLang="en"><file id="f">
<unit id="u"><notes><note>n</note></notes><segment state="reviewed"><source>Uno <ph id="1"/>due</source>
<target>One <pc id="2">two</pc></target></segment>
<segment state="initial"><source>Tre</source><target>Three</target></segment></unit></file></xliff>"""


def test_units_of_xliff_are_pairs_and_those_that_are_not_final_are_empty(tmp_path: Path) -> None:
    units = "".join(f'<trans-unit id="{number}">{text}</trans-unit>' for number, text in enumerate(NOT_FINAL))
    found = rows(
        tmp_path, XLIFF.format(units + '<trans-unit approved="no"><source>a</source><target>b</target></trans-unit>')
    )
    assert found[:4] == [
        ("Open the file", "Apri il file", 3),
        ("Five.", "Cinque.", 5),
        ("", "", 5),
        ("Two. Three.", "Due e tre.", 7),
    ]
    assert found[4:] == [("", "", 9)] * 5
    assert rows(tmp_path, XLIFF_2) == [("One two", "Uno due", 2), ("", "", 4)]  # from English to Italian
    with pytest.raises(DataError, match=r"no unit has both en and fr; found en, it"):
        rows(tmp_path, XLIFF_2, target="fr")


LINES = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=' "\\\n\t'), min_size=1, max_size=20)


@given(st.lists(st.tuples(LINES, LINES), max_size=5))
def test_po_reader_inverts_polib(tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[str, str]]) -> None:
    file = polib.POFile()
    file.extend(polib.POEntry(msgid=msgid, msgstr=msgstr) for msgid, msgstr in messages)
    path = tmp_path_factory.mktemp("po") / "a.po"
    file.save(str(path))
    expected = [tuple(" ".join(text.split()) for text in pair) for pair in messages]
    assert [pair[:2] for pair in read_po(path, LanguagePair("en", "it"))] == expected


PO = """# Comment
msgid ""
msgstr "Language: {}\\n"

#, fuzzy
msgid "Open"
msgstr "Apri"

msgid "New"
msgstr ""

msgctxt "menu"
msgid "Save all "
"files"
msgstr "Salva tutto"

msgid "One file"
msgid_plural "%d files"
msgstr[0] "Un file"
msgstr[1] "%d file"

#~ msgid "old"
#~ msgstr "vecchio"
"""


def test_messages_of_po_are_pairs_in_the_direction_of_the_languages(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(PO.format("it_IT"))
    expected = [("", "", 5), ("", "", 9), ("Save all files", "Salva tutto", 12)]
    expected += [("One file", "Un file", 17), ("%d files", "%d file", 17)]
    for languages in (LanguagePair("en", "it"), None):
        assert [pair[:2] for pair in read_po(path, languages)] == [pair[:2] for pair in expected]
    assert list(read_po(path, LanguagePair("it", "en"))) == [
        (target, source, line) for source, target, line in expected
    ]
    with pytest.raises(DataError, match=r"a\.po:1: found the header Language: it, expected fr, or en"):
        list(read_po(path, LanguagePair("en", "fr")))
    path.write_text('msgid "a"\nmsgstr "b" c"\n')
    with pytest.raises(DataError, match=r"a\.po: not a PO file: Syntax error in po file \(line 2\)"):
        list(read_po(path, LanguagePair("en", "it")))
    path.write_text('msgid "a\u2028b"\nmsgstr "c\x0cd"\n')
    assert list(read_po(path, LanguagePair("en", "it"))) == [("a b", "c d", 1)]
    path.write_text('msgid "one"\nmsgid_plural "%d ones"\nmsgstr[0] "%d 个"\n')
    assert [pair[:2] for pair in read_po(path, LanguagePair("en", "zh"))] == [("%d ones", "%d 个")]
