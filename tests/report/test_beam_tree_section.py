"""The section Search: every node of the tree is drawn, and the nested text and the ranking agree with the search."""

import math
import re
from html import unescape

import pytest

from nmt.report.beam_tree import BeamTree, Node
from nmt.report.beam_tree_section import beam_tree_section, nested_text, percent, ranked, tree_drawing
from nmt.report.sentences import DrawnSentence, draw_sentence
from nmt.text.tokenizer import EOS
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model


@pytest.fixture(scope="module")
def sentence() -> DrawnSentence:
    return draw_sentence(Translator(tiny_loaded_model()), 1, "the cat sleeps .")


def small_tree(sentence: DrawnSentence) -> DrawnSentence:
    """Return a tree of a beam of 2: a and b, then a </s>, a c and b d, then a c </s>."""
    log = math.log
    nodes = [
        Node(-1, 1, 4, log(0.5), log(0.5), "active"),
        Node(-1, 1, 5, log(0.3), log(0.3), "active"),
        Node(-1, 1, 6, log(0.1), log(0.1), "pruned"),
        Node(0, 2, EOS, log(0.6), log(0.3), "finished"),
        Node(0, 2, 6, log(0.4), log(0.2), "active"),
        Node(1, 2, 7, log(0.1), log(0.03), "dropped"),
        Node(4, 3, EOS, log(1.0), log(0.2), "finished"),
    ]
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "a", "<b>", "c", "d"]
    tree = BeamTree(2, nodes)
    options = sentence.options.model_copy(update={"length_penalty": 0.0})
    return DrawnSentence(1, "x", "a", sentence.attention, [], pieces, options, tree)


def test_every_node_and_edge_is_drawn_with_its_outcome(sentence: DrawnSentence) -> None:
    tree = sentence.tree
    best = ranked(sentence)[0][0]
    drawing = tree_drawing(sentence, best)
    assert drawing.count('class="edge ') == len(tree.nodes)
    found = re.findall(r'<g class="node (\w+)( chosen)?" role="img" data-node="(\d+)" data-parent="(-?\d+)"', drawing)
    assert [(outcome, int(parent)) for outcome, _, _, parent in found] == [
        (node.outcome, node.parent) for node in tree.nodes
    ]
    assert [int(number) for _, chosen, number, _ in found if chosen] == tree.path(best)
    places = re.findall(r'transform="translate\((\d+) (\d+)\)"', drawing)
    assert len(set(places)) == len(tree.nodes), "no node hides another"


def test_node_is_described_with_the_probability_of_its_token_and_of_its_hypothesis(sentence: DrawnSentence) -> None:
    drawing = unescape(tree_drawing(small_tree(sentence), 3))
    assert "a </s>: token 60 %, hypothesis 30 % (log-probability -1.20); finished" in drawing


def test_nested_text_has_branches_and_what_is_pruned(sentence: DrawnSentence) -> None:
    text = re.sub(r"</?(small|span|strong|p)>", "", nested_text(small_tree(sentence)))
    assert unescape(text) == (
        "<ul><li>a 50 %<ul><li></s> 60 % rank 1, -1.20</li><li>c 40 % </s> 100 % rank 2, -1.61</li></ul></li>"
        "<li><b> 30 % [dropped: d 10 %]</li></ul> [pruned: c 10 %]"
    )
    assert "<b>" not in nested_text(small_tree(sentence))


def test_ranking_is_that_of_the_search(sentence: DrawnSentence) -> None:
    one = small_tree(sentence)
    assert [number for number, _ in ranked(one)] == [3, 6]
    html = unescape(beam_tree_section([one]).html)
    assert html.index("a </s></td>") < html.index("a c </s></td>")
    assert ranked(sentence)[0][1] == max(value for _, value in ranked(sentence))


def test_sampling_has_no_tree(sentence: DrawnSentence) -> None:
    one = DrawnSentence(1, "x", "a", sentence.attention, [], [], sentence.options, BeamTree(1))
    assert "without a beam" in beam_tree_section([one]).html


@pytest.mark.parametrize(
    ("probability", "text"), [(1, "100 %"), (0.0955, "9.6 %"), (0.009, "0.90 %"), (1e-6, "< 0.01 %")]
)
def test_percentages_have_two_digits(probability: float, text: str) -> None:
    assert percent(math.log(probability)) == text
