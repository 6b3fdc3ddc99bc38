"""Settings that fit an amount of text and a device; the size of a text."""

from itertools import pairwise

import pytest
import yaml

from nmt.config import TokenizerSettings
from nmt.text.proposal import TextProfile, propose
from nmt.text.readers import SentencePair
from nmt.text.tokenizer import Tokenizer
from tests.builders import demo_pairs

SIZES = {500: 7_000, 5_000: 60_000, 50_000: 500_000, 500_000: 5_000_000, 5_000_000: 100_000_000}
"""Target tokens of corpora of so many pairs."""


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda"])
def test_settings_grow_with_the_text(device: str) -> None:
    proposals = [propose((tokens, tokens), 4000, device) for tokens in SIZES.values()]
    for smaller, larger in pairwise(proposals):
        assert smaller.model.weight_count(4000, 4000) <= larger.model.weight_count(4000, 4000)
        assert smaller.batch_tokens <= larger.batch_tokens
        assert smaller.model.dropout >= larger.model.dropout
        assert smaller.steps * smaller.batch_tokens < larger.steps * larger.batch_tokens
    sizes = zip(proposals, SIZES.values(), strict=True)
    passes = [0.93 * proposal.steps * proposal.batch_tokens / tokens for proposal, tokens in sizes]
    assert passes == sorted(passes, reverse=True)
    assert 2.8 < passes[-1] < 8
    assert 50 < passes[0] < 90


def test_large_text_on_a_gpu_gets_the_base_model_of_the_paper() -> None:
    model = propose((30_000_000, 30_000_000), 32_000, "cuda").model
    shape = (model.encoder_layers, model.decoder_layers, model.dim, model.feed_forward, model.heads, model.dropout)
    assert shape == (6, 6, 512, 2048, 8, 0.1)
    assert propose((30_000_000, 30_000_000), 32_000, "cpu").model.dim == 256


def test_settings_agree_with_the_trainings_that_were_measured() -> None:
    """recipes/tatoeba-en-it-cpu.yaml, and 25,000 pairs in "Recipes of `nmt init`" of benchmarks/RESULTS.md."""
    small, large = propose((250_000, 240_000), 5000, "cpu"), propose((2_900_000, 3_000_000), 8000, "cpu")
    assert (small.model.dim, small.model.dropout, small.batch_tokens) == (256, 0.2, 2048)
    assert (large.model.dim, large.model.dropout, large.batch_tokens) == (256, 0.1, 2048)
    for proposal in (small, large):
        assert "rate: 0.0015, warmup: 400, decay: 0.7, floor: 0.05" in proposal.settings["train.schedule"].value


def test_training_of_given_minutes_is_as_long_and_has_a_model_that_fits() -> None:
    tokens, rate = (240_000, 240_000), 1e10
    full = propose(tokens, 2400, "cpu")
    needed = full.operations / rate / 60
    half, short, ample = (propose(tokens, 2400, "cpu", rate, needed * share) for share in (0.5, 0.02, 3))
    assert (half.model, half.steps) == (full.model, pytest.approx(full.steps / 2, rel=0.02))
    assert short.operations / rate / 60 == pytest.approx(needed * 0.02, rel=0.02)
    assert short.model.weight_count(2400, 2400) < 0.25 * full.model.weight_count(2400, 2400)
    assert (ample.model, ample.steps) == (full.model, full.steps)
    stop, schedule, every = (
        yaml.safe_load(short.settings[f"train.{key}"].value) for key in ("stop", "schedule", "validate_every")
    )
    assert stop["minutes"] == pytest.approx(needed * 0.02, rel=1e-4)
    assert 5 * schedule["warmup"] == pytest.approx(short.steps, rel=0.1)
    assert 2.9 < short.steps / every < 16


def test_pairs_characters_and_empty_sides_are_counted() -> None:
    made = TextProfile()
    pairs = [SentencePair(*pair) for pair in (("ab", "cde"), ("", "x"), ("y", " "), ("f", "g"))]
    assert list(made.counting(pairs)) == [pairs[0], pairs[3]]
    assert (made.pairs, made.empty, made.characters) == (4, 2, [3, 4])


@pytest.mark.parametrize("language", [1, 2], ids=["en-it", "en-zh"])
def test_estimated_tokens_are_near_those_of_a_tokenizer(language: int) -> None:
    pairs = demo_pairs(2000, target=language)
    made = TextProfile()
    made.sample = list(made.counting(SentencePair(source, target) for source, target in pairs))
    vocabulary, estimates = made.tokens()
    size = min(vocabulary, 1500)
    tokenizer = Tokenizer.train((side for pair in pairs for side in pair), TokenizerSettings(vocab_size=size))
    for side, estimate in enumerate(estimates):
        counted = sum(len(tokenizer.encode(pair[side])) + 1 for pair in pairs)
        assert estimate == pytest.approx(counted, rel=0.5), (side, size)
