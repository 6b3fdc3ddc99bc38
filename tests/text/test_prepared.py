"""The prepared corpus on disk: what was written comes back; damage and other versions are named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.errors import DataError
from nmt.text.prepared import (
    InputFile,
    Manifest,
    PreparedCorpus,
    PreparedSplit,
    SideCounts,
    SplitCounts,
    SplitWriter,
    is_prepared_corpus,
)
from nmt.text.tokenizer import Tokenizers

IDS = st.lists(st.integers(0, 65_535), max_size=8)
COUNTS = SplitCounts(3, 2, {"empty": 1}, SideCounts(5, 20, 0), SideCounts(6, 22, 1))
MANIFEST = Manifest({"languages": {"source": "en"}}, (InputFile("/a", 1, 2, "ff"),), "abc", COUNTS, None)


class VocabularyOf:
    """Stands for a tokenizer where only its size matters."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def tokenizers_of(source: int, target: int) -> Any:
    return Tokenizers(VocabularyOf(source), VocabularyOf(target))  # type: ignore[arg-type]


def write_split(directory: Path, batches: list[list[tuple[list[int], list[int], float]]]) -> None:
    with SplitWriter(directory, tokenizers_of(65_536, 65_537)) as writer:
        for batch in batches:
            sources, targets = ([np.array(pair[side], dtype=np.int32) for pair in batch] for side in (0, 1))
            writer.extend(sources, targets, [pair[2] for pair in batch])


@given(st.lists(st.lists(st.tuples(IDS, IDS, st.floats(0.5, 4, width=32)), max_size=4), max_size=4))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, batches: Any) -> None:
    directory = tmp_path_factory.mktemp("split") / "train"
    write_split(directory, batches)
    split = PreparedSplit.open(directory)
    pairs = [pair for batch in batches for pair in batch]
    assert len(split) == len(split.source) == len(split.target) == len(pairs)
    assert [ids.tolist() for ids in split.source] == [pair[0] for pair in pairs]
    assert [ids.tolist() for ids in split.target] == [pair[1] for pair in pairs]
    assert split.weights.tolist() == [pair[2] for pair in pairs]
    assert np.diff(split.source.offsets).tolist() == [len(pair[0]) for pair in pairs]
    chosen = np.arange(len(pairs))[::-2]
    all_gather = split.target.gather(chosen)
    assert all_gather.split() == [pairs[i][1] for i in chosen]
    assert all_gather.lengths.tolist() == [len(pairs[i][1]) for i in chosen]
    assert split.weights.dtype == np.float32


def test_ids_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
    write_split(tmp_path / "train", [[([65_535], [65_536], 1.0)]])
    split = PreparedSplit.open(tmp_path / "train")
    assert np.load(tmp_path / "train" / "source.tokens.npy").dtype == np.uint16
    assert np.load(tmp_path / "train" / "target.tokens.npy").dtype == np.int32
    assert (split.source[0].tolist(), split.target[-1].tolist()) == ([65_535], [65_536])
    assert split.source[0].dtype == split.target[0].dtype == np.int32
    with pytest.raises(IndexError):
        split.source[1]


def test_manifest_comes_back(tmp_path: Path) -> None:
    limited = Manifest({}, (), "x", COUNTS, COUNTS, MaxLength(factor=1.25, extra=12))
    for manifest in (MANIFEST, limited):
        manifest.write(tmp_path)
        assert Manifest.read(tmp_path) == manifest
        assert is_prepared_corpus(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "found format version 99, expected 1; prepare it anew with nmt prepare --force"),
        ({"format_version": "1"}, "not the manifest of a prepared corpus, or a damaged one"),
        ({"format": "something else"}, "not the manifest of a prepared corpus"),
        ({"train": {}}, "damaged; prepare it anew"),
        ({"inputs": [{}]}, "damaged; prepare it anew"),
    ],
)
def test_other_manifests_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=rf"manifest\.json: {message}"):
        PreparedCorpus.open(tmp_path)


def test_whose_directory_it_is(tmp_path: Path) -> None:
    assert not is_prepared_corpus(tmp_path / "nowhere")
    for content in ("{", "[]", '{"name": "a web application"}'):
        (tmp_path / "manifest.json").write_text(content)
        assert not is_prepared_corpus(tmp_path)
        with pytest.raises(DataError, match="not the manifest of a prepared corpus"):
            Manifest.read(tmp_path)
    MANIFEST.write(tmp_path)
    newer = (tmp_path / "manifest.json").read_text().replace('"format_version": 1', '"format_version": 2')
    (tmp_path / "manifest.json").write_text(newer)
    with pytest.raises(DataError, match=r"written by a newer nmt \(format version 2, this one knows 1\)"):
        is_prepared_corpus(tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no prepared corpus here; make it with nmt prepare"):
        PreparedCorpus.open(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["source.tokens.npy", "target.offsets.npy", "weights.npy"])
@pytest.mark.parametrize("size", [None, 0, 60, -2])
def test_damaged_files_are_named(tmp_path: Path, name: str, size: int | None) -> None:
    write_split(tmp_path / "train", [[([1, 2], [3, 4], 1.0)]])
    path = tmp_path / "train" / name
    content = path.read_bytes()
    path.unlink()
    if size is not None:
        path.write_bytes(content[:size])
    with pytest.raises(DataError, match=rf"{name}: missing or damaged; prepare it anew with nmt prepare --force"):
        PreparedSplit.open(tmp_path / "train")


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    write_split(tmp_path / "one", [[([1, 2], [3, 4], 1.0)]])
    write_split(tmp_path / "two", [[([1, 2], [3, 4], 1.0), ([1], [2], 1.0)]])
    for name, message in (("source.tokens.npy", "tokens and offsets of the"), ("weights.npy", "differ in length")):
        other = (tmp_path / "two" / name).read_bytes()
        mine = (tmp_path / "one" / name).read_bytes()
        (tmp_path / "one" / name).write_bytes(other)
        with pytest.raises(DataError, match=message):
            PreparedSplit.open(tmp_path / "one")
        (tmp_path / "one" / name).write_bytes(mine)
