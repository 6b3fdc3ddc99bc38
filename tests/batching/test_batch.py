"""Batches: collation of stored tokens by hand, and padding to round token counts, which changes no update."""

from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.batching.batch import Batch, collate, pad, pad_to_multiple, split_by_length
from nmt.text.prepared import CorpusPart, PreparedSplit
from nmt.text.tokenizer import BOS, EOS, PAD
from nmt.training import optimizer
from nmt.training import update as update_module
from tests.builders import batch_of, tiny_recipe, token_store
from tests.training.updates import PAIRS, difference, make_updater, update


def test_collate_by_hand() -> None:
    source, target = token_store([[10, 11, 12], [13], []]), token_store([[20], [21, 22], []])
    batch = collate(PreparedSplit(source, target, (CorpusPart(3),)), [[1, 0], [2]])
    group, empty = batch.groups
    assert group.source.tolist() == [[13, EOS, PAD, PAD], [10, 11, 12, EOS]]
    assert group.target_in.tolist() == [[BOS, 21, 22], [BOS, 20, PAD]]
    assert group.target_out.tolist() == [[21, 22, EOS], [20, EOS, PAD]]
    assert group.source_mask is not None
    assert group.source_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert group.source.dtype == group.target_in.dtype == group.target_out.dtype == torch.int64
    assert [empty.source.tolist(), empty.target_in.tolist(), empty.target_out.tolist()] == [[[EOS]], [[BOS]], [[EOS]]]
    assert empty.source_mask is None
    assert (batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) == (7, 6, 7)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=8), min_size=1, max_size=6))
def test_pad_is_invertible(sentences: list[list[int]]) -> None:
    ids, mask = pad(sentences)
    assert ids.shape == (len(sentences), max(map(len, sentences)))
    seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert [row[kept].tolist() for row, kept in zip(ids, seen, strict=True)] == sentences
    assert not ids[~seen].any()
    assert (mask is None) == (len(set(map(len, sentences))) == 1)


def tokens(batch: Batch) -> tuple[int, int]:
    return sum(g.source.numel() for g in batch.groups), sum(g.target_out.numel() for g in batch.groups)


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9))
def test_pad_to_multiple_rounds_token_counts_up(pairs: int, source: int, target: int) -> None:
    before = batch_of([([5] * source, [6] * target)] * pairs)
    after = pad_to_multiple(before)
    assert (after.source_tokens, after.target_tokens) == (before.source_tokens, before.target_tokens)
    assert after.groups[:1] == before.groups
    for old, new in zip(tokens(before), tokens(after), strict=True):
        assert new - old <= max(1, old / 16) if after is not before else new == old
        if old >= 1024 and after is not before:
            assert new % 64 == 0
    assert after is not before or min(tokens(before)) < 32
    assert all(max(g.source.size(1), g.target_in.size(1)) <= 64 for g in after.groups[1:])


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_pad_to_multiple_does_not_change_updates(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "EPSILON", 1e-3)  # rounding errors of small gradients are no whole steps
    chosen = tiny_recipe()
    chosen = chosen.model_copy(update={"model": chosen.model.model_copy(update={"positions": positions})})
    batch = batch_of(PAIRS * 12)
    assert len(pad_to_multiple(batch).groups) == 2
    ours = make_updater(chosen)
    with monkeypatch.context() as plain:
        plain.setattr(update_module, "pad_to_multiple", lambda batch: batch)
        theirs = make_updater(chosen)
        expected = [update(theirs, step, batch).results() for step in (1, 2, 3)]
    found = [update(ours, step, batch).results() for step in (1, 2, 3)]
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    assert difference(ours, theirs) < 1e-5
    assert all(torch.isfinite(weight).all() for weight in ours.model.parameters())


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_parts_hold_groups_of_one_length_within_the_limit_of_tokens(lengths: list[int], tokens: int) -> None:
    parts = split_by_length(lengths, tokens)
    indices = [index for part in parts for group in part for index in group]
    assert sorted(indices) == list(range(len(lengths)))
    assert [lengths[index] for index in indices] == sorted(lengths, reverse=True)
    for part in parts:
        assert len({lengths[group[0]] for group in part}) == len(part)
        assert all(len({lengths[index] for index in group}) == 1 for group in part)
        sentences = [lengths[index] for index in chain.from_iterable(part)]
        assert sum(sentences) <= tokens or len(sentences) == 1
