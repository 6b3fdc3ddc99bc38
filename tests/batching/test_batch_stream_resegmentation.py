"""Sampled segmentations in batches: a function of (seed, epoch, pair, side), of limited length."""

from pathlib import Path

import numpy as np
import pytest

from nmt.batching.batch import Pairs
from nmt.batching.batch_stream import GROWTH, BatchStream, Resegmentation
from nmt.config import TokenizerSettings
from nmt.errors import ConfigError
from nmt.text.prepared import CorpusPart, PreparedSplit
from nmt.text.subword_sampling import SegmentationSampler
from nmt.text.tokenizer import PAD, Tokenizer, Tokenizers
from tests.builders import tiny_recipe, tiny_tokenizers, token_store


@pytest.fixture(scope="module")
def rows(repository: Path) -> list[list[str]]:
    text = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8")
    return [row.split("\t")[:2] for row in text.splitlines()[:120]]


@pytest.fixture(scope="module")
def tokenizers(rows: list[list[str]]) -> Tokenizers:
    shared = Tokenizer.train([side for row in rows for side in row], TokenizerSettings(vocab_size=500))
    return Tokenizers(shared, shared)


@pytest.fixture(scope="module")
def split(rows: list[list[str]], tokenizers: Tokenizers) -> PreparedSplit:
    source, target = (token_store([tokenizers.source.encode(row[i]) for row in rows]) for i in (0, 1))
    return PreparedSplit(source, target, (CorpusPart(len(source)),))


def resegmentation_of(tokenizers: Tokenizers, amount: float = 0.2, seed: int = 1, longest: int = 100) -> Resegmentation:
    sampler = SegmentationSampler(tokenizers.source, amount)
    return Resegmentation(sampler, sampler, seed, longest)


def pairs_at(
    split: PreparedSplit, indices: list[int]
) -> tuple[Pairs, np.ndarray[tuple[int], np.dtype[np.int64]], tuple[int, int]]:
    """Return pairs, their indices, and the lengths of the longest source and target."""
    chosen = np.array(indices)
    source, target = split.source.gather(chosen), split.target.gather(chosen)
    return (source, target), chosen, (int(source.lengths.max()) + 1, int(target.lengths.max()) + 1)


def test_resegmentation_is_a_function_of_seed_epoch_pair_and_side(split: PreparedSplit, tokenizers: Tokenizers) -> None:
    variation = resegmentation_of(tokenizers)
    together = variation.sample(*pairs_at(split, list(range(40))), epoch=3)
    # with the longest pair in each batch, the length limit is the same
    longest = int(np.argmax(together[0].lengths))
    for i in (0, 7, 39):
        alone = variation.sample(*pairs_at(split, [i, longest]), epoch=3)
        assert alone[0].split()[0] == together[0].split()[i]
    other_epoch = variation.sample(*pairs_at(split, list(range(40))), epoch=4)
    other_seed = resegmentation_of(tokenizers, seed=2).sample(*pairs_at(split, list(range(40))), epoch=3)
    assert len({str(pairs[0].split()) for pairs in (together, other_epoch, other_seed)}) == 3
    same_text = split.source, split.source
    pairs = tuple(side.gather(np.arange(40)) for side in same_text)
    source, target = variation.sample((pairs[0], pairs[1]), np.arange(40), (100, 100), 3)
    assert source.split() != target.split()


def test_resegmentation_keeps_the_text(split: PreparedSplit, tokenizers: Tokenizers, rows: list[list[str]]) -> None:
    for side, sentences in enumerate(resegmentation_of(tokenizers).sample(*pairs_at(split, list(range(120))), epoch=0)):
        assert [tokenizers.source.decode(ids) for ids in sentences.split()] == [row[side] for row in rows]


@pytest.mark.parametrize(("amount", "longest"), [(0.01, 1000), (0.2, 1000), (0.01, 12)])
def test_resegmentation_limits_the_growth_of_a_group(
    split: PreparedSplit, tokenizers: Tokenizers, amount: float, longest: int
) -> None:
    variation, grown = resegmentation_of(tokenizers, amount, longest=longest), []
    for start in range(0, 120, 10):
        pairs, indices, stored_lengths = pairs_at(split, list(range(start, start + 10)))
        for before, after in zip(pairs, variation.sample(pairs, indices, stored_lengths, 1), strict=True):
            stored = before.lengths.max() + 1
            assert after.lengths.max() + 1 <= max(stored, min(GROWTH * stored, longest))
            grown.append(after.lengths.sum() / before.lengths.sum())
    assert np.mean(grown) > 1.02


def test_ranks_together_read_the_segmentations_of_one_process(split: PreparedSplit, tokenizers: Tokenizers) -> None:
    def sentences(rank: int, world_size: int) -> list[list[list[int]]]:
        variation = resegmentation_of(tokenizers, amount=0.01)  # many samples reach the limit
        stream = BatchStream(split, 400, 7, resegmentation=variation, rank=rank, world_size=world_size)
        return [
            [row[: int((row != PAD).sum())].tolist() for group in stream.next().groups for row in group.source]
            for _ in range(20)
        ]

    whole, shares = sentences(0, 1), [sentences(rank, 3) for rank in range(3)]
    for batch, *of_ranks in zip(whole, *shares, strict=True):
        assert sorted(batch) == sorted(row for share in of_ranks for row in share)


def test_of_recipe_uses_the_settings(tokenizers: Tokenizers) -> None:
    assert Resegmentation.of_recipe(tiny_recipe(), tokenizers) is None
    chosen = tiny_recipe(subword_sampling=2.0)
    found = Resegmentation.of_recipe(chosen, tokenizers)
    assert found is not None
    assert found.source is found.target
    assert (found.seed, found.longest) == (chosen.seed, chosen.data.filters.max_tokens + 1)
    with pytest.raises(ConfigError, match=r"train.subword_sampling: found 2, expected less than 1: with a bpe"):
        Resegmentation.of_recipe(chosen, tiny_tokenizers(type="bpe"))
