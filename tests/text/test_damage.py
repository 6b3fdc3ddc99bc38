"""One wrong bit in a prepared corpus: the data are the same, or an error names the file; never other data."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nmt.commands.prepare import prepare
from nmt.errors import NMTError
from nmt.system.console import Console
from nmt.text.manifest import why_stale
from nmt.text.prepared import PreparedCorpus
from tests.builders import recipe_in, write_reversal_task

FILES = [
    "manifest.json", "tokenizer.model", "valid.json",
    *(f"{split}/{side}.{kind}.npy" for split in ("train", "valid") for side in ("source", "target")
      for kind in ("tokens", "offsets")),
]  # fmt: skip
FLIPS = 60  # for each file
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage")
    write_reversal_task(path, training=40)
    prepare(recipe_in(path), QUIET)
    return path


def data_of(corpus: PreparedCorpus) -> list[object]:
    """Return all that a training reads from a corpus."""
    splits = [split for split in (corpus.train, corpus.valid) if split is not None]
    sides = [side for split in splits for side in split.gather(np.arange(len(split)))]
    sentences = [side.split() for side in sides]
    return [sentences, corpus.valid_texts, corpus.tokenizers.source.to_bytes(), corpus.manifest]


def flips(content: bytes, seed: str) -> Iterator[bytes]:
    """Yield contents with one wrong bit: in each of the first bytes of a header, then anywhere."""
    choose = random.Random(seed)
    places = [*range(0, 80, 5), *(choose.randrange(len(content)) for _ in range(FLIPS))]
    for place in places[:FLIPS]:
        changed = bytearray(content)
        changed[min(place, len(content) - 1)] ^= 1 << choose.randrange(8)
        yield bytes(changed)


def test_all_files_of_a_corpus_are_damaged_here(folder: Path) -> None:
    found = [path.relative_to(folder / "prepared").as_posix() for path in (folder / "prepared").rglob("*.*")]
    assert sorted(found) == sorted([*FILES, "audit.json"])  # which only a report reads


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_bit_never_gives_other_data(folder: Path, tmp_path: Path, name: str) -> None:
    recipe, directory = recipe_in(folder), tmp_path / "prepared"
    shutil.copytree(folder / "prepared", directory)
    recipe = recipe.model_copy(update={"prepared": directory})
    file, messages = directory / name, list[str]()
    before, content = data_of(PreparedCorpus.open(directory, recipe)), file.read_bytes()
    for damaged in flips(content, name):
        file.unlink()  # the corpus before is mapped
        file.write_bytes(damaged)
        try:
            assert data_of(PreparedCorpus.open(directory, recipe)) == before
        except NMTError as error:
            messages.append(str(error))
    assert [message for message in messages if str(file) not in message] == []
    assert len(messages) > FLIPS // 2


def test_a_training_reads_the_same_data_as_before_the_damage(folder: Path, tmp_path: Path) -> None:
    """A current corpus is compared with its digests, and prepared again."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    recipe = recipe_in(tmp_path)
    before = data_of(prepare(recipe, QUIET))
    file = tmp_path / "prepared" / "train" / "target.tokens.npy"
    *others, first, second = file.read_bytes()
    file.unlink()
    file.write_bytes(bytes([*others, first ^ 1, second]))
    assert why_stale(recipe) is None
    assert data_of(prepare(recipe, QUIET))[:-1] == before[:-1]  # the manifest has the times of the input files
