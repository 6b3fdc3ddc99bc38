"""The number of pieces that fits an amount of text."""

import math
from collections import Counter
from collections.abc import Iterator

import pytest

from nmt.config import TokenizerSettings
from nmt.text.preparing.vocabulary import proposed_size, vocabulary_for

PLAIN = TokenizerSettings(byte_fallback=False)


def test_size_is_the_symbols_the_alphabet_and_the_root_of_the_text() -> None:
    assert vocabulary_for(["abab", "ab c"], PLAIN) == 4 + 4 + round(1.8 * math.sqrt(8))
    assert vocabulary_for(["abab", "ab c"], TokenizerSettings(), tags=2) == 4 + 2 + 256 + 4 + round(1.8 * math.sqrt(8))


def test_rare_characters_beyond_the_coverage_are_not_in_the_alphabet() -> None:
    counts = Counter({"a": 900, "b": 99, "c": 1})
    sizes = {coverage: proposed_size(0, counts, PLAIN.model_copy(update={"coverage": coverage})) for coverage in
             (0.95, 0.999, 1.0)}  # fmt: skip
    assert sizes == {0.95: 4 + 2, 0.999: 4 + 2, 1.0: 4 + 3}


@pytest.mark.parametrize(
    ("pairs", "characters_a_pair", "alphabet", "low", "high"),
    [
        (500, 60, 70, 500, 1000),
        (5_000, 220, 80, 2_000, 2_500),  # 2,000: Sennrich & Zhang 2019
        (24_000, 40, 2_700, 4_500, 5_500),  # 5,000: recipes/tatoeba-en-zh-cpu.yaml
        (306_000, 63, 90, 7_500, 9_000),  # 8,000: recipes/tatoeba-en-it-cpu.yaml
        (5_000_000, 250, 300, 32_000, 32_000),  # the bound
    ],
)
def test_size_for_corpora_of_all_sizes(pairs: int, characters_a_pair: int, alphabet: int, low: int, high: int) -> None:
    counts = Counter({chr(0x4E00 + number): 1000 for number in range(alphabet)})
    size = proposed_size(pairs * characters_a_pair, counts, TokenizerSettings())
    assert low <= size <= high
    assert size % 64 == 0


def test_text_is_read_no_further_than_the_largest_size_needs() -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "x" * 10_000_000

    assert vocabulary_for(lines(), TokenizerSettings()) == 32_000
    assert read == 32
