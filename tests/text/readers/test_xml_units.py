"""TMX and XLIFF: languages, inline tags, encodings, limits and attacks."""

import random
import tracemalloc
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers.xml_units import declared_languages, read_units


def tmx(*units: dict[str, str], source: str = "en", declaration: str = "", doctype: str = "") -> str:
    body = "".join(
        "<tu>\n" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items()) + "</tu>\n"
        for unit in units
    )
    return f'{declaration}{doctype}<tmx version="1.4"><header srclang="{source}"/><body>\n{body}</body></tmx>'


def rows(folder: Path, content: str | bytes, source: str = "en", target: str = "it") -> list[tuple[str, str]]:
    path = folder / "a.xml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [row[1:] for row in read_units(path, LanguagePair(source=source, target=target))]


def refused(folder: Path, content: str | bytes) -> str:
    with pytest.raises(DataError) as caught:
        rows(folder, content)
    return str(caught.value)


UNIT = {"en": "one", "it": "uno"}
XLIFF_1 = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" target-language="it-IT" datatype="plaintext"><body>
<trans-unit id="1"><source>Press <g id="1">OK</g><x id="2"/>.</source><seg-source>x</seg-source>
<target>Premi <g id="1">OK</g><x id="2"/>.</target>
<alt-trans><source>other</source><target>altro</target></alt-trans></trans-unit>
<trans-unit id="2"><source>Not translated</source></trans-unit>
<trans-unit id="3"><source>New</source><target state="new">New</target></trans-unit>
<trans-unit id="4" translate="no"><source>x</source><target>x</target></trans-unit>
<trans-unit id="5"><source>two</source><target state="translated">due</target></trans-unit>
</body></file></xliff>"""
XLIFF_2 = """<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="it">
<x:file id="f"><x:unit id="1"><x:notes><x:note>n</x:note></x:notes>
<x:segment><x:source>Press <x:pc id="1">OK</x:pc>.</x:source>
<x:target>Premi <x:pc id="1">OK</x:pc>.</x:target></x:segment>
<x:ignorable><x:source> </x:source><x:target> </x:target></x:ignorable>
<x:segment state="initial"><x:source>New</x:source><x:target>New</x:target></x:segment>
<x:segment><x:source>two</x:source><x:target>due</x:target></x:segment></x:unit></x:file></x:xliff>"""


def test_pairs_of_xliff_are_the_translated_units(tmp_path: Path) -> None:
    for content in (XLIFF_1, XLIFF_2):
        assert rows(tmp_path, content) == [("Press OK.", "Premi OK."), ("two", "due")]
        assert rows(tmp_path, content, "it", "en") == [("Premi OK.", "Press OK."), ("due", "two")]
    assert rows(tmp_path, XLIFF_1.replace('target-language="it-IT"', ""))[1] == ("two", "due")


def test_lines_are_those_of_the_units(tmp_path: Path) -> None:
    (tmp_path / "a.xlf").write_text(XLIFF_1)
    assert [row[0] for row in read_units(tmp_path / "a.xlf", None)] == [4, 10]
    (tmp_path / "a.tmx").write_text(tmx(UNIT, UNIT))
    assert list(read_units(tmp_path / "a.tmx", None)) == [(2, "one", "uno"), (4, "one", "uno")]


@pytest.mark.parametrize(
    ("codes", "source", "target", "expected"),
    [
        (("en-US", "it-IT"), "en", "it", ("en-US", "it-IT")),
        (("EN_us", "de", "it"), "en", "it", ("EN_us", "it")),
        (("it", "en"), "en", "it", ("en", "it")),
        (("en-GB", "en-US", "it"), "en-US", "it", ("en-US", "it")),
        (("en-GB", "en-US"), "en-US", "en-GB", ("en-US", "en-GB")),
        (("en", "zh-TW", "zh-CN"), "en", "zh", ("en", "zh-CN")),
        (("en", "zh-CN", "zh-HK"), "en", "zh-Hant", ("en", "zh-HK")),
        (("eng", "ita"), "en", "it", ("eng", "ita")),
    ],
)
def test_nearest_languages_are_chosen(
    tmp_path: Path, codes: tuple[str, ...], source: str, target: str, expected: tuple[str, str]
) -> None:
    assert rows(tmp_path, tmx({code: code for code in codes}), source, target) == [expected]


def test_units_without_both_languages_are_left_out_and_a_file_of_them_is_refused(tmp_path: Path) -> None:
    assert rows(tmp_path, tmx({"en": "a", "de": "b"}, {"en": "c"}, UNIT)) == [("one", "uno")]
    found = refused(tmp_path, tmx({"en": "a", "de": "b"}, {"en": "a", "fr": "b"}))
    assert found.endswith("a.xml: no unit has both en and it; found de, en, fr")
    assert rows(tmp_path, tmx()) == []


def test_declared_languages_begin_with_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(tmx({"it-IT": "uno", "en-US": "one"}, {"fr": "un", "en-US": "one"}))
    assert declared_languages(path) == ["en-US", "it-IT", "fr"]
    with pytest.raises(DataError, match="expected two languages, found en-US, it-IT, fr; state the languages"):
        list(read_units(path, None))
    path.write_text(tmx({"it": "uno", "en": "one"}, source="*all*"))
    assert declared_languages(path) == ["it", "en"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a &lt;b&gt; &amp; &#233;<![CDATA[<c>]]>", "a <b> & é<c>"),
        ("<bpt i='1'>&lt;b&gt;</bpt>bold<ept i='1'>&lt;/b&gt;</ept>!", "bold!"),
        ("line<ph>&lt;br/&gt;</ph>break <ph/> twice<ph/>.", "line break twice."),
        ("<hi>w</hi>ord", "word"),
        ("<ph>code <sub>text of the code</sub> code</ph>after", "after"),
        ("  several\n  lines\t here ", "several lines here"),
    ],
)
def test_inline_tags_are_removed(tmp_path: Path, text: str, plain: str) -> None:
    assert rows(tmp_path, tmx({"en": text, "it": "x"})) == [(plain, "x")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encoding_is_that_of_the_declaration_or_of_the_mark(tmp_path: Path, encoding: str) -> None:
    name = encoding.removesuffix("-sig")
    content = tmx({"en": "caf\u00e9", "it": "caff\u00e8"}, declaration=f'<?xml version="1.0" encoding="{name}"?>\n')
    assert rows(tmp_path, content.encode(encoding)) == [("caf\u00e9", "caff\u00e8")]


def test_document_type_without_entities_is_accepted(tmp_path: Path) -> None:
    assert rows(tmp_path, tmx(UNIT, doctype='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')) == [("one", "uno")]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE tmx [<!ENTITY file SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE tmx [<!ENTITY % file SYSTEM "file:///etc/passwd"> %file;]>',
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
    ],
)
def test_entities_are_refused(tmp_path: Path, doctype: str) -> None:
    found = refused(tmp_path, tmx({"en": "&b;", "it": "x"}, doctype=doctype))
    assert "is declared or used; replace it with its text" in found


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ":1: not valid XML: no element found"),
        (tmx(UNIT, UNIT).split("<tu>")[0], ":2: not valid XML: no element found at column 1 (after 0 units)"),
        (tmx({"en": "a & b", "it": "x"}), ":3: not valid XML: not well-formed (invalid token)"),
        (tmx({"en": "\x01", "it": "x"}), ":3: not valid XML: not well-formed (invalid token)"),
        (tmx({"en": "caf\u00e9", "it": "x"}).encode("latin-1"), ":3: not valid XML: not well-formed (invalid token)"),
        (b'<?xml version="1.0" encoding="gb18030"?><tmx/>', ":1: its encoding cannot be read: multi-byte"),
        (b'<?xml version="1.0" encoding="x-none"?><tmx/>', ":1: its encoding cannot be read: unknown encoding: x-none"),
        ("one\tuno\n", ":1: not valid XML: syntax error"),
        (random.Random(1).randbytes(200_000), ":1: not valid XML"),
        ("<a>" * 100_000, "not valid XML"),
    ],
)
def test_invalid_xml_is_refused_with_line_and_unit(tmp_path: Path, content: str | bytes, problem: str) -> None:
    assert problem in refused(tmp_path, content)


def test_endless_texts_and_tags_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.readers.xml_units._LONGEST", 100_000)
    found = refused(tmp_path, tmx(UNIT, {"en": "x" * 300_000, "it": "x"}))
    assert "a text of more than 16 million characters (after 1 units)" in found
    assert "a tag of more than 16 MiB" in refused(tmp_path, tmx({"en": f'<ph x="{"x" * 300_000}"/>'}))


def test_ram_does_not_grow_with_the_file(tmp_path: Path) -> None:
    sentence = escape("A sentence of the usual length, neither long nor short. ") * 20
    path = tmp_path / "a.tmx"
    path.write_text(tmx(*[{"en": sentence, "it": sentence}] * 2_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_units(path, None)) == 2_000
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()
