#!/usr/bin/env python3
"""Fetch the corpora of the larger recipes into data/: `make data`.

A folder that exists in ../shared/data, beside the repository, is linked. Otherwise the Tatoeba corpora are downloaded
from the exports for language learners at www.manythings.org/anki (CC BY 2.0 FR, tatoeba.org) as `English<TAB>target`
and split by the English sentence, so that no sentence of valid.tsv or test.tsv is in train.tsv.gz. The exports grow
with time, so scores on them cannot be compared with published ones. Requires only Python. What exists is not replaced.
"""

import gzip
import hashlib
import io
import os
import sys
import tempfile
import time
import unicodedata
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent
SHARED = DATA.parent.parent / "shared" / "data"
TIMEOUT = 60.0
ATTEMPTS = 3


class FetchError(Exception):
    """An error that the user can correct."""


@dataclass(frozen=True)
class Export:
    """A corpus that can be downloaded."""

    folder: str
    url: str
    held_out: int
    """Sentences out of a thousand for valid, and the same number for test."""


EXPORTS = (
    Export("tatoeba-en-it", "https://www.manythings.org/anki/ita-eng.zip", 5),
    Export("tatoeba-en-zh", "https://www.manythings.org/anki/cmn-eng.zip", 35),
)
ONLY_SHARED = ("more-en-it", "more-en-zh", "flores200-dev", "newstest-en-zh")


def main() -> int:
    """Fetch every corpus; return the exit code."""
    failed = False
    for export in EXPORTS:
        try:
            print(f"data/{export.folder}: {fill(export, DATA, SHARED)}", flush=True)
        except FetchError as error:
            print(f"error: data/{export.folder}: {error}", file=sys.stderr)
            failed = True
    for folder in ONLY_SHARED:
        if (SHARED / folder).is_dir():
            print(f"data/{folder}: {link(folder, DATA, SHARED)}")
    return 2 if failed else 0


def fill(export: Export, data: Path, shared: Path) -> str:
    """Link or download one corpus into `data`; return a description of the result. Raises FetchError."""
    folder = data / export.folder
    if (shared / export.folder).is_dir():
        return link(export.folder, data, shared)
    remove_broken_link(folder, shared)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        return "exists: not changed; remove it to download it again"
    return download(export, folder)


def link(name: str, data: Path, shared: Path) -> str:
    """Make data/NAME a relative link to the shared folder, unless it exists."""
    place = data / name
    remove_broken_link(place, shared)
    if place.is_symlink() or place.exists():
        ours = place.is_symlink() and place.resolve() == (shared / name).resolve()
        return "is linked" if ours else "exists: not changed"
    place.symlink_to(os.path.relpath(shared / name, data))
    return f"linked to {os.readlink(place)}"


def remove_broken_link(place: Path, shared: Path) -> None:
    """Remove a link to a shared folder that no longer exists."""
    if place.is_symlink() and not place.exists() and place.resolve().parent == shared.resolve():
        place.unlink()


def download(export: Export, folder: Path) -> str:
    """Download an export into a temporary folder, and rename that when it is complete."""
    packed = fetch(export.url)
    with tempfile.TemporaryDirectory(prefix=f".{export.folder}-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        try:
            counts = convert(packed, made, export.held_out)
        except (zipfile.BadZipFile, UnicodeDecodeError, KeyError) as error:
            raise FetchError(f"{export.url} is not the expected zip file ({error}); try again later") from None
        made.rename(folder)  # it is absent or empty
    return ", ".join(f"{count:,} {name} pairs" for name, count in counts.items()) + f" from {export.url}"


def fetch(url: str) -> bytes:
    """Download a file. Raises FetchError after several attempts."""
    # the server refuses Python's default User-Agent
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (nmt data/fetch.py)"})
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                body: bytes = response.read()
                expected = response.headers.get("Content-Length")
            if expected is not None and len(body) != int(expected):
                raise OSError(f"got {len(body)} of {expected} bytes")
            return body
        except (OSError, urllib.error.URLError) as error:
            reason = str(getattr(error, "reason", None) or error)
        if attempt < ATTEMPTS:
            time.sleep(2**attempt)
    raise FetchError(f"cannot download {url}: {reason}. Check the network, or copy the folder there")


def convert(packed: bytes, folder: Path, held_out: int) -> dict[str, int]:
    """Write train.tsv.gz, valid.tsv, test.tsv and ABOUT.txt from a packed export; return the pairs in each."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = archive.namelist()
        texts = [name for name in names if name.endswith(".txt") and not name.startswith("_")]
        if len(texts) != 1:
            raise zipfile.BadZipFile(f"expected one text file, found {', '.join(names) or 'none'}")
        for source, target in dict.fromkeys(read_pairs(archive.read(texts[0]).decode("utf-8"))):
            parts[choose_part(source, held_out)].append(f"{source}\t{target}\n")
        about = "_about.txt"
        if about in names:
            (folder / "ABOUT.txt").write_bytes(archive.read(about))
    for name, lines in parts.items():
        text = "".join(lines).encode("utf-8")
        if name == "train":
            (folder / "train.tsv.gz").write_bytes(gzip.compress(text, mtime=0))
        else:
            (folder / f"{name}.tsv").write_bytes(text)
    return {name: len(lines) for name, lines in parts.items()}


def read_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield English and target of each line, without the third column, the authors."""
    for line in text.split("\n"):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) >= 2 and columns[0] and columns[1]:
            yield columns[0], columns[1]


def choose_part(source: str, held_out: int) -> str:
    """Return the part of a sentence, a function of its letters: case and punctuation make no difference.

    >>> choose_part("Hello!", 5) == choose_part("hello", 5)
    True
    """
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFC", source).casefold())) or source
    number = int.from_bytes(hashlib.sha256(letters.encode("utf-8")).digest()[:8], "big") % 1000
    if number < held_out:
        return "test"
    return "valid" if number < 2 * held_out else "train"


if __name__ == "__main__":
    sys.exit(main())
