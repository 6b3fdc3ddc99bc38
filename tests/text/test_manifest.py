"""The manifest of a prepared corpus: reading inverts writing; another one is refused by name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.config import MaxLength
from nmt.errors import DataError
from nmt.text.manifest import PREPARED, Manifest, SideCounts, SplitCounts
from nmt.text.prepared import PreparedCorpus

COUNTS = SplitCounts(3, 2, (2,), SideCounts(5, 20, 0), SideCounts(6, 22, 1))
LIMIT = MaxLength(factor=1.25, extra=12)
MANIFEST = Manifest({"languages": {"source": "en"}}, {"data.train.0.tsv": (1, 2)}, "ff", (8, 9), COUNTS, None, LIMIT)


def test_manifest_read_equals_the_written_one(tmp_path: Path) -> None:
    for manifest in (MANIFEST, replace(MANIFEST, valid=COUNTS)):
        manifest.write(tmp_path)
        assert Manifest.read(tmp_path) == manifest
        assert PREPARED.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "found format version 99, expected 4; prepare it again with nmt prepare --force"),
        ({"train": {}}, "incomplete or damaged; prepare it again"),
        ({"vocabulary": [8]}, "incomplete or damaged; prepare it again"),
    ],
)
def test_other_manifests_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=rf"manifest\.json: {message}"):
        PreparedCorpus.open(tmp_path)


def test_other_directories_are_not_prepared_corpora(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"name": "a web application"}'):
        (tmp_path / "manifest.json").write_text(content)
        assert not PREPARED.read(tmp_path)
        with pytest.raises(DataError, match="no prepared corpus here; make it with nmt prepare"):
            Manifest.read(tmp_path)
