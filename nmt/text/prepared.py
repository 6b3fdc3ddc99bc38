"""The prepared corpus: a directory of token ids that training reads through memory maps.

    manifest.json                          format version (read first), what it was made from, counts
    tokenizer.model                        or tokenizer.source.model and tokenizer.target.model
    train/source.tokens.npy                ids of all sentences end to end, uint16 if the vocabulary fits, else int32
    train/source.offsets.npy               (N+1,) int64: sentence i is tokens[offsets[i]:offsets[i+1]]
    train/target.tokens.npy, train/target.offsets.npy
    audit.json                             what the rules removed, and findings about the texts
    valid/…                                the same; only if the recipe names a validation text
    valid.json                             the sentences and the references of each validation text as they were written

New files are written in the subfolder `.partial` and moved when all are complete, `manifest.json` last; other files in
the directory are kept. Weights and tags of corpora are settings of training and are not stored: the pairs of one corpus
are contiguous, in the order of the recipe, and the manifest has their number.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Recipe
from nmt.text.manifest import Manifest, SideCounts
from nmt.text.readers import SentencePair
from nmt.text.tokenizer import Tokenizer, Tokenizers


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the start of each of N sentences that follow each other, and the end of the last one: (N+1,)."""
    return np.concatenate([[0], np.cumsum(lengths)])


@dataclass(frozen=True)
class Sentences:
    """Sentences without `<s>` and `</s>` in one array, which may be mapped from disk.

    Sentence i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Sentences":
        """Return sentences from lists of ids."""
        offsets = offsets_of(np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)))
        return cls(np.fromiter(chain.from_iterable(sentences), dtype=np.int64, count=int(offsets[-1])), offsets)

    @classmethod
    def open(cls, directory: Path, side: str) -> "Sentences":
        """Map the files of a side."""
        # plain arrays over the maps: slicing a memmap object is slow
        files = (directory / f"{side}.{name}.npy" for name in ("tokens", "offsets"))
        return cls(*(np.asarray(np.load(file, mmap_mode="r")) for file in files))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of ids of each sentence."""
        return np.diff(self.offsets)

    def split(self) -> list[list[int]]:
        """Return the sentences as lists of ids."""
        ids = self.ids.tolist()
        return [ids[start:end] for start, end in pairwise(self.offsets.tolist())]

    def gather(self, indices: npt.NDArray[np.int64]) -> "Sentences":
        """Return the sentences at some indices, in memory."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        offsets = offsets_of(lengths)
        # for each token its index in its sentence, plus the start of the sentence in the array
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Sentences(self.ids[positions].astype(np.int64), offsets)


@dataclass(frozen=True)
class CorpusPart:
    """The pairs of one corpus in a split, with settings of training."""

    pairs: int
    weight: float = 1.0  # how often each pair occurs in an epoch
    prefix: tuple[int, ...] = ()  # ids before each source, such as that of a tag


@dataclass(frozen=True)
class PreparedSplit:
    """Sentence pairs as ids: `target[i]` is the translation of `source[i]`, without its prefix.

    The pairs of each of the `corpora` are contiguous.
    """

    source: Sentences
    target: Sentences
    corpora: tuple[CorpusPart, ...]

    @classmethod
    def open(cls, directory: Path, corpora: Sequence[int]) -> "PreparedSplit":
        """Map the files of a split with the pairs of each corpus."""
        sides = Sentences.open(directory, "source"), Sentences.open(directory, "target")
        return cls(*sides, tuple(map(CorpusPart, corpora)))

    def with_settings(self, recipe: Recipe, texts: Sequence[CorpusFile], tokenizer: Tokenizer) -> "PreparedSplit":
        """Return the split with the weights and tags of its texts. Raises ModelError for a tag without a token."""
        balance = balancing_weights([part.pairs for part in self.corpora], recipe.data.temperature)
        parts = []
        for part, text, weight in zip(self.corpora, texts, balance, strict=True):
            tags = recipe.languages.target_tag(recipe.target_of(text)), text.tag
            prefix = tuple(tokenizer.tag_ids(tags))
            parts.append(replace(part, weight=weight * text.oversample, prefix=prefix))
        return replace(self, corpora=tuple(parts))

    def __len__(self) -> int:
        return len(self.source)

    def corpora_at(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the index of the corpus of each pair."""
        ends = np.cumsum([part.pairs for part in self.corpora])
        return np.searchsorted(ends, indices, side="right")

    def weights(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return how often each pair occurs in an epoch."""
        return np.array([part.weight for part in self.corpora], dtype=np.float32)[self.corpora_at(indices)]

    def lengths(self, indices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the tokens of the sources, with their prefixes, and of the targets, `</s>` included."""
        source, target = (side.offsets[indices + 1] - side.offsets[indices] + 1 for side in (self.source, self.target))
        if any(part.prefix for part in self.corpora):
            source += np.array([len(part.prefix) for part in self.corpora])[self.corpora_at(indices)]
        return source, target

    def gather(self, indices: npt.NDArray[np.int64]) -> tuple[Sentences, Sentences]:
        """Return the sources, each behind the prefix of its corpus, and the targets at some indices."""
        sources, targets = self.source.gather(indices), self.target.gather(indices)
        if any(part.prefix for part in self.corpora):
            prefixes = [self.corpora[corpus].prefix for corpus in self.corpora_at(indices).tolist()]
            sources = Sentences.of([[*prefix, *ids] for prefix, ids in zip(prefixes, sources.split(), strict=True)])
        return sources, targets


def balancing_weights(pairs: Sequence[int], temperature: float) -> list[float]:
    """Return for each corpus the weight of its pairs; the weights of all pairs add up to the number of pairs.

    The share of an epoch of a corpus of n pairs is in proportion to n^(1/T) (Arivazhagan et al. 2019).

    >>> balancing_weights([900, 100], 2.0)
    [0.8333333333333334, 2.5]
    """
    if temperature == 1:
        return [1.0] * len(pairs)
    shares = [n ** (1 / temperature) for n in pairs]
    return [sum(pairs) * share / (sum(shares) * n) if n else 1.0 for share, n in zip(shares, pairs, strict=True)]


@dataclass(frozen=True)
class PreparedCorpus:
    """The text as training reads it.

    `valid` has no pairs with an empty or too long side, for which there is no loss; `valid_texts` are the sources and
    references of each validation text, all lines as they were read, for translation scores.
    """

    train: PreparedSplit
    valid: PreparedSplit | None
    valid_texts: list[tuple[list[str], list[str]]]
    tokenizers: Tokenizers
    manifest: Manifest

    @classmethod
    def open(cls, directory: Path, recipe: Recipe | None = None) -> "PreparedCorpus":
        """Open a prepared corpus, with the weights and tags of a recipe if it is given.

        All files are compared with their digests (1 GB/s), then the token ids are mapped. Raises DataError if it is
        absent, damaged or of another format version.
        """
        manifest = Manifest.read(directory)
        manifest.check_files(directory)
        tokenizers, counts = Tokenizers.load(directory), manifest.valid
        train = PreparedSplit.open(directory / "train", manifest.train.corpora)
        valid = None if counts is None else PreparedSplit.open(directory / "valid", counts.corpora)
        if recipe is not None:
            train = train.with_settings(recipe, recipe.data.train, tokenizers.source)
            valid = valid and valid.with_settings(recipe, recipe.data.valid, tokenizers.source)
        texts = [] if valid is None else json.loads((directory / "valid.json").read_bytes())
        return cls(train, valid, list(map(tuple, texts)), tokenizers, manifest)


class SideWriter:
    """Writes the sentences of a side for `Sentences.open`; counts tokens, characters and missing pieces."""

    def __init__(self, directory: Path, side: str, tokenizer: Tokenizer) -> None:
        self._tokens, self._offsets = directory / f"{side}.tokens.npy", directory / f"{side}.offsets.npy"
        self._dtype = np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.int32)
        self._spelled = tokenizer.spelled()
        self._sentences = self._length = self._characters = self._missing = 0
        _append(self._offsets, 0, np.zeros(1, dtype=np.int64))
        _append(self._tokens, 0, np.zeros(0, dtype=self._dtype))

    def append(self, sentences: Sentences, characters: int) -> None:
        """Append sentences that have `characters` characters in all."""
        _append(self._offsets, 1 + self._sentences, self._length + sentences.offsets[1:])
        _append(self._tokens, self._length, sentences.ids.astype(self._dtype))
        self._sentences += len(sentences)
        self._length += len(sentences.ids)
        self._characters += characters
        self._missing += int(self._spelled[sentences.ids].sum())

    @property
    def counts(self) -> SideCounts:
        """The counts of what was written."""
        return SideCounts(self._length, self._characters, self._missing)


def _append(path: Path, length: int, values: npt.NDArray[Any]) -> None:
    """Append values to an `.npy` file of `length` values; the header has the same size for every length."""
    header = {"descr": values.dtype.str, "fortran_order": False, "shape": (length + len(values),)}
    with path.open("r+b" if path.exists() else "w+b") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.seek(0, 2)
        file.write(values.tobytes())


def write_valid_texts(directory: Path, texts: Sequence[Sequence[SentencePair]]) -> None:
    """Write the validation texts as they were read. (JSON, since a line may hold any character.)"""
    sides = [([pair.source for pair in text], [pair.target for pair in text]) for text in texts]
    (directory / "valid.json").write_text(json.dumps(sides, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
