"""Keys and digests of passages: as many as there are different passages."""

from collections.abc import Callable, Sequence
from itertools import product
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text import passage_keys
from nmt.text.passage_keys import Keys, KeyTable, TextLines, mixed, passage_digests, word_bounds
from nmt.text.preparing.duplicates import combined, digests_of

WORDS = st.text(st.characters(exclude_characters=" \n\0", exclude_categories=["Cs"]), max_size=30)
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=8)

CYRILLIC = "абвгдежзийклмноп"


def bounds(passages: Sequence[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    sizes = np.array([len(passage) for passage in passages], dtype=np.int64)
    return b"".join(passages), np.cumsum(sizes) - sizes, sizes


def keys_of(passages: Sequence[bytes]) -> Keys:
    return passage_keys.passage_keys(*bounds(passages), parts=4)


def digests(passages: Sequence[bytes]) -> Keys:
    return passage_digests(*bounds(passages))


@given(LINES)
def test_bounds_are_those_of_split(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    starts, sizes, first = word_bounds(np.frombuffer(text, dtype=np.uint8))
    words = [text[start : start + size].decode() for start, size in zip(starts, sizes, strict=True)]
    divided = [words[start:end] for start, end in zip(first, [*first[1:], len(words)], strict=True)]
    assert divided == [line.split(" ") for line in lines]


@pytest.mark.parametrize("function", [keys_of, digests])
@given(st.lists(st.text("ab1é茶", max_size=10).map(str.encode), min_size=1, max_size=40))
def test_passages_have_equal_keys_if_they_are_equal(
    function: Callable[[Sequence[bytes]], Keys], passages: list[bytes]
) -> None:
    keys = function(passages).tolist()
    assert len(set(keys)) == len(set(passages)) == len(set(zip(keys, passages, strict=True)))
    assert function(passages[::-1]).tolist() == keys[::-1]


@pytest.mark.parametrize("function", [keys_of, digests])
def test_passages_that_differ_in_two_bytes_have_different_keys(function: Callable[[Sequence[bytes]], Keys]) -> None:
    """In the highest bytes of two integers, where products modulo 2^64 have the least effect."""
    passages = [bytes([*b"product", a, *b" number", b]) for a in range(1, 256) for b in range(1, 256)]
    passages += [passage[8:] + passage[:8] for passage in passages] + [b"a" * size for size in range(1, 33)]
    assert len(np.unique(function(passages))) == len(set(passages))


@pytest.mark.parametrize("function", [keys_of, digests])
@pytest.mark.parametrize(("word", "alphabet"), [("product{} to{} fo{}", ascii_lowercase), ("при{}е{}а{}", CYRILLIC)])
def test_words_that_differ_in_three_letters_have_different_keys(
    function: Callable[[Sequence[bytes]], Keys], word: str, alphabet: str
) -> None:
    """In the bytes 8, 12 and 16: of the first one, one product has the highest bits only."""
    words = [word.format(*chosen).encode() for chosen in product(alphabet, repeat=3)]
    assert {len(own) for own in words} == {16}
    assert len(np.unique(function(words))) == len(words)


def test_digests_do_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [str(number).encode() * (number % 50) for number in range(500)]
    whole = digests(passages)
    monkeypatch.setattr(passage_keys, "_BLOCK", 100)
    assert digests(passages).tolist() == whole.tolist() == [int(digests([passage])[0]) for passage in passages]


def test_mixed_equals_splitmix64() -> None:
    """The first output of SplitMix64 for the seed 1234567 (Steele et al. 2014)."""
    state = np.array([1234567 + 0x9E3779B97F4A7C15], dtype=np.uint64)
    assert mixed(state).tolist() == [6457827717110365317]


def test_digests_of_pairs_depend_on_the_side() -> None:
    lines = digests_of(TextLines(np.frombuffer(b"one\ntwo\n", dtype=np.uint8)))
    assert len(lines) == 3
    pairs = {int(combined(lines[i : i + 1], lines[j : j + 1])[0]) for i in range(3) for j in range(3)}
    assert len(pairs) == 9


@given(st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 40), unique=True, max_size=40), st.integers(0, 40))
def test_table_equals_a_dictionary(keys: list[int], divided: int) -> None:
    """With so few slots that many keys have the same first one."""
    table, expected = KeyTable(64), dict[int, int]()
    for part in (keys[:divided], keys[divided:]):
        numbers = np.arange(len(expected) + 2, len(expected) + 2 + len(part))
        table.add(np.array(part, dtype=np.uint64), numbers)
        expected.update(zip(part, numbers.tolist(), strict=True))
        searched = [*keys, 0, 41, 2**63]
        found = table.find(np.array(searched, dtype=np.uint64)).tolist()
        assert found == [expected.get(key, 0) for key in searched]
