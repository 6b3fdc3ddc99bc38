"""Sampling: frequencies equal the probabilities of the model, and samples do not depend on the batch."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength, Sampling
from nmt.decoding.beam import draw
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Hypothesis
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import BOS, EOS
from tests.builders import log_probs_without_cache, tiny_model
from tests.decoding.reference_search import assert_same, brute_force, only, sequence_log_prob


def options_for(n_best: int, extra: int = 4, batch_tokens: int = 8192, **sampling: float) -> SearchOptions:
    settings, limit = Sampling.model_validate(sampling), MaxLength(factor=1, extra=extra)
    return SearchOptions(beam=1, n_best=n_best, max_length=limit, sampling=settings, batch_tokens=batch_tokens)


@pytest.mark.parametrize("budget", [1, 20, 60])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7}, {"top_p": 0.8, "temperature": 1.5}], ids=str)
def test_samples_do_not_depend_on_the_batch(sampling: dict[str, float], budget: int) -> None:
    runner = TorchEngine([tiny_model(5, vocabulary=12)])
    options = options_for(3, batch_tokens=budget, **sampling)
    sentences = [[4 + (i * j + i) % 8 for j in range(length)] for i, length in enumerate([3, 1, 9, 1, 6, 3])]
    for ids, found in zip(sentences, runner.search(sentences, options), strict=True):
        assert_same(found, only(runner.search([ids], options)))


def test_samples_do_not_depend_on_their_number() -> None:
    runner = TorchEngine([tiny_model(2, vocabulary=12)])
    few, many = ([one.tokens for one in only(runner.search([[4, 5]], options_for(n)))] for n in (3, 9))
    assert Counter(map(tuple, few)) <= Counter(map(tuple, many))
    assert len(set(map(tuple, many))) > 1


def test_noise_is_uniform_and_differs_by_sentence_sample_and_position() -> None:
    noise = options_for(20).noise([[4, 5], [5, 4]], [50, 40])
    assert noise is not None
    assert noise.shape == (2, 20, 50)
    assert not noise[1, :, 40:].any()
    used = np.concatenate([noise[0].flatten(), noise[1, :, :40].flatten()])
    assert ((used >= 0) & (used < 1)).all()
    assert len(set(used.tolist())) > 0.99 * used.size
    assert float(used.mean()) == pytest.approx(0.5, abs=4 / math.sqrt(12 * used.size))
    shorter = options_for(2).noise([[5, 4]], [10])
    assert shorter is not None
    assert (shorter[0] == noise[1, :2, :10]).all()


def test_frequencies_of_samples_equal_their_probabilities() -> None:
    """Every output of up to three words, its probability by brute force; χ² within what chance allows."""
    model, source = tiny_model(0, vocabulary=6, sharpness=1.0), [4, 5, 3]
    options = SearchOptions(n_best=4000, max_length=MaxLength(factor=0, extra=3), sampling=Sampling())
    samples = Counter(tuple(one.tokens) for one in only(search([model], [source], options)))
    # forbidden tokens are never drawn, and at the limit only </s> is allowed
    expected = {tuple(one.tokens): probability(one, model, source) for one in brute_force(model, source, options, 3)}
    assert sum(expected.values()) == pytest.approx(1)
    squares = [(samples[tokens] - 4000 * p) ** 2 / (4000 * p) for tokens, p in expected.items()]
    freedom = len(squares) - 1
    assert sum(squares) < freedom + 4 * math.sqrt(2 * freedom)


@torch.no_grad()
def probability(hypothesis: Hypothesis, model: Transformer, source: list[int]) -> float:
    """Return how probable a hypothesis is to be drawn from words and `</s>` of a vocabulary of 6, within 3 tokens."""
    table = model(torch.tensor([source]), None, torch.tensor([[BOS, *hypothesis.tokens]]))[0]
    shares = [table[i, [EOS, 4, 5]].softmax(-1)[[EOS, 4, 5].index(t)] for i, t in enumerate([*hypothesis.tokens, EOS])]
    return math.prod(map(float, shares[:2]))


def test_log_prob_of_samples_is_that_of_the_model() -> None:
    model, source = tiny_model(3, vocabulary=12), [4, 5, 6, 3]
    found = only(search([model], [source], options_for(5, temperature=2.0, top_p=0.8)))
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)
    for one in found:
        table = log_probs_without_cache(model, source, one.tokens)
        assert one.log_prob == pytest.approx(sequence_log_prob(table, one.tokens), abs=1e-4)


@pytest.mark.parametrize("sampling", [{"top_p": 1e-6}, {"temperature": 0.01}])
def test_sampling_from_one_token_equals_greedy_search(sampling: dict[str, float]) -> None:
    model, sentences = tiny_model(4, vocabulary=12), [[4, 5, 6, 3], [7, 3]]
    greedy = search([model], sentences, SearchOptions(beam=1, max_length=MaxLength(factor=1, extra=4)))
    for best, drawn in zip(greedy, search([model], sentences, options_for(3, **sampling)), strict=True):
        assert [one.tokens for one in drawn] == 3 * [best[0].tokens]


def slow_draw(logits: list[float], number: float, sampling: Sampling) -> int:
    """Reference: temperature, the fewest that reach p, and then the shares in order."""
    weights = {token: math.exp(logit / sampling.temperature) for token, logit in enumerate(logits)}
    ranked = sorted(weights, key=lambda token: -weights[token])
    total = sum(weights[token] for token in ranked)
    reached = list(itertools.accumulate(weights[token] / total for token in ranked))
    kept = ranked[: 1 + sum(so_far < sampling.top_p for so_far in reached[:-1])]
    number *= sum(weights[token] for token in kept)
    for token in sorted(kept):
        number -= weights[token]
        if number < 0:
            return token
    raise AssertionError("numbers are below 1")


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.3, 1.0, 3.0]),
    top_p=st.sampled_from([1e-46, 0.1, 0.5, 0.9, 1.0]),
)
def test_draw_equals_the_reference(seed: int, temperature: float, top_p: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(6, 10, generator=generator)
    noise = torch.rand(6, generator=generator)
    sampling = Sampling(temperature=temperature, top_p=top_p)
    expected = [slow_draw(row, number, sampling) for row, number in zip(logits.tolist(), noise.tolist(), strict=True)]
    assert draw(logits, noise, sampling).tolist() == expected


def test_draw_with_extreme_noise_and_logits() -> None:
    logits = torch.tensor([-math.inf, 3e38, -3e38, 3e38, -math.inf]).expand(2, 5)
    noise = torch.tensor([0.0, 1 - 2**-24])
    assert draw(logits, noise, Sampling(temperature=0.01)).tolist() == [1, 3]
