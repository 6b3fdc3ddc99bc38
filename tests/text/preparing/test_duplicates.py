"""Repetitions found on disk, compared with a plain count of all texts before."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nmt.text.passage_keys import TextLines
from nmt.text.preparing import duplicates
from nmt.text.preparing.duplicates import BitSet, Digests, digests_of, find_repeated


def repeated_by_counting(texts: Sequence[bytes], most: int, without: set[int]) -> list[int]:
    seen: Counter[bytes] = Counter()
    found = []
    for index, text in enumerate(texts):
        if index not in without:
            if seen[text] >= most:
                found.append(index)
            seen[text] += 1
    return found


def digests(texts: Sequence[bytes]) -> Digests:
    return digests_of(TextLines(np.frombuffer(b"\n".join(texts), dtype=np.uint8)))


def members(numbers: BitSet, size: int) -> list[int]:
    return np.flatnonzero(numbers.range(0, size)).tolist()


@examples(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([f"text {i}".encode() for i in range(9)]), max_size=9), max_size=5),
    st.integers(1, 3),
    st.sets(st.integers(0, 30)),
    st.sampled_from([1, 4, 2**19]),
)
def test_repeated_texts_equal_those_of_a_plain_count(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[bytes]], most: int, without: set[int], bucket: int
) -> None:
    texts = [text for part in parts for text in part]
    removed = BitSet(len(texts))
    removed.add(np.array([index for index in without if index < len(texts)], dtype=np.int64))
    folder = tmp_path_factory.mktemp("buckets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_BUCKET", bucket)
        found = find_repeated(map(digests, parts), len(texts), most, folder, [removed])
    assert members(found, len(texts)) == repeated_by_counting(texts, most, without)
    assert list(folder.iterdir()) == []


def test_many_texts_in_many_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_BUCKET", 100)
    texts = [str(i * i % 3001).encode() for i in range(10_000)]
    found = find_repeated([digests(texts[:4567]), digests(texts[4567:])], len(texts), 1, tmp_path, [])
    assert members(found, len(texts)) == repeated_by_counting(texts, 1, set())


@given(st.sets(st.integers(0, 99)), st.integers(0, 99), st.integers(0, 40))
def test_bit_set_equals_a_set(numbers: set[int], start: int, count: int) -> None:
    bits = BitSet(100)
    bits.add(np.array(sorted(numbers), dtype=np.int64))
    count = min(count, 100 - start)
    assert bits.range(start, count).tolist() == [number in numbers for number in range(start, start + count)]
