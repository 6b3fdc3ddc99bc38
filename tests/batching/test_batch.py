"""Padding of a batch to round token counts; it changes no update."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.batching.batch import Batch, pad_to_multiple
from nmt.training import optimizer
from nmt.training import update as update_module
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import PAIRS, difference, make_updater, update


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
