"""Rescoring with coverage and without the repetition penalty, by hand and from the formula."""

import math

import pytest
import torch

from nmt.config import MaxLength, Sampling
from nmt.decoding import engine
from nmt.decoding.engine import coverage, needs_rescoring, search_all
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.models import BatchRunner
from nmt.decoding.options import SearchOptions
from tests.builders import tiny_model

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
def test_coverage_penalty_ranks_by_the_formula(weight: float) -> None:
    """All hypotheses of a beam of four, ranked by the formula."""
    changed = 0
    for seed in range(4):
        runner = BatchRunner([tiny_model(seed, vocabulary=9)])
        everything = search_all(runner, SENTENCES, options_with(n_best=4))
        found = search_all(runner, SENTENCES, options_with(coverage_penalty=weight))
        for ids, finished, ranked in zip(SENTENCES, everything, found, strict=True):
            pairs = [(ids, one.tokens) for one in finished]
            expected = []
            for one, (forced,) in zip(finished, force_all(runner, pairs, 100, [HEADS]), strict=True):
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
    assert changed or weight < 1, "coverage never changed the ranking"


@pytest.mark.parametrize("beam", [1, 4])
def test_log_prob_excludes_the_repetition_penalty(beam: int) -> None:
    runner = BatchRunner([tiny_model(1, vocabulary=9)])
    options = options_with(beam=beam, n_best=1, repetition_penalty=1.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "needs_rescoring", lambda _: False)
        searched = search_all(runner, SENTENCES, options)
    found = search_all(runner, SENTENCES, options)
    differing = 0
    for ids, (lowered,), (own,) in zip(SENTENCES, searched, found, strict=True):
        ((forced,),) = force_all(runner, [(ids, own.tokens)], 100)
        assert own.tokens == lowered.tokens
        assert own.normalized == lowered.normalized
        assert own.log_prob == pytest.approx(sum(forced.token_log_probs), abs=1e-4)
        assert own.log_prob >= lowered.log_prob - 1e-4
        differing += own.log_prob > lowered.log_prob + 1e-3
    assert differing, "no hypothesis repeats a token"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"coverage_penalty": 0.2}, True),
        ({"repetition_penalty": 1.5}, True),
        ({"sampling": Sampling(), "coverage_penalty": 1.0, "repetition_penalty": 1.5}, False),
    ],
)
def test_only_penalties_of_a_beam_need_rescoring(changes: dict[str, object], expected: bool) -> None:
    assert needs_rescoring(options_with(**changes)) is expected
