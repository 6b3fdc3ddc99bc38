"""Collation of stored tokens to tensors, by hand, and the infinite stream of batches."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.batching.batch import Batch, collate, pad
from nmt.batching.batch_stream import BatchStream, DataPosition, plan_epoch
from nmt.text.prepared import CorpusPart, PreparedSplit
from nmt.text.tokenizer import BOS, EOS, PAD, Tokenizer, Tokenizers
from tests.builders import token_store

START = DataPosition()


def tokenizers() -> Tokenizers:
    blank = Tokenizer(None)  # batching uses only the special symbols
    return Tokenizers(blank, blank)


def split_of(pairs: Sequence[tuple[list[int], list[int]]]) -> PreparedSplit:
    source, target = (token_store(side) for side in zip(*pairs, strict=True))
    return PreparedSplit(source, target, (CorpusPart(len(source)),))


def stream_of(count: int, position: DataPosition = START, budget: int = 24) -> BatchStream:
    random = np.random.default_rng(5)
    pairs = [([4 + i] * random.integers(1, 6), [4 + i] * random.integers(1, 6)) for i in range(count)]
    split = split_of(pairs)
    return BatchStream(split, budget, 7, position=position)


def content(batch: Batch) -> list[Any]:
    groups = [[g.source.tolist(), g.target_in.tolist(), g.target_out.tolist()] for g in batch.groups]
    return [groups, batch.source_tokens, batch.target_tokens]


def test_collate_by_hand() -> None:
    split = split_of([([10, 11, 12], [20]), ([13], [21, 22]), ([], [])])
    batch = collate(split, [[1, 0], np.array([2])])
    group, empty = batch.groups
    assert group.source.tolist() == [[13, EOS, PAD, PAD], [10, 11, 12, EOS]]
    assert group.target_in.tolist() == [[BOS, 21, 22], [BOS, 20, PAD]]
    assert group.target_out.tolist() == [[21, 22, EOS], [20, EOS, PAD]]
    assert group.source_mask is not None
    assert group.source_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert group.source.dtype == group.target_in.dtype == group.target_out.dtype == torch.int64
    assert [empty.source.tolist(), empty.target_in.tolist(), empty.target_out.tolist()] == [[[EOS]], [[BOS]], [[EOS]]]
    assert (batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) == (7, 6, 7)


def test_collate_without_padding_has_no_mask() -> None:
    batch = collate(split_of([([5, 6], [7]), ([8, 9], [4, 4, 4])]), [[0, 1]])
    assert batch.groups[0].source_mask is None
    assert batch.target_tokens == 6


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=8), min_size=1, max_size=6))
def test_pad_is_invertible(sentences: list[list[int]]) -> None:
    ids, mask = pad(sentences)
    assert ids.shape == (len(sentences), max(map(len, sentences)))
    seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert [row[kept].tolist() for row, kept in zip(ids, seen, strict=True)] == sentences
    assert not ids[~seen].any()
    assert (mask is None) == (len(set(map(len, sentences))) == 1)


def test_to_the_same_device_returns_the_same_batch() -> None:
    batch = collate(split_of([([5], [6]), ([5, 5], [6])]), [[0, 1]])
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    (group,) = moved.groups
    assert group.source.device.type == group.target_in.device.type == group.target_out.device.type == "meta"
    assert group.source_mask is not None
    assert group.source_mask.device.type == "meta"
    assert moved.target_tokens == batch.target_tokens


def test_stream_equals_the_plans() -> None:
    stream = stream_of(40)
    for epoch in range(3):
        groups = plan_epoch(stream.split, stream.budget, stream.seed, epoch)
        for number, indices in enumerate(groups):
            assert stream.position == DataPosition(epoch, number)
            assert stream.epochs_read == pytest.approx(epoch + number / len(groups))
            assert content(stream.next()) == content(collate(stream.split, [indices]))
    assert stream.position == DataPosition(3)


def test_epoch_contains_every_sentence() -> None:
    stream, seen = stream_of(40), Counter()
    while stream.position.epoch == 0:
        seen.update(row[0] for row in stream.next().groups[0].source.tolist())
    assert seen == Counter(range(4, 44))


@pytest.mark.parametrize("after", [0, 1, 5, 11, 12, 13, 30])
def test_stream_continues_from_its_position(after: int) -> None:
    stream = stream_of(40)
    for _ in range(after):
        stream.next()
    resumed = stream_of(40, stream.position)
    for _ in range(25):
        assert content(stream.next()) == content(resumed.next())
        assert stream.position == resumed.position
