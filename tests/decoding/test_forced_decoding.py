"""Forced decoding against teacher forcing, the search, and attention computed from its formula."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced, Pair
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer, attention_weights
from nmt.text.tokenizer import BOS, EOS
from tests.builders import log_probs_without_cache, tiny_model


def force(model: Transformer, pairs: Sequence[Pair], budget: int, with_attention: bool = False) -> list[Forced]:
    """Return the results of one model."""
    return TorchEngine([model]).force(pairs, budget, with_attention)


def test_log_probs_equal_teacher_forcing() -> None:
    model = tiny_model(1, vocabulary=12)
    pairs = [([4, 5, 6], [7, 8, 9, 10]), ([11], []), ([5, 5], [4, 4, 4]), ([], [6])]
    found = force(model, pairs, 100)
    for (source, target), forced in zip(pairs, found, strict=True):
        table = log_probs_without_cache(model, [*source, EOS], target)
        assert forced.token_log_probs == pytest.approx(
            [float(table[i, token]) for i, token in enumerate([*target, EOS])], abs=1e-4
        )
        assert forced.attention.shape == (0, len(source) + 1)


def test_batch_too_large_for_the_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    model, encode, sizes = tiny_model(1, vocabulary=12), Transformer.encode, list[int]()
    pairs = [([4 + i % 5] * (i % 4), [5 + i % 4] * (i % 3)) for i in range(6)]
    expected = force(model, pairs, 100, with_attention=True)

    def small_machine(model: Transformer, rows: Rows) -> Tensor:
        sizes.append(len(rows.lengths))
        if sizes[-1] > largest:
            raise torch.OutOfMemoryError
        return encode(model, rows)

    monkeypatch.setattr(Transformer, "encode", small_machine)
    largest = 2
    found = force(model, pairs, 100, with_attention=True)
    assert sizes == [6, 6, 3, 3, 1, 2, 3, 3, 1, 2]  # each is tried again when memory has been released
    for one, other in zip(found, expected, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)
    largest = 0
    with pytest.raises(ConfigError, match="a pair of 4 and 1 tokens does not fit in the memory of cpu"):
        force(model, pairs, 100)


@pytest.mark.parametrize("beam", [1, 4])
def test_log_prob_of_a_hypothesis_equals_that_of_its_search(beam: int) -> None:
    model = tiny_model(2, vocabulary=12, positions="rotary", norm="post")
    sentences = [[4, 5, 6], [7], [11, 9, 8, 5]]
    hypotheses = [best[0] for best in search([model], [[*ids, EOS] for ids in sentences], SearchOptions(beam=beam))]
    forced = force(model, [(ids, best.tokens) for ids, best in zip(sentences, hypotheses, strict=True)], 1)
    for one, other in zip(forced, hypotheses, strict=True):
        assert sum(one.token_log_probs) == pytest.approx(other.log_prob, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.lists(st.integers(4, 11), max_size=9), st.lists(st.integers(4, 11), max_size=9)), max_size=12
    ),
    budget=st.integers(1, 60),
)
def test_results_do_not_depend_on_the_batch(pairs: list[tuple[list[int], list[int]]], budget: int) -> None:
    model = tiny_model(5, vocabulary=12)
    together = force(model, pairs, budget, with_attention=True)
    assert len(together) == len(pairs)
    for pair, found in zip(pairs, together, strict=True):
        (alone,) = force(model, [pair], 1, with_attention=True)
        assert found.token_log_probs == pytest.approx(alone.token_log_probs, abs=1e-4)
        np.testing.assert_allclose(found.attention, alone.attention, atol=1e-5)
        np.testing.assert_allclose(found.attention.sum(1), 1, atol=1e-5)


def test_attention_is_the_mean_of_all_heads() -> None:
    model = tiny_model(4, vocabulary=12)
    source, target = [4, 5, 6, 7], [8, 9]
    (forced,) = force(model, [(source, target)], 100, with_attention=True)
    weights = attention_weights(model, [*source, EOS], [BOS, *target]).cross  # (L, H, T, S)
    assert weights.shape == (2, 2, 3, 5)
    np.testing.assert_allclose(forced.attention, sum(weights[i, j] for i in (0, 1) for j in (0, 1)) / 4, atol=1e-5)


def test_no_pairs_have_no_results() -> None:
    assert force(tiny_model(0), [], 10) == []


def test_logits_are_computed_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(1, vocabulary=12)
    pairs = [([4, 5, 6], [7, 8, 9, 10]), ([5, 5], [4, 4, 4])]
    whole = force(model, pairs, 100)
    rows: list[int] = []
    logits = Transformer.logits

    def counted(self: Transformer, hidden: Tensor) -> Tensor:
        rows.append(len(hidden))
        return logits(self, hidden)

    monkeypatch.setattr("nmt.decoding.forced_decoding._ROWS", 3)
    monkeypatch.setattr(Transformer, "logits", counted)
    for one, other in zip(force(model, pairs, 100), whole, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
    assert max(rows) == 3
