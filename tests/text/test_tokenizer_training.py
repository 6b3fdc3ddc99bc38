"""The sample of the text on which a tokenizer is trained."""

import numpy as np
import pytest

from nmt.text.preparing.tokenizer_training import is_sampled


def test_share_of_the_sample_is_the_given_one() -> None:
    for share in (0.01, 0.5, 0.9):
        chosen = is_sampled(np.arange(100_000), share).mean()
        assert chosen == pytest.approx(share, abs=4 * (share * (1 - share) / 100_000) ** 0.5)
    assert is_sampled(np.arange(1000), 1.0).all()
    assert not is_sampled(np.arange(1000), 0.0).any()


def test_sample_depends_on_the_index_alone() -> None:
    whole = is_sampled(np.arange(5000), 0.3)
    assert np.array_equal(np.concatenate([is_sampled(np.arange(s, s + 500), 0.3) for s in range(0, 5000, 500)]), whole)


def test_hash_is_that_of_splitmix64() -> None:
    """The first output of splitmix64 with seed 0 is 0xE220A8397B1DCDAF (Vigna's reference implementation)."""
    first = 0xE220A8397B1DCDAF / 2.0**64
    assert is_sampled(np.zeros(1, dtype=np.int64), first + 1e-9).all()
    assert not is_sampled(np.zeros(1, dtype=np.int64), first - 1e-9).any()
