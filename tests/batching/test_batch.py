"""Batches: rows of stored tokens by hand, their tiles, and sentences without a loss, which change no update."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.batching.batch import TILE, Batch, Rows, assemble, most_tiles
from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Kernels
from nmt.text.prepared import CorpusPart, PreparedSplit, Sentences
from nmt.text.tokenizer import BOS, EOS, PAD
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import CPU, PAIRS, difference, make_updater, update

LENGTHS = st.lists(st.tuples(st.integers(1, 150), st.integers(1, 150)), max_size=40)


def test_batch_by_hand() -> None:
    source, target = Sentences.of([[10, 11, 12], [13], []]), Sentences.of([[20], [21, 22], []])
    split = PreparedSplit(source, target, (CorpusPart(3),))
    batch = assemble([split.gather(np.array(indices)) for indices in ([1, 0], [2])], lambda *_: (9, 8))
    assert batch.source.ids.tolist() == [13, EOS, 10, 11, 12, EOS, EOS, EOS, EOS]
    assert batch.target.ids.tolist() == [BOS, 21, 22, BOS, 20, BOS, BOS, PAD]
    assert batch.labels.tolist() == [21, 22, EOS, 20, EOS, EOS, PAD, PAD]
    assert batch.source.positions.tolist() == [0, 1, 0, 1, 2, 3, 0, 0, 1]
    assert batch.target.positions.tolist() == [0, 1, 2, 0, 1, 0, 0, 1]
    assert batch.target.sentences.tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
    assert [side.tiles.tolist() for side in (batch.source, batch.target)] == [[0, 9], [0, 8]]
    assert batch.source.group_starts == batch.target.group_starts == (2, 3)
    groups = batch.target.length_groups()
    assert [rows.ids.tolist() for _, rows in groups] == [[BOS, 21, 22, BOS, 20], [BOS], [BOS, PAD]]
    assert (batch.source_tokens, batch.target_tokens) == (7, 6)
    assert {x.dtype for side in (batch.source, batch.target) for x in (*side.by_token, side.tiles, batch.labels)} == {
        torch.int32
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=8), min_size=1, max_size=6))
def test_grid_is_invertible(sentences: list[list[int]]) -> None:
    rows = Rows.of(sentences)
    ids, mask = rows.grid(rows.ids), rows.mask()
    assert ids.shape == (len(sentences), max(map(len, sentences)))
    seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert [row[kept].tolist() for row, kept in zip(ids, seen, strict=True)] == sentences
    assert not ids[~seen].any()
    assert (mask is None) == (len(set(map(len, sentences))) == 1)
    assert torch.equal(rows.from_grid(ids), rows.ids)


def batch_of_lengths(lengths: list[tuple[int, int]], filled: tuple[int, int] = (0, 0)) -> Batch:
    """Return a batch of sentences of these numbers of tokens, `</s>` included, and so many rows more."""
    sides = [Sentences.of([[5] * (pair[side] - 1) for pair in lengths]) for side in (0, 1)]
    sizes = lambda source, target: (source + filled[0], target + filled[1])  # noqa: E731
    return assemble([(sides[0], sides[1])] if lengths else [], sizes)


@given(LENGTHS, st.integers(0, 300), st.integers(0, 300))
def test_fillers_are_short_sentences_without_a_loss(lengths: list[tuple[int, int]], source: int, target: int) -> None:
    batch = batch_of_lengths(lengths, (source, target))
    sums = [sum(pair[side] for pair in lengths) for side in (0, 1)]
    assert (batch.source_tokens, batch.target_tokens) == tuple(sums)
    assert (len(batch.source.ids), len(batch.target.ids)) == (sums[0] + source, sums[1] + target)
    assert int((batch.labels != PAD).sum()) == sums[1]
    assert (batch.labels[sums[1] :] == PAD).all()
    for side in (batch.source, batch.target):
        assert side.lengths[len(lengths) :].max(initial=0) <= TILE


@given(LENGTHS, st.integers(0, 300), st.integers(0, 300))
def test_tiles_hold_whole_sentences_and_depend_in_number_on_the_rows_only(
    lengths: list[tuple[int, int]], source: int, target: int
) -> None:
    batch = batch_of_lengths(lengths, (source, target))
    edges = list(zip(batch.source.tiles.tolist(), batch.target.tiles.tolist(), strict=True))
    assert len(edges) == most_tiles(len(batch.source.ids) + len(batch.target.ids)) + 1
    assert (edges[0], edges[-1]) == ((0, 0), (len(batch.source.ids), len(batch.target.ids)))
    sentences = list(zip(batch.source.offsets.tolist(), batch.target.offsets.tolist(), strict=True))
    assert set(edges) <= set(sentences)
    for begin, end in pairwise(edges):
        if max(end[0] - begin[0], end[1] - begin[1]) > TILE:
            assert sum(begin <= sentence < end for sentence in sentences) == 1


@pytest.mark.parametrize("filled", [(0, 1), (10, 100), (100, 0)])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
@pytest.mark.parametrize("kind", [Kernels, CpuKernels])
def test_fillers_do_not_change_updates(kind: type[Kernels], positions: str, filled: tuple[int, int]) -> None:
    """Also fillers without any source."""
    chosen = tiny_recipe(adam_epsilon=1e-3)  # rounding errors of small gradients are no whole steps
    chosen = chosen.model_copy(update={"model": chosen.model.model_copy(update={"positions": positions})})
    ours, theirs = (make_updater(chosen) for _ in range(2))
    source, target = (Sentences.of(side) for side in zip(*PAIRS, strict=True))
    batch = assemble([(source, target)], lambda source, target: (source + filled[0], target + filled[1]))
    for updater in (ours, theirs):
        updater.model.compute_with(kind(CPU))
    for step in (1, 2, 3):
        expected = update(theirs, step, batch_of(PAIRS)).results()
        assert update(ours, step, batch).results() == pytest.approx(expected, rel=1e-4)
    assert difference(ours, theirs) < 1e-5
