"""The words around which tags are placed."""

from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.documents.tag_placement import Tag, placed_by_links, placed_by_share

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
