"""The prepared corpus on disk: reading inverts writing; damaged files and other versions are refused by name."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.manifest import SideCounts
from nmt.text.prepared import CorpusPart, PreparedCorpus, PreparedSplit, Sentences, SideWriter
from nmt.text.tokenizer import Tokenizer
from tests.builders import token_store

IDS = st.lists(st.integers(0, 65_535), max_size=8)


class Vocabulary:
    """A tokenizer of which only the size, and the ids of missing characters, matter."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def spelled(self) -> np.ndarray[Any, Any]:
        return np.arange(self.size) % 2 == 1


def write_split(directory: Path, batches: list[list[tuple[list[int], list[int]]]]) -> list[SideCounts]:
    """Write a split whose lines have as many characters as ids, with 65,536 and 65,537 pieces."""
    directory.mkdir()
    counts = []
    for side, (name, size) in enumerate((("source", 65_536), ("target", 65_537))):
        writer = SideWriter(directory, name, cast(Tokenizer, Vocabulary(size)))
        for batch in batches:
            ids = [pair[side] for pair in batch]
            writer.append(Sentences.of(ids), sum(map(len, ids)))
        counts.append(writer.counts)
    return counts


@given(st.lists(st.lists(st.tuples(IDS, IDS), max_size=4), max_size=4))
def test_open_inverts_write(tmp_path_factory: pytest.TempPathFactory, batches: Any) -> None:
    directory = tmp_path_factory.mktemp("split") / "train"
    counts = write_split(directory, batches)
    pairs = [pair for batch in batches for pair in batch]
    for side in (0, 1):
        ids = [i for pair in pairs for i in pair[side]]
        assert counts[side] == SideCounts(len(ids), len(ids), sum(i % 2 for i in ids))
    split = PreparedSplit.open(directory, [len(pairs)])
    assert len(split) == len(split.source) == len(split.target) == len(pairs)
    assert [ids.tolist() for ids in split.source] == [pair[0] for pair in pairs]
    assert [ids.tolist() for ids in split.target] == [pair[1] for pair in pairs]
    assert np.diff(split.source.offsets).tolist() == [len(pair[0]) for pair in pairs]
    chosen = np.arange(len(pairs))[::-2]
    gathered = split.target.gather(chosen)
    assert gathered.split() == [pairs[i][1] for i in chosen]
    assert gathered.lengths.tolist() == [len(pairs[i][1]) for i in chosen]


def test_ids_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
    write_split(tmp_path / "train", [[([65_535], [65_536])]])
    split = PreparedSplit.open(tmp_path / "train", [1])
    assert np.load(tmp_path / "train" / "source.tokens.npy").dtype == np.uint16
    assert np.load(tmp_path / "train" / "target.tokens.npy").dtype == np.int32
    assert (split.source[0].tolist(), split.target[-1].tolist()) == ([65_535], [65_536])
    assert split.source[0].dtype == split.target[0].dtype == np.int32
    with pytest.raises(IndexError):
        split.source[1]


def test_missing_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no prepared corpus here; make it with nmt prepare"):
        PreparedCorpus.open(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["source.tokens.npy", "target.offsets.npy"])
@pytest.mark.parametrize("size", [None, 0, 60, -2])
def test_damaged_files_are_named(tmp_path: Path, name: str, size: int | None) -> None:
    write_split(tmp_path / "train", [[([1, 2], [3, 4])]])
    path = tmp_path / "train" / name
    content = path.read_bytes()
    path.unlink()
    if size is not None:
        path.write_bytes(content[:size])
    with pytest.raises(DataError, match=rf"{name}: missing or damaged; prepare it again with nmt prepare --force"):
        PreparedSplit.open(tmp_path / "train", [1])


def test_files_of_different_corpora_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "one", [[([1, 2], [3, 4])]])
    write_split(tmp_path / "two", [[([1, 2], [3, 4]), ([1], [2])]])
    for name in ("tokens", "offsets"):
        other = (tmp_path / "two" / f"source.{name}.npy").read_bytes()
        mine = (tmp_path / "one" / f"source.{name}.npy").read_bytes()
        (tmp_path / "one" / f"source.{name}.npy").write_bytes(other)
        with pytest.raises(DataError, match="tokens and offsets of the source do not belong together"):
            PreparedSplit.open(tmp_path / "one", [1])
        (tmp_path / "one" / f"source.{name}.npy").write_bytes(mine)
    with pytest.raises(DataError, match="holds 1 sources and 1 targets, but its manifest 2 pairs; prepare it again"):
        PreparedSplit.open(tmp_path / "one", [1, 1])


def test_pairs_of_a_corpus_have_its_weight_and_its_prefix() -> None:
    sources, targets = [[10], [11, 12], [13], [14]], [[20], [21], [22], [23]]
    corpora = (CorpusPart(2), CorpusPart(0), CorpusPart(1, 0.5, (7,)), CorpusPart(1, 3.0, (8, 9)))
    split = PreparedSplit(token_store(sources), token_store(targets), corpora)
    chosen = np.array([3, 1, 2])
    found = split.gather(chosen)
    assert found[0].split() == [[8, 9, 14], [11, 12], [7, 13]]
    assert found[0].lengths.tolist() == [3, 2, 2]
    assert found[1].split() == [[23], [21], [22]]
    assert split.weights(chosen).tolist() == [3.0, 1.0, 0.5]
    source_lengths, target_lengths = split.lengths(np.array([2, 0, 1, 2]))
    assert source_lengths.tolist() == [3, 2, 3, 3]
    assert target_lengths.tolist() == [2, 2, 2, 2]
    assert len(split) == 4
