"""The recorded tree against the result of the search that it records, and against an exhaustive list of candidates."""

import math
from collections import Counter

import pytest
from torch import Tensor

from nmt.config import MaxLength
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.report.sentence_figures import search_tree
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache, tiny_model

IDS = [4, 5, 6, 7]
SOURCE = [*IDS, EOS]


def options_of(beam: int, n_best: int) -> SearchOptions:
    return SearchOptions(beam=beam, n_best=n_best, max_length=MaxLength(factor=1, extra=4))


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_results_of_the_search_are_paths_whose_edges_add_up(seed: int, beam: int) -> None:
    model = tiny_model(seed, vocabulary=12)
    tree = search_tree(model, IDS, options_of(beam, beam))
    (found,) = search([model], [SOURCE], options_of(beam, beam))
    ends = [number for number, node in enumerate(tree.nodes) if node.outcome == "finished"]
    paths = {tuple(tree.nodes[number].token for number in tree.path(end)): tree.path(end) for end in ends}
    for hypothesis in found:
        path = [tree.nodes[number] for number in paths[*hypothesis.tokens, EOS]]
        assert [node.step for node in path] == list(range(1, len(path) + 1))
        assert {node.outcome for node in path[:-1]} <= {"active"}
        assert sum(node.log_prob for node in path) == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert path[-1].total == pytest.approx(hypothesis.log_prob, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_every_step_has_exactly_beam_hypotheses_that_go_on(seed: int) -> None:
    beam = 3
    tree = search_tree(tiny_model(seed, vocabulary=12), IDS, options_of(beam, beam))
    outcomes = Counter((node.step, node.outcome) for node in tree.nodes)
    steps = max(node.step for node in tree.nodes)
    for step in range(1, steps):
        assert outcomes[step, "active"] + outcomes[step, "dropped"] == beam
        if not any(outcomes[earlier, "finished"] for earlier in range(1, step + 1)):
            assert outcomes[step, "active"] == beam
    assert sum(outcomes[step, "finished"] for step in range(1, steps + 1)) >= 1
    assert not outcomes[steps, "active"], "the search goes on until none is active"


def test_edges_are_the_log_probabilities_of_the_model() -> None:
    model = tiny_model(2, vocabulary=12)
    tree = search_tree(model, IDS, options_of(2, 2))
    tables: dict[tuple[int, ...], Tensor] = {}
    for number, node in enumerate(tree.nodes):
        prefix = tuple(tree.nodes[other].token for other in tree.path(number)[:-1])
        if prefix not in tables:
            tables[prefix] = log_probs_without_cache(model, SOURCE, prefix)[-1]
        assert node.log_prob == pytest.approx(float(tables[prefix][node.token]), abs=1e-4)


def test_candidates_of_a_step_are_the_best_ones() -> None:
    """The 2·K best extensions of the active hypotheses, computed without the search."""
    model, options = tiny_model(1, vocabulary=12), options_of(3, 3)
    tree = search_tree(model, IDS, options)
    active = [number for number, node in enumerate(tree.nodes) if (node.step, node.outcome) == (1, "active")]
    extensions = []
    for number in active:
        table = log_probs_without_cache(model, SOURCE, [tree.nodes[number].token])[-1]
        table[:EOS] = -math.inf
        extensions += [(tree.nodes[number].total + float(value), number, i) for i, value in enumerate(table)]
    best = sorted(extensions, reverse=True)[:6]
    recorded = [(node.parent, node.token) for node in tree.nodes if node.step == 2]
    assert recorded == [(parent, token) for _, parent, token in best]
