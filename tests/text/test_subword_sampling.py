"""Subword sampling against enumerated segmentations and against SentencePiece; invariants of the sampled ids."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import TokenizerSettings
from nmt.text.normalize import normalize
from nmt.text.subword_sampling import SegmentationSampler
from nmt.text.tokenizer import Tokenizer

UNIGRAM, BPE = "unigram", "bpe"
TEXT = st.lists(st.sampled_from([*"abcdeghilmnorst", " ", " ", "è", "茶", "☃", "▁", "<s>", "Tom", "the "])).map("".join)


@pytest.fixture(scope="module")
def lines(repository: Path) -> list[str]:
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()
    return [column for row in rows for column in row.split("\t")]


@pytest.fixture(scope="module")
def tokenizers(lines: list[str]) -> dict[str, Tokenizer]:
    settings = (TokenizerSettings(vocab_size=1000, type="unigram"), TokenizerSettings(vocab_size=1000, type="bpe"))
    return {chosen.type: Tokenizer.train(lines[:3000], chosen, ["back"]) for chosen in settings}


@pytest.fixture(scope="module")
def sampler_without_dropout(tokenizers: dict[str, Tokenizer]) -> SegmentationSampler:
    return SegmentationSampler(tokenizers[BPE], 0.0)


@pytest.fixture(scope="module")
def samplers(tokenizers: dict[str, Tokenizer]) -> dict[str, SegmentationSampler]:
    return {name: SegmentationSampler(tokenizer, 0.3) for name, tokenizer in tokenizers.items()}


def segmentations(tokenizer: Tokenizer, text: str) -> Iterator[list[int]]:
    """Yield every segmentation of a text, in which `▁` replaces spaces, into pieces."""
    if not text:
        yield []
    for i, surface in enumerate(tokenizer.table.surfaces):
        if surface and text.startswith(surface):
            yield from ([i, *rest] for rest in segmentations(tokenizer, text[len(surface) :]))


def log_prob(tokenizer: Tokenizer, ids: Sequence[int]) -> float:
    return sum(tokenizer.table.scores[i] for i in ids)


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_unigram_samples_follow_the_probabilities(tokenizers: dict[str, Tokenizer], alpha: float) -> None:
    tokenizer = tokenizers[UNIGRAM]
    ids = tokenizer.encode("the cat sleeps")
    candidates = [tuple(candidate) for candidate in segmentations(tokenizer, "▁the▁cat▁sleeps")]
    weights = [math.exp(alpha * log_prob(tokenizer, candidate)) for candidate in candidates]
    assert len(candidates) > 10
    draw, draws = random.Random(1), 5_000
    sampler = SegmentationSampler(tokenizer, alpha)
    found = Counter(tuple(sampler.sample(ids, draw)) for _ in range(draws))
    assert set(found) <= set(candidates)
    for candidate, weight in zip(candidates, weights, strict=True):
        share = weight / sum(weights)
        # five standard deviations of a binomial count
        assert found[candidate] == pytest.approx(draws * share, abs=5 * math.sqrt(draws * share * (1 - share)) + 1)


def test_high_alpha_gives_the_most_probable_segmentation(tokenizers: dict[str, Tokenizer], lines: list[str]) -> None:
    tokenizer = tokenizers[UNIGRAM]
    sampler = SegmentationSampler(tokenizer, 1e4)
    for line in lines[:1000]:
        ids = tokenizer.encode(line)
        # any of several equally probable segmentations may be returned
        assert log_prob(tokenizer, sampler.sample(ids, random.Random(1))) == pytest.approx(log_prob(tokenizer, ids))


@given(TEXT)
def test_bpe_without_dropout_equals_sentencepiece_for_any_text(
    tokenizers: dict[str, Tokenizer], sampler_without_dropout: SegmentationSampler, text: str
) -> None:
    ids = tokenizers[BPE].encode(text)
    assert sampler_without_dropout.sample(ids, random.Random(1)) == ids


def segmentation_probabilities(
    ranks: dict[str, float], symbols: tuple[str, ...], dropout: float
) -> Counter[tuple[str, ...]]:
    """Return the probability of each segmentation: the k-th best merge is applied if all better ones are dropped."""
    possible = sorted((ranks[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in ranks)
    found: Counter[tuple[str, ...]] = Counter({symbols: dropout ** len(possible)})  # type: ignore[dict-item]
    for k, (_, i) in enumerate(possible):
        merged = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
        for segmentation, probability in segmentation_probabilities(ranks, merged, dropout).items():
            found[segmentation] += probability * (1 - dropout) * dropout**k  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_bpe_dropout_samples_follow_the_probabilities(tokenizers: dict[str, Tokenizer], dropout: float) -> None:
    table = tokenizers[BPE].table
    ranks = {surface: -score for surface, score in zip(table.surfaces, table.scores, strict=True) if surface}
    word = max((surface for surface in ranks if surface[0] == "▁" and len(surface) < 9), key=len)
    expected = segmentation_probabilities(ranks, tuple(word), dropout)
    assert len(expected) > 5
    assert sum(expected.values()) == pytest.approx(1)
    sampler, draw, draws = SegmentationSampler(tokenizers[BPE], dropout), random.Random(1), 5_000
    ids = tokenizers[BPE].encode(word[1:])
    found = Counter(tuple(table.surfaces[i] for i in sampler.sample(ids, draw)) for _ in range(draws))
    assert set(found) <= set(expected)
    for segmentation, share in expected.items():
        assert found[segmentation] == pytest.approx(draws * share, abs=5 * math.sqrt(draws * share * (1 - share)) + 1)


@pytest.mark.parametrize("type_", [UNIGRAM, BPE])
def test_sampling_keeps_tags_in_front(tokenizers: dict[str, Tokenizer], type_: str) -> None:
    tokenizer = tokenizers[type_]
    tag, sampler, changed = tokenizer.tag_id("back"), SegmentationSampler(tokenizer, 0.3), 0
    ids = tokenizer.encode("the cat sleeps in the house")
    for seed in range(20):
        sampled = sampler.sample([tag, *ids], random.Random(seed))
        assert sampled[0] == tag
        assert sampled[1:] == sampler.sample(ids, random.Random(seed))
        changed += sampled[1:] != ids
    assert changed > 10
    assert sampler.sample([tag], random.Random(1)) == [tag]
    assert sampler.sample([], random.Random(1)) == []


def test_sampling_keeps_incomplete_byte_sequences(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[UNIGRAM]
    ids = tokenizer.encode("☃")[:-1]
    assert SegmentationSampler(tokenizer, 0.1).sample(ids, random.Random(1)) == ids


@pytest.mark.parametrize("kind", [UNIGRAM, BPE])
@given(text=TEXT.filter(bool), seed=st.integers(0, 9))
def test_protected_symbols_stay_whole(kind: str, text: str, seed: int, lines: list[str]) -> None:
    if kind not in _PROTECTED:
        chosen = TokenizerSettings.model_validate({"vocab_size": 1000, "type": kind, "symbols": ["Tom"]})
        _PROTECTED[kind] = Tokenizer.train(lines[:2000], chosen, ["back"])
    tokenizer = _PROTECTED[kind]
    ids = [tokenizer.tag_id("back"), *tokenizer.encode(text)]
    sampled = SegmentationSampler(tokenizer, 0.3).sample(ids, random.Random(seed))
    assert tokenizer.decode(sampled) == tokenizer.decode(ids) == normalize(text)
    whole = [[i for i in one if i in tokenizer.table.protected] for one in (ids, sampled)]
    assert whole[0] == whole[1]
    assert len(whole[0]) == normalize(text).count("Tom")
    assert sampled[0] == ids[0]


_PROTECTED: dict[str, Tokenizer] = {}
