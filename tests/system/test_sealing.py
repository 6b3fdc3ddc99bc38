"""The marker of a sealed directory finds every change."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ModelError
from nmt.system.ownership import EXPORT, SPLIT, check_directory
from nmt.system.sealing import read_sealed, seal

CONTENT = {"languages": {"source": "it"}, "quantization": "è", "decode": {}}


def sealed(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    for name in ("one", "two"):
        (directory / name).write_text(name)
    seal(directory, EXPORT, CONTENT)
    return directory


def test_content_of_a_sealed_directory_is_read_again(tmp_path: Path) -> None:
    content = read_sealed(sealed(tmp_path), EXPORT)
    assert content | CONTENT == content
    assert list(content) == ["format_version", *CONTENT, "files", "digest"]
    assert list(content["files"]) == ["one", "two"]
    check_directory(tmp_path, EXPORT)


def test_sealed_directory_has_the_format_of_its_kind(tmp_path: Path) -> None:
    seal(tmp_path, SPLIT, {"seed": 1})
    content = json.loads((tmp_path / "split.json").read_text())
    assert (content["format"], content["format_version"], content["files"]) == ("nmt split", 1, {})


@given(st.sampled_from(["one", "two", "nmt.json"]), st.integers(0), st.integers(1, 255))
def test_any_changed_byte_is_damage(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, change: int
) -> None:
    directory = sealed(tmp_path_factory.mktemp("sealed"))
    content = bytearray((directory / name).read_bytes())
    before = json.loads(content) if name == "nmt.json" else None
    content[place % len(content)] ^= change
    (directory / name).write_bytes(content)
    try:
        same = before is not None and json.loads(content) == before  # only the layout differs
    except ValueError:
        same = False
    if same:
        assert read_sealed(directory, EXPORT) == before
    else:
        with pytest.raises(ModelError):  # DamagedError, or that of a newer format
            read_sealed(directory, EXPORT)
