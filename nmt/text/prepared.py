"""The prepared corpus: a directory of token ids that training reads through memory maps.

    manifest.json                          format version (read first), what it was made from, counts
    tokenizer.model                        or tokenizer.source.model and tokenizer.target.model
    train/source.tokens.npy                ids of all sentences end to end, uint16 if the vocabulary fits, else int32
    train/source.offsets.npy               (N+1,) int64: sentence i is tokens[offsets[i]:offsets[i+1]]
    train/target.tokens.npy, train/target.offsets.npy
    train/weights.npy                      (N,) float32
    valid/…                                the same; only if the recipe names a validation text
    valid.json                             all validation sentences and references as they were written

It is written to a sibling directory and renamed when it is complete.
"""

import contextlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from nmt.config import MaxLength
from nmt.config.recorded import with_new_names
from nmt.errors import DataError, ModelError
from nmt.system.files import digest_of
from nmt.system.ownership import FORMAT_VERSION, PREPARED
from nmt.text.corpus import SentencePair
from nmt.text.overlap import Overlap
from nmt.text.tokenizer import Tokenizers

_REMEDY = "prepare it again with nmt prepare --force"

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class InputFile:
    """A file that the corpus was made from. If its size and time are unchanged, it is not read again."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True)
class SideCounts:
    """Counts over one side of the pairs kept; `spelled` counts the characters without a piece."""

    tokens: int
    characters: int
    spelled: int


@dataclass(frozen=True)
class SplitCounts:
    """Pairs read, pairs removed by each filter rule, and pairs kept."""

    read: int
    kept: int
    refused: dict[str, int]
    source: SideCounts
    target: SideCounts


@dataclass(frozen=True)
class Manifest:
    """The description of a prepared corpus: settings, inputs, counts, digests."""

    settings: dict[str, Any]  # the part of the recipe that the result depends on
    inputs: tuple[InputFile, ...]
    fingerprint: str  # SHA-256 of the settings and of the digests of all inputs: equal if and only if the corpus is
    train: SplitCounts
    valid: SplitCounts | None
    max_length: MaxLength | None = None
    """Limit on the length of translations, from the lengths in the training text; None if an older nmt wrote it."""
    test: tuple[InputFile, ...] = ()  # the test text that `overlaps` compares; the corpus itself does not depend on it
    overlaps: tuple[Overlap, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of every other file of the prepared corpus; empty if an older nmt wrote it."""
    vocabulary: tuple[int, int] | None = None
    """Number of pieces of the source and the target side; None if an older nmt wrote it."""

    def write(self, directory: Path) -> None:
        """Write `manifest.json`."""
        content = {"format": PREPARED.format, "format_version": FORMAT_VERSION, **_MANIFEST.dump_python(self)}
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (directory / "manifest.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Read `manifest.json`. Raises DataError: absent, damaged, or of another format version."""
        path = directory / "manifest.json"
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise DataError(f"{directory}: no prepared corpus here; make it with nmt prepare") from None
        except OSError as error:
            raise DataError(f"{path}: cannot read it: {error.strerror}") from None
        except ValueError:
            content = None
        marked = isinstance(content, dict) and content.get("format") == PREPARED.format
        version = content.get("format_version") if marked else None
        if not isinstance(version, int):
            raise DataError(f"{path}: not the manifest of a prepared corpus, or a damaged one")
        if version != FORMAT_VERSION:
            raise DataError(f"{path}: found format version {version}, expected {FORMAT_VERSION}; {_REMEDY}")
        try:
            manifest = _MANIFEST.validate_python(content)
        except ValidationError:
            raise DataError(f"{path}: damaged; {_REMEDY}") from None
        return replace(manifest, settings=with_new_names(manifest.settings))


_MANIFEST = TypeAdapter(Manifest)


@dataclass(frozen=True)
class Sentences:
    """Sentences as one array of ids and the length of each."""

    ids: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Sentences":
        """Return sentences from lists of ids."""
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        return cls(np.fromiter(chain.from_iterable(sentences), dtype=np.int64, count=int(lengths.sum())), lengths)

    def split(self) -> list[list[int]]:
        """Return the sentences as lists of ids."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths).tolist()
        return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class TokenStore(Sequence[Ids]):
    """The sentences of one side as ids, without `<s>` and `</s>`, read from disk on access."""

    def __init__(self, tokens: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self._tokens = tokens
        self.offsets = offsets
        """The start of each sentence and the end of the last one: (N+1,), mapped from disk."""

    @classmethod
    def open(cls, directory: Path, side: str) -> "TokenStore":
        """Map the files of a side. Raises DataError if they are damaged."""
        tokens = _load_array(directory / f"{side}.tokens.npy")
        offsets = _load_array(directory / f"{side}.offsets.npy")
        if len(offsets) == 0 or offsets[-1] != len(tokens):
            raise DataError(f"{directory}: tokens and offsets of the {side} do not belong together; {_REMEDY}")
        return cls(tokens, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return the ids of sentence `index` as int32 (length,)."""
        i = range(len(self))[index]
        return self._tokens[self.offsets[i] : self.offsets[i + 1]].astype(np.int32)

    def check(self, vocabulary: int) -> None:
        """Raise ValueError for offsets that do not increase and for ids that are not in the vocabulary."""
        if self.offsets[0] != 0 or (np.diff(self.offsets) < 0).any():
            raise ValueError("offsets that do not increase")
        if len(self._tokens) and not (self._tokens.min() >= 0 and self._tokens.max() < vocabulary):
            raise ValueError(f"ids that are not in its vocabulary of {vocabulary:,} pieces")

    def gather(self, indices: npt.NDArray[np.int64]) -> "Sentences":
        """Return the sentences at some indices."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        # for each token its index in its sentence, plus the start of the sentence in the store
        first = np.cumsum(lengths) - lengths
        positions = np.arange(int(lengths.sum())) + np.repeat(starts - first, lengths)
        return Sentences(self._tokens[positions].astype(np.int64), lengths)


@dataclass(frozen=True)
class PreparedSplit:
    """Sentence pairs as ids: `target[i]` is the translation of `source[i]`; `weights` is (N,) float32."""

    source: TokenStore
    target: TokenStore
    weights: npt.NDArray[np.float32]

    @classmethod
    def open(cls, directory: Path) -> "PreparedSplit":
        """Map the files of a split. Raises DataError if they are damaged."""
        source, target = TokenStore.open(directory, "source"), TokenStore.open(directory, "target")
        split = cls(source, target, _load_array(directory / "weights.npy"))
        if not len(split.source) == len(split.target) == len(split.weights):
            raise DataError(f"{directory}: source, target and weights differ in length; {_REMEDY}")
        return split

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True)
class PreparedCorpus:
    """The text as training reads it.

    `valid` has no pairs with an empty or too long side, for which there is no loss; `valid_sources` and
    `valid_references` hold all lines as they were read, for translation scores.
    """

    train: PreparedSplit
    valid: PreparedSplit | None
    valid_sources: list[str]
    valid_references: list[str]
    tokenizers: Tokenizers
    manifest: Manifest

    @classmethod
    def open(cls, directory: Path, verify: bool = False) -> "PreparedCorpus":
        """Open a prepared corpus; `verify` reads all of it and compares it with its digests.

        Raises DataError if it is absent, damaged or of another format version.
        """
        manifest = Manifest.read(directory)
        try:
            tokenizers = Tokenizers.load(directory)
        except ModelError as error:
            raise DataError(f"{error}; {_REMEDY}") from None
        train = PreparedSplit.open(directory / "train")
        valid = None if manifest.valid is None else PreparedSplit.open(directory / "valid")
        if len(train) != (kept := manifest.train.kept):
            raise DataError(f"{directory}: holds {len(train)} pairs, but its manifest {kept}; {_REMEDY}")
        sources, references = ([], []) if valid is None else _read_valid_text(directory)
        corpus = cls(train, valid, sources, references, tokenizers, manifest)
        if verify:
            corpus._verify(directory)
        return corpus

    def _verify(self, directory: Path) -> None:
        for name, digest in self.manifest.files.items():
            if digest_of(directory / name) != digest:
                raise DataError(f"{directory / name}: damaged: not the file that was written; {_REMEDY}")
        for name, split in (("train", self.train), ("valid", self.valid)):
            for side in ("source", "target") if split is not None else ():
                try:
                    getattr(split, side).check(len(getattr(self.tokenizers, side)))
                except ValueError as error:
                    raise DataError(f"{directory / name}: damaged: the {side} holds {error}; {_REMEDY}") from None


class SplitWriter(contextlib.ExitStack):
    """Appends pairs to the files of a split, of which only lengths and weights are held in RAM.

    Used as a context manager, on whose exit the files are complete.
    """

    def __init__(self, directory: Path, tokenizers: Tokenizers) -> None:
        super().__init__()
        directory.mkdir()
        self._weights = array("f")
        self.callback(lambda: np.save(directory / "weights.npy", np.frombuffer(self._weights, dtype=np.float32)))
        self._source = _SideWriter(directory, "source", len(tokenizers.source))
        self._target = _SideWriter(directory, "target", len(tokenizers.target))
        self.callback(self._source.close)
        self.callback(self._target.close)

    def extend(self, sources: Sequence[Ids], targets: Sequence[Ids], weights: Sequence[float]) -> None:
        """Add pairs."""
        self._source.extend(sources)
        self._target.extend(targets)
        self._weights.extend(weights)


class _SideWriter:
    """Writes an array of tokens, whose length is known only at the end, then the offsets."""

    def __init__(self, directory: Path, side: str, vocabulary: int) -> None:
        self._dtype = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)
        self._offsets_path = directory / f"{side}.offsets.npy"
        self._lengths = array("i")
        self._file = (directory / f"{side}.tokens.npy").open("wb")
        self._write_header(0)
        self._start = self._file.tell()

    def extend(self, sentences: Sequence[Ids]) -> None:
        self._lengths.extend(map(len, sentences))
        if sentences:
            self._file.write(np.concatenate(sentences).astype(self._dtype).tobytes())

    def close(self) -> None:
        offsets = np.zeros(len(self._lengths) + 1, dtype=np.int64)
        np.cumsum(np.frombuffer(self._lengths, dtype=np.int32), out=offsets[1:])
        with self._file:
            self._file.seek(0)
            self._write_header(int(offsets[-1]))
            # numpy pads headers so that an array can grow
            assert self._file.tell() == self._start
        np.save(self._offsets_path, offsets)

    def _write_header(self, length: int) -> None:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def write_valid_text(directory: Path, pairs: Sequence[SentencePair]) -> None:
    """Write the validation text as it was read. (JSON, since a line may hold any character.)"""
    sides = {"sources": [pair.source for pair in pairs], "references": [pair.target for pair in pairs]}
    content = json.dumps(sides, ensure_ascii=False, indent=0)
    (directory / "valid.json").write_text(content + "\n", encoding="utf-8")


def _read_valid_text(directory: Path) -> tuple[list[str], list[str]]:
    path = directory / "valid.json"
    try:
        content = json.loads(path.read_bytes())
        return content["sources"], content["references"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: missing or damaged; {_REMEDY}") from None


def _load_array(path: Path) -> npt.NDArray[Any]:
    try:
        # a plain array over the map: slicing a memmap object is slow
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError):
        raise DataError(f"{path}: missing or damaged; {_REMEDY}") from None
