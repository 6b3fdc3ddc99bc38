"""XLIFF 1.2 and 2.0: which units are translated, inline elements, and everything that stays."""

import re
from xml.etree import ElementTree

import pytest

from nmt.errors import DataError
from nmt.translation.documents.document import Content, Document
from nmt.translation.documents.passage import Passage, TranslatedLine
from nmt.translation.documents.xliff import declared_encoding, read_xliff

OLD = """<?xml version='1.0' encoding="utf-8"?>
<!-- <source>no</source> -->
<xliff version="1.2"   xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en-US" datatype='plaintext' original="a > b">
  <body>
   <trans-unit id="new" xml:space="default">
     <source>Open   the
       file &amp; &#60;close&gt; it</source>
     <note>a note</note>
   </trans-unit>
   <trans-unit id='inline'><source>See <g id="1" ctype="x-b">the page</g> <x id="2"/>, <bpt id="3">&lt;i&gt;</bpt>now<ept id="3">&lt;/i&gt;</ept></source></trans-unit>
   <trans-unit id="done"><source>done</source><target>fatto</target></trans-unit>
   <trans-unit id="state"><source>state</source><target state="new" foo="1">state</target></trans-unit>
   <trans-unit id="empty"><source>empty</source>
     <target/></trans-unit>
   <trans-unit id="final"><source>final</source><target state="final"></target></trans-unit>
   <group translate="no"><trans-unit id="no"><source>no</source></trans-unit></group>
   <trans-unit id="blank"><source> <x id="1"/></source></trans-unit>
   <trans-unit id="segments"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1"><g id="1">Two</g>.</mrk></seg-source></trans-unit>
   <trans-unit id="cdata" xml:space="preserve"><source><![CDATA[a <b> & ]]>
 b</source><alt-trans><source>other</source><target>altro</target></alt-trans></trans-unit>
  </body>
 </file>
</xliff>
"""  # noqa: E501
NEW = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
  <file id="f1"><unit id="u1">
    <segment id="s1" state="initial">
      <source>Press <pc id="1">the <ph id="2"/></pc> button.</source>
    </segment>
    <ignorable><source> </source></ignorable>
    <segment>
      <source>Two</source>
      <target></target>
    </segment>
    <segment state="reviewed"><source>Three</source><target>Tre</target></segment>
  </unit><unit id="u2" translate="no"><segment><source>no</source></segment></unit></file>
</xliff>
"""


def read(text: str) -> Document:
    return read_xliff(Content("a.xlf", text), "en", "it")


def without_targets(text: str) -> str:
    """Return a file without targets, their language and states."""
    text = re.sub(r"\s*<target[^>]*?(?:/>|>.*?</target>)", "", text, flags=re.DOTALL)
    return re.sub(r' (?:target-language|trgLang)="it"| state="\w+"', "", text)


def translated(document: Document) -> str:
    """Return the file with capitals in place of the words."""
    made = []
    for passage in map(Passage.of, document.texts):
        lines = [
            TranslatedLine(re.sub(r"(?<!<)\b[A-Za-z]+\b(?!\d*/>)", lambda one: one[0].upper(), line))
            for line in passage.lines
        ]
        made.append(passage.joined(lines).text)
    return document.with_translations(made).decode()


def test_units_without_translation_get_a_target() -> None:
    document = read(OLD)
    assert [slot.place.split(" (")[0] for slot in document.slots] == [
        "unit new", "unit inline", "unit state", "unit empty", "unit final", "unit blank",
        "unit segments", "unit segments", "unit cdata",
    ]  # fmt: skip
    assert document.slots[0].place == "unit new (line 6)"
    expected = OLD
    for before, after in (
        ('en-US" datatype', 'en-US" target-language="it" datatype'),
        ("close&gt; it</source>", "close&gt; it</source>\n     <target>OPEN THE FILE &amp; &lt;close&gt; IT</target>"),
        ("&lt;/i&gt;</ept></source>", "&lt;/i&gt;</ept></source><target>SEE <g id=\"1\" ctype=\"x-b\">THE PAGE</g> "
         '<x id="2"/>, <bpt id="3">&lt;i&gt;</bpt>NOW<ept id="3">&lt;/i&gt;</ept></target>'),
        ('<target state="new" foo="1">state', '<target state="translated" foo="1">STATE'),
        ("<target/>", "<target>EMPTY</target>"),
        ('<target state="final"></target>', '<target state="translated">FINAL</target>'),
        ("</seg-source>", '</seg-source><target><mrk mtype="seg" mid="0">ONE.</mrk> '
         '<mrk mtype="seg" mid="1"><g id="1">TWO</g>.</mrk></target>'),
        ('<source> <x id="1"/></source>', '<source> <x id="1"/></source><target> <x id="1"/></target>'),
        ("]]>\n b</source>", "]]>\n b</source><target>A &lt;b&gt; &amp; \n B</target>"),
    ):  # fmt: skip
        assert before in OLD
        expected = expected.replace(before, after)
    assert translated(document) == expected
    ElementTree.fromstring(translated(document))
    again = read(translated(document))
    assert again.texts == []
    assert again.with_translations([]).decode() == translated(document)


def test_a_plural_in_a_segment_leaves_the_other_segments() -> None:
    plural = "{n, plural, one {# file} other {# files}}"
    text = OLD.replace('mid="0">One.</mrk>', f'mid="0">{plural}</mrk>')
    assert f'<target><mrk mtype="seg" mid="0">{plural.replace("file", "FILE").replace("s}}", "S}}")}</mrk> <mrk' in (
        translated(read(text))
    )


def test_segments_of_version_2_get_a_target() -> None:
    document = read(NEW)
    assert [slot.place for slot in document.slots] == ["unit s1 (line 3)", "unit u1 (line 7)"]
    expected = NEW.replace('srcLang="en"', 'srcLang="en" trgLang="it"').replace('"initial"', '"translated"')
    expected = expected.replace(
        "button.</source>", 'button.</source>\n      <target>PRESS <pc id="1">THE <ph id="2"/></pc> BUTTON.</target>'
    )
    expected = expected.replace("<target></target>", "<target>TWO</target>")
    assert translated(document) == expected


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", [OLD, NEW], ids=["1.2", "2.0"])
def test_only_targets_and_states_differ(text: str, encoding: str, line_end: str) -> None:
    data = text.replace("\n", line_end).replace('"utf-8"', f'"{encoding.removesuffix("-sig")}"').encode(encoding)
    content = Content.decode(data, "a.xlf", declared_encoding(data))
    document = read_xliff(content, "en", "it")
    found = document.with_translations(document.texts).decode(encoding)
    assert without_targets(found) == without_targets(data.decode(encoding))
    hostile = ["\n".join("<&]]>" for _ in text.split("\n")) for text in document.texts]
    ElementTree.fromstring(document.with_translations(hostile))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("<target  state='new' >old</target >", "<target  state='translated' >ONE</target >"),
        ('<target state = "new" />', '<target state = "translated">ONE</target>'),
        ("<target ></target >", "<target >ONE</target >"),
    ],
)
def test_tags_of_an_existing_target_stay(target: str, expected: str) -> None:
    text = OLD.replace("<source>empty</source>\n     <target/>", f"<source>one</source>{target}")
    assert text != OLD
    assert f"<source>one</source>{expected}</trans-unit>" in translated(read(text))


@pytest.mark.parametrize("attribute", ['mtype="protected"', 'mtype="x" translate="no"'])
def test_protected_text_stays(attribute: str) -> None:
    kept = f"<mrk {attribute}>the <g id='1'>name</g></mrk>"
    document = read(OLD.replace("<source>empty</source>", f"<source>Ask {kept} again</source>"))
    assert f"<target>ASK {kept} AGAIN</target>" in translated(document)


def test_lost_elements_are_put_back() -> None:
    document = read(OLD)
    slot = document.slots[1]
    restored = Passage.of(slot.text).joined([TranslatedLine("uno due tre quattro")])
    assert restored.tags_lost
    written = ElementTree.fromstring(f"<r>{slot.before}{slot.write(restored.text)}{slot.after}</r>")
    assert sorted(one.tag for one in written.iter()) == ["bpt", "ept", "g", "r", "target", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.xlf:1: not XML: no element found"),
        ("<xliff>\n<a></xliff>", "a.xlf:2: not XML: mismatched tag"),
        ("<html/>", "a.xlf:1: not XLIFF: the first element is html"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>\n<xliff/>', "a.xlf:1: declares the entity a"),
        ('<xliff>\n<trans-unit id="1"/></xliff>', "a.xlf:2: <trans-unit> has no source"),
        ("<xliff>" + "<g>" * 300 + "</g>" * 300 + "</xliff>", "a.xlf:1: more than 200 elements"),
        (OLD.replace('"en-US"', '"de"'), 'a.xlf:4: source-language="de", but the model translates en to it'),
        (
            NEW.replace("srcLang", 'trgLang="fr" srcLang'),
            'a.xlf:1: trgLang="fr", but the model translates en to it',
        ),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read(text)
