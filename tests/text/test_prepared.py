"""The prepared corpus on disk: reading inverts writing; damaged files and other versions are refused by name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.errors import DataError
from nmt.text.manifest import PREPARED, Manifest, SideCounts, SplitCounts
from nmt.text.prepared import CorpusPart, PreparedCorpus, PreparedSplit, Sentences, SideWriter

SIZES = (65_536, 65_537)  # pieces of source and target
IDS = st.lists(st.integers(0, 65_535), max_size=8)


def write_split(directory: Path, batches: list[list[tuple[list[int], list[int]]]]) -> list[SideCounts]:
    """Write a split whose lines have as many characters as ids, with 65,536 and 65,537 pieces, the odd ones bytes."""
    directory.mkdir()
    counts = []
    for side, (name, size) in enumerate(zip(("source", "target"), SIZES, strict=True)):
        tokenizer = MagicMock(spelled=lambda size=size: np.arange(size) % 2 == 1)
        tokenizer.__len__.return_value = size
        writer = SideWriter(directory, name, tokenizer)
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
    assert split.source.split() == [pair[0] for pair in pairs]
    assert split.target.split() == [pair[1] for pair in pairs]
    assert split.source.lengths.tolist() == [len(pair[0]) for pair in pairs]
    chosen = np.arange(len(pairs))[::-2]
    gathered = split.target.gather(chosen)
    assert gathered.split() == [pairs[i][1] for i in chosen]
    assert gathered.lengths.tolist() == [len(pairs[i][1]) for i in chosen]


def test_ids_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
    write_split(tmp_path / "train", [[([65_535], [65_536])]])
    split = PreparedSplit.open(tmp_path / "train", [1])
    assert np.load(tmp_path / "train" / "source.tokens.npy").dtype == np.uint16
    assert np.load(tmp_path / "train" / "target.tokens.npy").dtype == np.int32
    assert (split.source.split(), split.target.split()) == ([[65_535]], [[65_536]])


def test_pairs_of_a_corpus_have_its_weight_and_its_prefix() -> None:
    sources, targets = [[10], [11, 12], [13], [14]], [[20], [21], [22], [23]]
    corpora = (CorpusPart(2), CorpusPart(0), CorpusPart(1, 0.5, (7,)), CorpusPart(1, 3.0, (8, 9)))
    split = PreparedSplit(Sentences.of(sources), Sentences.of(targets), corpora)
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


COUNTS = SplitCounts(3, 2, (2,), SideCounts(5, 20, 0), SideCounts(6, 22, 1))
LIMIT = MaxLength(factor=1.25, extra=12)
INPUTS = {"data.train.0.tsv": (1, 2, "3f")}
MANIFEST = Manifest(
    {"languages": {"source": "en"}}, INPUTS, {"valid.json": "ff"}, (8, 9), COUNTS, None, LIMIT, longest_source=30
)


def test_manifest_read_equals_the_written_one(tmp_path: Path) -> None:
    for manifest in (MANIFEST, replace(MANIFEST, valid=COUNTS)):
        manifest.write(tmp_path)
        assert Manifest.read(tmp_path) == manifest
        assert PREPARED.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": [6]}, r"found format version \[6\], expected 7; prepare it again"),
        ({"format_version": 99}, "found format version 99, expected 7; prepare it again with nmt prepare --force"),
        ({"train": {}}, "incomplete or damaged; prepare it again"),
        ({"longest_source": 31}, "incomplete or damaged; prepare it again"),
        ({"format": "nmt prepared corpu5"}, r"damaged, or not written by nmt; if .* is a prepared corpus, remove it"),
    ],
)
def test_other_manifests_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=rf"manifest\.json: {message}"):
        PreparedCorpus.open(tmp_path)


@pytest.mark.parametrize("content", ["", '[[["a"], ["b"]]]', "[" * 100_000], ids=range(3))
def test_damaged_validation_texts_are_refused(texts: Path, tmp_path: Path, content: str) -> None:
    shutil.copytree(texts / "prepared", tmp_path / "prepared")
    (tmp_path / "prepared" / "valid.json").write_text(content)
    with pytest.raises(DataError, match=r"valid\.json: damaged: .*; prepare it again with nmt prepare --force"):
        PreparedCorpus.open(tmp_path / "prepared")
