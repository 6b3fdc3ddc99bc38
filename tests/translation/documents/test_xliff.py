"""XLIFF: which units get a target, inline elements, states, and everything that stays, as lxml reads it."""

import re

import pytest
from lxml import etree

from nmt.errors import DataError
from nmt.text.items import Line
from nmt.translation.documents.document import Document, ReadOptions
from nmt.translation.documents.translating import read_document
from tests.translation.documents import writing
from tests.translation.documents.writing import texts, translated

OLD = """<?xml version="1.0" encoding="utf-8"?>
<!-- a comment -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:a="urn:a">
 <file source-language="en-US" datatype="html" original='a.html'>
  <body>
   <trans-unit id="1" a:foo="x>y">
    <source>Open the file &amp; &lt;close&gt; it</source>
   </trans-unit>
   <trans-unit id="2"><source>See <g id="1" ctype="x-b">the page</g> <x id="2"/>, <bpt id="3">&lt;i&gt;</bpt>now<ept
    id="3">&lt;/i&gt;</ept></source></trans-unit>
   <trans-unit id="3"><source>state</source><target state="new" a:foo="1">state</target><a:note/></trans-unit>
   <trans-unit id="4"><source>empty</source><target/></trans-unit>
   <trans-unit id="5"><source>final</source><target state="final"></target></trans-unit>
   <trans-unit id="6"><source>done</source><target>fatto</target></trans-unit>
   <trans-unit id="7" approved="yes"><source>approved</source></trans-unit>
   <group translate="no"><trans-unit id="8"><source>not this</source></trans-unit></group>
   <trans-unit id="9">
    <source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1"><g id="1">Two</g>.</mrk></seg-source>
   </trans-unit>
   <trans-unit id="10"><source> <x id="1"/></source></trans-unit>
   <trans-unit id="11" xml:space="preserve"><source>a <![CDATA[<b>]]><!-- not a word --> &amp;
 b</source></trans-unit>
   <trans-unit id="12"><source>Ask <mrk mtype="protected">the <g id='1'>name</g></mrk> again</source></trans-unit>
  </body>
 </file>
</xliff>
"""
EXPECTED = {
    "1": "OPEN THE FILE &amp; &lt;close&gt; IT",
    "2": 'SEE <g id="1" ctype="x-b">THE PAGE</g> <x id="2"/>, <bpt id="3">&lt;i&gt;</bpt>NOW'
    '<ept id="3">&lt;/i&gt;</ept>',
    "3": "STATE", "4": "EMPTY", "5": "FINAL", "6": "fatto", "7": None, "8": None,
    "9": '<mrk mtype="seg" mid="0">ONE.</mrk> <mrk mtype="seg" mid="1"><g id="1">TWO</g>.</mrk>',
    "10": ' <x id="1"/>', "11": "A &lt;b&gt; &amp;\n B",
    "12": 'ASK <mrk mtype="protected">the <g id="1">name</g></mrk> AGAIN',
}  # fmt: skip
NEW = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
 <file id="f"><unit id="u1">
   <segment id="s1" state="initial">
    <source>Press <pc id="1">the <ph id="2"/></pc> <mrk id="m1" translate="no">OK</mrk> button.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment><source>Two</source><target></target></segment>
   <segment state="final"><source>Done</source><target>Fatto</target></segment>
 </unit></file>
</xliff>
"""


def read(text: str) -> Document:
    return writing.read("xliff", text, "a.xlf")


def target_of(unit: etree._Element) -> str | None:
    """Return the content of the target of a unit as XML without namespaces."""
    target = unit.find("{*}target")
    if target is None:
        return None
    text = etree.tostring(target, encoding="unicode", with_tail=False)
    return re.sub(r"^<target[^>]*?/?>|</target>$| xmlns(:\w+)?=\"[^\"]*\"", "", text)


def without_targets(data: bytes) -> bytes:
    """Return the canonical form of a file without targets, states and languages of targets."""
    tree = etree.fromstring(data)
    for target in tree.findall(".//{*}target"):
        target.getparent().remove(target)
    for element in tree.iter(etree.Element):
        for name in ("state", "target-language", "trgLang"):
            element.attrib.pop(name, None)
        element.tail = (element.tail or "").strip()
        element.text = element.text if element.tag.endswith("source") else (element.text or "").strip()
    return etree.tostring(tree, method="c14n")


def test_units_without_translation_get_a_target_for_review() -> None:
    document = read(OLD)
    assert document.texts.entries[0][1] == "unit 1 (line 6)"
    made = translated(document)
    units = {unit.get("id"): unit for unit in etree.fromstring(made).iter("{*}trans-unit")}
    assert {id_: target_of(unit) for id_, unit in units.items()} == EXPECTED
    states = {
        id_: unit.find("{*}target").get("state") for id_, unit in units.items() if id_ not in "78" and id_ != "10"
    }
    assert {state for id_, state in states.items() if id_ != "6"} == {"needs-review-translation"}
    assert states["6"] is None
    assert b'target-language="it"' in made
    assert texts(read(made.decode())) == [], "everything is translated now"


def test_segments_of_version_2_get_a_target() -> None:
    made = translated(read(NEW))
    units = list(etree.fromstring(made).iter("{*}segment"))
    assert [(unit.get("state"), target_of(unit)) for unit in units] == [
        ("translated", 'PRESS <pc id="1">THE <ph id="2"/></pc> <mrk id="m1" translate="no">OK</mrk> BUTTON.'),
        ("translated", "TWO"),
        ("final", "Fatto"),
    ]
    assert b'trgLang="it"' in made


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("text", [OLD, NEW], ids=["1.2", "2.0"])
def test_only_targets_and_states_differ(text: str, encoding: str, line_end: str) -> None:
    data = text.replace("\n", line_end).replace('"utf-8"', f'"{encoding.removesuffix("-sig")}"').encode(encoding)
    document = writing.read("xliff", data, "a.xlf")
    made = translated(document, lambda text: f"{text}<&]]>\n")
    assert without_targets(made) == without_targets(data)
    assert ("\r\n" in made.decode(encoding)) == (line_end == "\r\n")


def test_a_segment_that_is_left_to_the_user_keeps_its_source() -> None:
    document = read(OLD)
    made = document.translated(lambda line: line._replace(text=line.text.upper()) if "Two" in str(line) else None)
    units = {unit.get("id"): unit for unit in etree.fromstring(made).iter("{*}trans-unit")}
    assert target_of(units["9"]) == EXPECTED["9"].replace("ONE", "One")  # type: ignore[union-attr]
    assert target_of(units["1"]) is None


def test_empty_segments_of_a_target_are_translated_and_others_stay() -> None:
    segment = '<mrk mtype="seg" mid="{}">{}</mrk>'.format
    start, end = OLD.split("   <trans-unit")[0], "  </body>\n </file>\n</xliff>\n"
    unit = f"<trans-unit id='1'><source>A. B.</source><seg-source>{segment(1, 'A.')} {segment(2, 'B.')}</seg-source>"
    for first, expected in (("uno", "uno"), ("", "A!")):
        document = read(f"{start}{unit}<target>{segment(1, first)} {segment(2, '')}</target></trans-unit>{end}")
        made = etree.fromstring(translated(document, lambda text: text.replace(".", "!")))
        target = target_of(made.find(".//{*}trans-unit"))  # type: ignore[arg-type]
        assert target == f"{segment(1, expected)} {segment(2, 'B!')}"


def test_own_entities_of_a_file_are_text() -> None:
    name = '<!DOCTYPE xliff [<!ENTITY name "Anna">]>\n'
    document = read(OLD.replace("<xliff", f"{name}<xliff", 1).replace("Two", "&name; has two"))
    assert any("Anna has two" in text for text in texts(document))
    etree.fromstring(translated(document))


def test_codes_that_cross_give_xml() -> None:
    document = read(NEW)
    opening, single, closing = (item for item in document.texts.entries[0][0].items[:3])
    etree.fromstring(document.translated(lambda _: Line("a \ufffc b \ufffc c \ufffc", (closing, opening, single))))


def test_codes_of_angular_are_pairs() -> None:
    text = 'See <x id="START_LINK" ctype="x-a"/>it<x id="CLOSE_LINK" ctype="x-a"/><x id="LINE_BREAK" ctype="lb"/>'
    ((line, _),) = read(
        f'<xliff><trans-unit id="1"><source>{text}<ph id="0" equiv="x"/></source></trans-unit></xliff>'
    ).texts.entries
    found = [(item.role, item.name, item.is_markup) for item in line.items]
    assert found == [("opening", "link", True), ("closing", "link", True), ("single", "", True), ("single", "", True)]


def test_unit_without_source_is_named_and_stays() -> None:
    document = read('<xliff><trans-unit id="1"/><trans-unit id="2"><source>Hi</source></trans-unit></xliff>')
    assert (texts(document), document.texts.kept) == (["Hi"], {"unit without a source": ["unit 1 (line 1)"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<xliff>\n<a></xliff>", "a.xlf:2: not XML: Opening and ending tag mismatch"),
        ("<html/>", "a.xlf:1: not XLIFF: the first element is <html>"),
        ("<xliff>" + "<g>" * 300 + "</g>" * 300 + "</xliff>", "a.xlf:1: not XML: "),
        (OLD.replace('"en-US"', '"de"'), 'a.xlf:4: source-language="de", but the model translates en to it'),
        (NEW.replace("srcLang", 'trgLang="fr" srcLang'), 'a.xlf:1: trgLang="fr", but the model translates en to it'),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read(text)


def test_target_language_is_checked_where_the_source_language_is_unknown() -> None:
    data = NEW.replace("srcLang", 'trgLang="fr" srcLang').encode()
    with pytest.raises(DataError, match='"fr", but the model translates to it'):
        read_document(data, "a.xlf", ReadOptions("xliff", languages=("", "it")))


def test_text_beside_the_code_of_an_icu_message_is_translated() -> None:
    """As Angular writes a message inside a text."""
    code = '<x id="ICU" equiv-text="{n, plural, =0 {none} other {some}}"/>'
    units = (
        f"<trans-unit><source>{text} by {code}</source></trans-unit>" for text in ("Updated", "{n, plural, other {a}}")
    )
    document = read(f"<xliff>{''.join(units)}</xliff>")
    assert (texts(document), len(document.texts.kept)) == ([f"Updated by {code}"], 1)
