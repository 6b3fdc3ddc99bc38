"""The example that prepares a corpus with the workers of a cluster."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builders import write_reversal_task


def test_shards_on_an_executor_give_the_corpus_of_one_command(
    tmp_path: Path, repository: Path, warm_programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = importlib.util.spec_from_file_location("example", repository / "docs" / "prepare_on_cluster.py")
    assert specification is not None
    assert specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    monkeypatch.setenv("PATH", str(warm_programs), prepend=":")
    recipe = write_reversal_task(tmp_path)
    with ThreadPoolExecutor(2) as executor:
        example.prepare_with(executor, str(recipe), 2)
    found = {path.name: path.read_bytes() for path in (tmp_path / "prepared").rglob("*") if path.is_file()}
    example.prepare(str(recipe), "--force")
    assert {path.name: path.read_bytes() for path in (tmp_path / "prepared").rglob("*") if path.is_file()} == found
    with pytest.raises(RuntimeError, match="--shard: found 3/2"):
        example.prepare_shard(str(recipe), 2, 3)
