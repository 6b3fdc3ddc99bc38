"""What the second look adds, worked by hand and spelled out."""

import math

import pytest
import torch

from nmt.config import MaxLength, Sampling
from nmt.decoding.batched_search import search_all
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.options import SearchOptions
from nmt.decoding.rescoring import coverage, search_and_rescore
from tests.decoding.test_search import tiny_model

SENTENCES = [[4, 5, 6, 7], [8], [5, 5], [7, 7, 7, 7, 7]]
OPTIONS = SearchOptions(beam=4, n_best=2, max_length=MaxLength(factor=1, extra=5))


def options_with(**changes: object) -> SearchOptions:
    return SearchOptions.model_validate({**dict(OPTIONS), **changes})


HEADS = [(0, 0), (0, 1)]
"""All of the last decoder layer but one, of two."""


def test_coverage_by_hand() -> None:
    """Two heads, two target tokens: source tokens get (0.6 + 0.2) = 0.8, (0.4 + 1.0) over 1, and 0.2 + 0.1 = 0.3."""
    attention = torch.tensor(
        [[[0.8, 0.2, 0.0], [0.1, 0.7, 0.2]], [[0.4, 0.6, 0.4], [0.3, 1.3, 0.0]]], dtype=torch.float64
    )
    assert coverage(attention) == pytest.approx(math.log(0.8) + math.log(0.3))
    assert coverage(torch.ones(1, 2, 3)) == 0.0
    assert math.isfinite(coverage(torch.zeros(1, 2, 3)))


@pytest.mark.parametrize("weight", [0.05, 10.0])
def test_what_covers_the_source_better_ranks_higher(weight: float) -> None:
    """All that a beam of four finds, ranked as the formula says."""
    changed = 0
    for seed in range(4):
        model = tiny_model(seed, vocabulary=9)
        everything = search_all(model, SENTENCES, options_with(n_best=4), 100)
        found = search_and_rescore(model, SENTENCES, options_with(coverage_penalty=weight), 100)
        for ids, finished, ranked in zip(SENTENCES, everything, found, strict=True):
            pairs = [(ids, one.tokens) for one in finished]
            expected = []
            for one, forced in zip(finished, force_all(model, pairs, 100, HEADS), strict=True):
                shares = [
                    min(
                        1.0,
                        sum((forced.attention[0, t, s] + forced.attention[1, t, s]).item() / 2 for t in range(t_end)),
                    )
                    for t_end in [len(one.tokens) + 1]
                    for s in range(len(ids) + 1)
                ]
                expected.append((one.normalized + weight * sum(map(math.log, shares)), one))
            expected.sort(key=lambda pair: -pair[0])
            assert [one.tokens for one in ranked] == [one.tokens for _, one in expected[:2]]
            assert [one.normalized for one in ranked] == pytest.approx([value for value, _ in expected[:2]], abs=1e-4)
            assert [one.log_prob for one in ranked] == [one.log_prob for _, one in expected[:2]]
            changed += ranked[0].tokens != finished[0].tokens
    assert changed or weight < 1, "coverage never decided: the test would show only half"


@pytest.mark.parametrize("beam", [1, 4])
def test_under_a_repetition_penalty_log_prob_is_the_models_own(beam: int) -> None:
    model = tiny_model(1, vocabulary=9)
    options = options_with(beam=beam, n_best=1, repetition_penalty=1.5)
    searched = search_all(model, SENTENCES, options, 100)
    found = search_and_rescore(model, SENTENCES, options, 100)
    differing = 0
    for ids, (lowered,), (own,) in zip(SENTENCES, searched, found, strict=True):
        (forced,) = force_all(model, [(ids, own.tokens)], 100)
        assert own.tokens == lowered.tokens
        assert own.normalized == lowered.normalized
        assert own.token_log_probs == pytest.approx(forced.token_log_probs, abs=1e-5)
        assert own.log_prob == pytest.approx(sum(forced.token_log_probs))
        assert own.log_prob >= lowered.log_prob - 1e-4
        differing += own.log_prob > lowered.log_prob + 1e-3
    assert differing, "nothing was said twice: the test would show nothing"


@pytest.mark.parametrize("options", [OPTIONS, options_with(sampling=Sampling(), coverage_penalty=1.0)])
def test_what_needs_no_second_look_gets_none(options: SearchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(1, vocabulary=9)
    monkeypatch.setattr("nmt.decoding.rescoring.force_all", None)
    assert search_and_rescore(model, SENTENCES, options, 100) == search_all(model, SENTENCES, options, 100)
