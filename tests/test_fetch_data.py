"""data/fetch.py: links, downloads, conversion and split. No network is used: urllib also reads file:// addresses."""

import gzip
import importlib.util
import io
import shutil
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

LINES = [
    "Go.\tVai.\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM)",
    "Go!\tVada!\tCC-BY 2.0",
    "Hi.\tCiao.\tCC-BY 2.0",
    "Hi.\tCiao.\tCC-BY 2.0 twice",
    " Spaces. \t Spazi. \tCC",
    "No target.\t",
    "No tab.",
    "",
    *(f"Sentence number {n}.\tFrase numero {n}.\tCC" for n in range(3000)),
]


@pytest.fixture(scope="module")
def fetch(repository: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("fetch_data", repository / "data" / "fetch.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["fetch_data"] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


def packed(text: str, name: str = "ita.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, text)
        archive.writestr("_about.txt", "about the sentences")
    return buffer.getvalue()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "data"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def export(fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "ATTEMPTS", 1)
    (tmp_path / "ita-eng.zip").write_bytes(packed("\n".join(LINES)))
    return fetch.Export("tatoeba-en-it", (tmp_path / "ita-eng.zip").as_uri(), 50)


def parts_of(folder: Path) -> dict[str, list[str]]:
    texts = {
        "train": gzip.decompress((folder / "train.tsv.gz").read_bytes()),
        "valid": (folder / "valid.tsv").read_bytes(),
        "test": (folder / "test.tsv").read_bytes(),
    }
    return {name: text.decode().removesuffix("\n").split("\n") for name, text in texts.items()}


def test_download_converts_and_splits(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    done = fetch.fill(export, data, tmp_path / "no-shared-folder")
    folder = data / "tatoeba-en-it"
    parts = parts_of(folder)
    assert f"{len(parts['train']):,} train pairs" in done
    # nothing lost but the doublet and the broken lines, nothing invented
    expected = ["Go.\tVai.", "Go!\tVada!", "Hi.\tCiao.", "Spaces.\tSpazi."]
    expected += [f"Sentence number {n}.\tFrase numero {n}." for n in range(3000)]
    assert sorted(line for lines in parts.values() for line in lines) == sorted(expected)
    # 5 % each, within four standard deviations
    assert 100 < len(parts["valid"]) < 200
    assert 100 < len(parts["test"]) < 200
    assert (folder / "ABOUT.txt").read_text() == "about the sentences"
    assert [path.name for path in data.iterdir()] == ["tatoeba-en-it"]


def test_parts_share_no_sentence(fetch: ModuleType) -> None:
    for n in range(500):
        variants = [f"It's number {n}.", f"it's number {n}!", f"IT'S NUMBER {n}", f" Its number {n}?"]
        assert len({fetch.choose_part(variant, 300) for variant in variants}) == 1


def test_sentences_without_letters_are_split(fetch: ModuleType) -> None:
    assert fetch.choose_part("?!", 5) in ("train", "valid", "test")


def test_the_split_does_not_depend_on_the_export(fetch: ModuleType, data: Path) -> None:
    (data / "a").mkdir()
    (data / "b").mkdir()
    fetch.convert(packed("\n".join(LINES)), data / "a", 50)
    fetch.convert(packed("\n".join(reversed(LINES[:1000]))), data / "b", 50)
    assert set(parts_of(data / "b")["test"]) <= set(parts_of(data / "a")["test"])


def test_conversion_is_reproducible(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    fetch.fill(export, data, tmp_path / "none")
    (data / "again").mkdir()
    fetch.convert((tmp_path / "ita-eng.zip").read_bytes(), data / "again", 50)
    first, second = (
        {file.name: file.read_bytes() for file in (data / name).iterdir()} for name in ("tatoeba-en-it", "again")
    )
    assert first == second


def test_a_complete_folder_is_not_downloaded_again(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    fetch.fill(export, data, tmp_path / "none")
    (tmp_path / "ita-eng.zip").unlink()
    assert fetch.fill(export, data, tmp_path / "none") == "exists: not changed; remove it to download it again"


def test_other_folders_and_links_are_not_replaced(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    (data / "tatoeba-en-it").mkdir()
    (data / "tatoeba-en-it" / "mine.tsv").write_text("mine")
    assert "not changed" in fetch.fill(export, data, tmp_path / "none")
    shared = tmp_path / "shared"
    (shared / "tatoeba-en-it").mkdir(parents=True)
    assert "not changed" in fetch.fill(export, data, shared)
    assert (data / "tatoeba-en-it" / "mine.tsv").read_text() == "mine"
    (data / "tatoeba-en-it").rename(tmp_path / "large-disk")
    for target in (tmp_path / "large-disk", tmp_path / "not-mounted"):
        (data / "tatoeba-en-it").symlink_to(target)
        for folder in (shared, tmp_path / "none"):
            assert "not changed" in fetch.fill(export, data, folder)
        assert (data / "tatoeba-en-it").readlink() == target
        (data / "tatoeba-en-it").unlink()


def test_shared_folders_are_linked(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared" / "data"
    (shared / "tatoeba-en-it").mkdir(parents=True)
    (shared / "tatoeba-en-it" / "test.tsv").write_text("shared")
    assert fetch.fill(export, data, shared) == "linked to ../../shared/data/tatoeba-en-it"
    assert fetch.fill(export, data, shared) == "is linked"
    assert (data / "tatoeba-en-it" / "test.tsv").read_text() == "shared"
    shutil.rmtree(shared)  # then the link is replaced by a download
    assert "pairs from" in fetch.fill(export, data, shared)
    assert not (data / "tatoeba-en-it").is_symlink()


def test_failed_download_raises_and_leaves_no_file(fetch: ModuleType, export, data: Path, tmp_path: Path) -> None:
    (tmp_path / "ita-eng.zip").unlink()
    with pytest.raises(
        fetch.FetchError, match=r"cannot download file://.*No such file or directory.*Check the network"
    ):
        fetch.fill(export, data, tmp_path / "none")
    assert list(data.iterdir()) == []


# ids of their own: those of the content would hold the time at which it was packed, and differ between test processes
@pytest.mark.parametrize(
    "content",
    [b"<html>busy</html>", packed("a\tb", name="_about2.txt"), packed("a\tb")[:60]],
    ids=["a page", "another archive", "half an archive"],
)
def test_other_files_than_the_export_are_refused(
    fetch: ModuleType, export, data: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "ita-eng.zip").write_bytes(content)
    with pytest.raises(fetch.FetchError, match="is not the expected zip file"):
        fetch.fill(export, data, tmp_path / "none")
    assert list(data.iterdir()) == []
