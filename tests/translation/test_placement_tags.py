"""Tags of a line: what is taken out, and around which words they are placed in a translation."""

import re
from itertools import combinations_with_replacement
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.placement import original, part_of, with_tags, without_tags

PARTS = st.lists(
    st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "{\\an8}", "cat", "moon.", " ", "a<b", '"']), max_size=9
)
TAG = re.compile(r"</?[bi]>|<br/>|\{\\an8\}")


@pytest.mark.parametrize(
    ("line", "translation", "links", "expected"),
    [
        ("<i>The cat.</i>", "Il gatto.", [], "<i>Il gatto.</i>"),
        ("<v Bob>The cat.", "Il gatto.", [], "<v Bob>Il gatto."),
        ("the <b>red</b> house", "la casa rossa", [(0, 0), (2, 1), (1, 2)], "la casa <b>rossa</b>"),
        ("the <b>red</b>, old house", "la vecchia casa, rossa", [(0, 0), (2, 1), (3, 2), (1, 3)],
         "la vecchia casa, <b>rossa</b>"),
        ("<b>Note:</b> it rains.", "Nota: piove.", [(0, 0), (2, 1)], "<b>Nota:</b> piove."),
        ("a <b><i>b</i> c</b> d", "d c b a", [(3, 0), (2, 1), (1, 2), (0, 3)], "d <b>c <i>b</i></b> a"),
        ("See <a href='x>y'>this</a>.", "Vedi questo.", [], "Vedi <a href='x>y'>questo</a>."),
        ("Get <b>{ -brand }</b> now", "Ora { -brand } c'è", [(2, 2)], "Ora <b>{ -brand }</b> c'è"),
        ("one<br/>two", "uno due", [(0, 0)], "uno<br/>due"),
        ("one <br/>two", "due uno", [(0, 1)], "due uno <br/>"),
        ("one <br/> two", "uno due", [(0, 0)], "uno <br/> due"),
        ("see <br/>.", "vedi.", [], "vedi <br/>."),
        ("x <b>y</b>", "", [], "<b></b>"),
        ("a List<Array<T>>", "un List<Array<T>>", [], "un List<Array<T>>"),
        ("我<b>喜欢</b>猫。", "Amo i gatti.", [(1, 0), (3, 1), (3, 2)], "<b>Amo</b> i gatti."),
        ("I <img> like cats", "我喜欢猫", [(0, 0)], "我<img>喜欢猫"),
    ],
)  # fmt: skip
def test_tags_are_placed_in_the_translation(
    line: str, translation: str, links: list[tuple[int, int]], expected: str
) -> None:
    text, tags = without_tags(line)
    assert with_tags(translation, tags, text, links) == expected


def test_tags_stay_in_their_order_without_links() -> None:
    # after 0, 4 and 8 of 10 characters: before the first word, behind the fourth, and behind the one of which most is
    # in the first 16 of 20 characters
    text, tags = without_tags("<b>0 2 </b>4 6 <br>8 ")
    assert with_tags("0 2 4 6 8 10 13 16 1", tags, text, []) == "<b>0 2 4 6</b> 8 10 13 <br>16 1"


def is_xml(text: str) -> bool:
    """Whether the tags of a text are nested."""
    try:
        ElementTree.fromstring(f"<text>{text.replace('a<b', '')}</text>")
    except ElementTree.ParseError:
        return False
    return True


@given(PARTS, st.sampled_from(["", "uno", "uno due, tre. quattro", "uno { -due } tre"]), st.data())
def test_every_tag_is_in_every_translation_once_and_well_nested(
    parts: list[str], text: str, data: st.DataObject
) -> None:
    line = "".join(parts)
    bare, tags = without_tags(line)
    assert original(bare, tags) == line
    links = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)))) if text else []
    restored = with_tags(text, tags, bare, [(i, j) for i, j in links if j < len(text.split())])
    assert sorted(TAG.findall(restored)) == sorted(TAG.findall(line))
    assert TAG.sub("", restored).replace(" ", "") == text.replace(" ", "")
    assert "{ -due }" in restored or "{ -due }" not in text
    if is_xml(line):
        assert is_xml(restored)


@given(PARTS, st.integers(0, 20))
def test_parts_of_a_line_have_all_of_it(parts: list[str], cut: int) -> None:
    line = "".join(parts)
    bare, tags = without_tags(line)
    cut = min(cut, len(bare))
    halves = (bare[:cut], part_of(tags, 0, cut)), (bare[cut:], part_of(tags, cut, len(bare) + 1))
    assert "".join(original(*half) for half in halves) == line


LINKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(LINKS, st.integers(0, 5), st.integers(0, 5))
def test_pair_is_around_the_run_of_words_with_most_links(links: list[tuple[int, int]], one: int, other: int) -> None:
    """Compared with all runs: a link from a word inside counts 1, a link from another word -1."""
    first, last = min(one, other), max(one, other)
    words = list("abcdef")
    source = " ".join([*words[:first], "<b>" + " ".join(words[first : last + 1]) + "</b>", *words[last + 1 :]])
    bare, tags = without_tags(source)
    found = with_tags(bare, tags, bare, links)

    def links_of(run: tuple[int, int]) -> int:
        return sum(1 if first <= i <= last else -1 for i, j in links if run[0] <= j <= run[1])

    best = max(map(links_of, combinations_with_replacement(range(6), 2)))
    start = found.index("<b>") // 2
    end = found.replace("<b>", "").index("</b>") // 2
    if best > 0 and last - first < 5:
        assert links_of((start, end)) == best
    else:
        assert (start, end) == (first, last)
