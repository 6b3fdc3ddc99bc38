"""TMX: languages, inline tags, encodings and errors."""

import tracemalloc
from pathlib import Path

import pytest

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import SentencePair
from nmt.text.readers import units as units_module
from nmt.text.readers.units import read_units


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
    assert rows(tmp_path, tmx(*[UNIT] * 40_000))[-1].line in (80_000, 80_001)  # of libxml2 beyond line 65,535
    named = tmx(UNIT).replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ').replace("xml:lang", "lang")
    assert rows(tmp_path, named) == [("one", "uno", 2)]


@pytest.mark.parametrize(
    ("codes", "source", "target", "expected"),
    [
        (("EN_us", "de", "it"), "en", "it", ("EN_us", "it")),
        (("en-GB", "en-US"), "en-US", "en-GB", ("en-US", "en-GB")),
        (("en", "zh-Hans", "zh-HK"), "en", "zh-Hant", ("en", "zh-HK")),
        (("eng", "ita"), "it", "en", ("ita", "eng")),
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
    for count in (200, 4_000):
        (tmp_path / "a.tmx").write_text(tmx(*[unit] * count))
        tracemalloc.start()
        assert sum(1 for _ in read_units(tmp_path / "a.tmx", LanguagePair(source="en", target="it"))) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
