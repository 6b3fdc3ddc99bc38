"""From token store to tensors, by hand-worked examples, and the endless sequence of batches."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.batching.batch import Batch, collate, pad
from nmt.batching.plan import SentenceLengths, plan_epoch
from nmt.batching.stream import BatchStream
from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import BOS, EOS, PAD, Tokenizer, Tokenizers


def tokenizers() -> Tokenizers:
    blank = Tokenizer(None)  # batching asks for nothing but the special symbols
    return Tokenizers(blank, blank)


def split_of(pairs: Sequence[tuple[list[int], list[int]]]) -> PreparedSplit:
    source, target = ([np.array(ids, dtype=np.int32) for ids in side] for side in zip(*pairs, strict=True))
    weights = np.ones(len(pairs), dtype=np.float32)
    return PreparedSplit(source, target, weights)  # type: ignore[arg-type]


def stream_of(count: int, budget: int = 24, **place: int) -> BatchStream:
    random = np.random.default_rng(5)
    pairs = [([4 + i] * random.integers(1, 6), [4 + i] * random.integers(1, 6)) for i in range(count)]
    source, target = (np.array([len(ids) + 1 for ids in side]) for side in zip(*pairs, strict=True))
    lengths = SentenceLengths(source, target, np.ones(count, dtype=np.float32))
    return BatchStream(split_of(pairs), lengths, tokenizers(), budget, 7, **place)


def content(batch: Batch) -> list[Any]:
    groups = [[g.source.tolist(), g.target_in.tolist(), g.target_out.tolist()] for g in batch.groups]
    return [groups, batch.source_tokens, batch.target_tokens]


def test_collate_by_hand() -> None:
    split = split_of([([10, 11, 12], [20]), ([13], [21, 22]), ([], [])])
    batch = collate(split, [[1, 0], np.array([2])], tokenizers())
    group, empty = batch.groups
    assert group.source.tolist() == [[13, EOS, PAD, PAD], [10, 11, 12, EOS]]
    assert group.target_in.tolist() == [[BOS, 21, 22], [BOS, 20, PAD]]
    assert group.target_out.tolist() == [[21, 22, EOS], [20, EOS, PAD]]
    assert group.source_mask is not None
    assert group.source_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert group.source.dtype == group.target_in.dtype == group.target_out.dtype == torch.int64
    assert [empty.source.tolist(), empty.target_in.tolist(), empty.target_out.tolist()] == [[[EOS]], [[BOS]], [[EOS]]]
    assert (batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) == (7, 6, 7)


def test_no_mask_where_nothing_is_padded() -> None:
    batch = collate(split_of([([5, 6], [7]), ([8, 9], [4, 4, 4])]), [[0, 1]], tokenizers())
    assert batch.groups[0].source_mask is None
    assert batch.target_tokens == 6


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=8), min_size=1, max_size=6))
def test_padding_can_be_taken_away_again(sentences: list[list[int]]) -> None:
    ids, mask = pad(sentences, 0)
    assert ids.shape == (len(sentences), max(map(len, sentences)))
    seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert [row[kept].tolist() for row, kept in zip(ids, seen, strict=True)] == sentences
    assert not ids[~seen].any()
    assert (mask is None) == (len(set(map(len, sentences))) == 1)


def test_to_the_same_device_copies_nothing() -> None:
    batch = collate(split_of([([5], [6]), ([5, 5], [6])]), [[0, 1]], tokenizers())
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    (group,) = moved.groups
    assert group.source.device.type == group.target_in.device.type == group.target_out.device.type == "meta"
    assert group.source_mask is not None
    assert group.source_mask.device.type == "meta"
    assert moved.target_tokens == batch.target_tokens


def test_stream_follows_the_plans() -> None:
    stream = stream_of(40)
    for epoch in range(3):
        plan = plan_epoch(stream.lengths, stream.budget, stream.seed, epoch)
        for number, indices in enumerate(plan.groups):
            assert (stream.epoch, stream.group) == (epoch, number)
            assert stream.epochs_read == pytest.approx(epoch + number / len(plan.groups))
            assert content(stream.next()) == content(collate(stream.split, [indices], stream.tokenizers))
    assert (stream.epoch, stream.group) == (3, 0)


def test_an_epoch_shows_every_sentence() -> None:
    stream, seen = stream_of(40), Counter()
    while stream.epoch == 0:
        seen.update(row[0] for row in stream.next().groups[0].source.tolist())
    assert seen == Counter(range(4, 44))


@pytest.mark.parametrize("after", [0, 1, 5, 11, 12, 13, 30])
def test_a_stream_set_to_a_place_goes_on_from_there(after: int) -> None:
    stream = stream_of(40)
    for _ in range(after):
        stream.next()
    resumed = stream_of(40, epoch=stream.epoch, group=stream.group)
    for _ in range(25):
        assert content(stream.next()) == content(resumed.next())
        assert (stream.epoch, stream.group) == (resumed.epoch, resumed.group)
