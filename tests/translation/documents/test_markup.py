"""Tags of a line: what is around it, what is inside, and around which words they are placed in a translation."""

import re
from itertools import combinations_with_replacement
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.documents.markup import MarkedLine, Tag, placed_by_links, placed_by_share
from nmt.translation.documents.passage import Passage, TranslatedLine

PARTS = st.lists(
    st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "{\\an8}", "cat", "moon.", " ", "a<b", '"']), max_size=9
)
TAG = re.compile(r"</?[bi]>|<br/>|\{\\an8\}")


@pytest.mark.parametrize(
    ("line", "translation", "links", "expected"),
    [
        ("<i>The cat.</i>", "Il gatto.", None, "<i>Il gatto.</i>"),
        (" <v Bob>The cat. ", "Il gatto.", None, " <v Bob>Il gatto. "),
        ("the <b>red</b> house", "la casa rossa", [(0, 0), (2, 1), (1, 2)], "la casa <b>rossa</b>"),
        ("the <b>red</b>, old house", "la vecchia casa, rossa", [(0, 0), (2, 1), (3, 2), (1, 3)],
         "la vecchia casa, <b>rossa</b>"),
        ("<b>Note:</b> it rains.", "Nota: piove.", [(0, 0), (2, 1)], "<b>Nota:</b> piove."),
        ("a <b><i>b</i> c</b> d", "d c b a", [(3, 0), (2, 1), (1, 2), (0, 3)], "d <b>c <i>b</i></b> a"),
        ("See <a href='x>y'>this</a>.", "Vedi questo.", None, "Vedi <a href='x>y'>questo</a>."),
        ("Get <b>{ -brand }</b> now", "Ora { -brand } c'è", [(2, 2)], "Ora <b>{ -brand }</b> c'è"),
        ("<i>a</i> b <b>c</b>", "x { -brand } y", [(0, 1), (2, 2)], "x <i></i><b></b>{ -brand } y"),
        ("one<br/>two", "uno<x1/>due", None, "uno<br/>due"),
        ("one <br/>two", "uno due", None, "uno <br/>due"),
        ("one <br/>two", "uno <x1/>due<x1/>", None, "uno <br/>due"),
        ("one two", "uno <x7/> due", None, "uno due"),
        ("x <b>y</b>", "", None, "<b></b>"),
        ("我<b>喜欢</b>猫。", "Amo i gatti.", [(1, 0), (3, 1), (3, 2)], "<b>Amo</b> i gatti."),
    ],
)  # fmt: skip
def test_tags_are_placed_in_the_translation(
    line: str, translation: str, links: list[tuple[int, int]] | None, expected: str
) -> None:
    assert MarkedLine.of(line).restore(translation, links).text == expected


def test_loss_of_single_tags_is_stated() -> None:
    line = MarkedLine.of("one <br/>two")
    assert not line.restore("uno <x1/>due").tags_lost
    assert line.restore("uno due").tags_lost


def is_xml(text: str) -> bool:
    """Whether the tags of a text are nested."""
    try:
        ElementTree.fromstring(f"<text>{text.replace('a<b', '')}</text>")
    except ElementTree.ParseError:
        return False
    return True


@given(PARTS)
def test_untranslated_line_is_unchanged(parts: list[str]) -> None:
    line = MarkedLine.of("".join(parts))
    assert line.restore(line.text).text == "".join(parts)


@given(PARTS, st.sampled_from(["", "uno", "uno due, tre. quattro"]), st.data())
def test_every_tag_is_in_every_translation_once_and_well_nested(
    parts: list[str], text: str, data: st.DataObject
) -> None:
    line = MarkedLine.of("".join(parts))
    links = data.draw(st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5))))
    restored = line.restore(text, links).text
    assert sorted(TAG.findall(restored)) == sorted(TAG.findall("".join(parts)))
    assert TAG.sub("", restored).split() == [
        *TAG.sub("", line.prefix).split(),
        *text.split(),
        *TAG.sub("", line.suffix).split(),
    ]
    if is_xml("".join(parts)):
        assert is_xml(restored)


@pytest.mark.parametrize("text", ["", " ", "\r\n\r", "42 %", "{0}", "<b>{name}</b>", "https://example.org/page", "— …"])
def test_lines_without_words_are_not_translated(text: str) -> None:
    passage = Passage.of(text)
    assert passage.lines == []
    assert passage.joined([]).text == text


def test_line_ends_and_indentation_of_a_text_are_kept() -> None:
    passage = Passage.of("  One.\r\n\r\n\tTwo. Three.\n")
    assert passage.lines == ["One.", "Two. Three."]
    assert passage.joined([TranslatedLine("UNO."), TranslatedLine("DUE.")]).text == "  UNO.\r\n\r\n\tDUE.\n"


def test_sentences_of_a_line_are_translated_by_themselves_and_joined() -> None:
    passage = Passage.of("It rains. <b>Mr. Smith</b> sleeps.  {0}! Good <i>night</i>.")
    assert passage.lines == ["It rains.", "Mr. Smith sleeps.", "Good night."]
    translations = [
        TranslatedLine("Piove.", [(0, 0), (1, 0)]),
        TranslatedLine("Dorme il signor Smith.", [(0, 1), (0, 2), (1, 3), (2, 0)]),
        TranslatedLine("Buona notte.", [(0, 0), (1, 1)]),
    ]
    joined = passage.joined(translations)
    assert joined.text == "Piove. Dorme <b>il signor Smith</b>. {0}! Buona <i>notte</i>."
    assert not joined.tags_lost


def test_sentences_of_chinese_have_no_spaces_between_them() -> None:
    passage = Passage.of("It rains. We sleep.")
    assert passage.joined([TranslatedLine("下雨了。"), TranslatedLine("我们睡觉。")]).text == "下雨了。我们睡觉。"


LINKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(LINKS, st.integers(0, 5), st.integers(0, 5))
def test_pair_is_around_the_run_of_words_with_most_links(links: list[tuple[int, int]], one: int, other: int) -> None:
    """Compared with all runs: a link from a word inside counts 1, a link from another word -1."""
    source = text = "a b c d e f"
    first, last = min(one, other), max(one, other)
    placed = placed_by_links(source, [Tag("<b>", 2 * first, 1, True), Tag("</b>", 2 * last + 1, 1)], text, links)

    def links_of(run: tuple[int, int]) -> int:
        return sum(1 if first <= i <= last else -1 for i, j in links if run[0] <= j <= run[1])

    best = max(map(links_of, combinations_with_replacement(range(6), 2)))
    if placed is None:
        assert best <= 0
    else:
        assert links_of((placed[0].position // 2, placed[1].position // 2)) == best


def test_tags_are_placed_after_the_same_share_of_the_text() -> None:
    # after 0, 4 and 8 of 10 characters: before the first word, after the fourth, whose middle is before 8 of 20, and
    # before the first one with its middle after 16
    tags = [Tag("<b>", 0, 1, True), Tag("</b>", 4, 1), Tag("<br/>", 8)]
    assert [tag.position for tag in placed_by_share("0 2 4 6 8 ", tags, "0 2 4 6 8 10 13 16 1")] == [0, 7, 16]
