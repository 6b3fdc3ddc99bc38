"""The prepared corpus on disk: reading inverts writing; damaged files and other versions are refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.manifest import Manifest, SideCounts, SplitCounts
from nmt.text.prepared import CorpusPart, PreparedCorpus, PreparedSplit, Sentences, write_side
from tests.builders import tiny_tokenizers, token_store

IDS = st.lists(st.integers(0, 65_535), max_size=8)


def write_split(directory: Path, batches: list[list[tuple[list[int], list[int]]]], *vocabulary: int) -> None:
    directory.mkdir()
    for side, (name, size) in enumerate(zip(("source", "target"), vocabulary or (65_536, 65_537), strict=True)):
        parts = [Sentences.of([pair[side] for pair in batch]) for batch in batches]
        arrays = {f"{name}.tokens": [part.ids for part in parts], f"{name}.lengths": [part.lengths for part in parts]}
        total = (sum(len(part.lengths) for part in parts), sum(len(part.ids) for part in parts))
        write_side(directory, name, size, total, arrays.__getitem__)


@given(st.lists(st.lists(st.tuples(IDS, IDS), max_size=4), max_size=4))
def test_open_inverts_write(tmp_path_factory: pytest.TempPathFactory, batches: Any) -> None:
    directory = tmp_path_factory.mktemp("split") / "train"
    write_split(directory, batches)
    pairs = [pair for batch in batches for pair in batch]
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


def test_ids_outside_the_vocabulary_and_wrong_offsets_are_data_errors(tmp_path: Path) -> None:
    lines = ["the cat sleeps .", "a dog barks ."]
    tokenizers = tiny_tokenizers()
    tokenizers.save(tmp_path)
    ids = [tokenizers.source.encode(line) for line in lines]
    write_split(tmp_path / "train", [list(zip(ids, ids, strict=True))], 300, 300)
    side = SideCounts(5, 20, 0)
    Manifest({}, {}, (300, 300), SplitCounts(2, 2, {}, side, side, (2,)), None).write(tmp_path)
    assert len(PreparedCorpus.open(tmp_path, verify=True).train) == 2
    tokens, offsets = tmp_path / "train" / "target.tokens.npy", tmp_path / "train" / "source.offsets.npy"
    before = tokens.read_bytes(), offsets.read_bytes()
    damaged = np.load(tokens)
    damaged[2] = len(tokenizers.target)
    np.save(tokens, damaged)
    with pytest.raises(DataError, match=r"train: damaged: the target holds ids that are not in its vocabulary of 300"):
        PreparedCorpus.open(tmp_path, verify=True)
    tokens.write_bytes(before[0])
    damaged = np.load(offsets)
    damaged[1] = damaged[2] + 1
    np.save(offsets, damaged)
    with pytest.raises(DataError, match=r"train: damaged: the source holds offsets that do not increase; prepare it"):
        PreparedCorpus.open(tmp_path, verify=True)


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
