"""The tokenizer: SentencePiece on normalized text. It is also the vocabulary.

>>> tokenizer = Tokenizer.train(lines, TokenizerSettings(vocab_size=8000))
>>> tokenizer.decode(tokenizer.encode("Come  stai?"))
'Come stai?'

A literal `<s>`, `<back>` or `▁` in a sentence is encoded as text and decoded to itself: the symbols of those names are
control symbols, which SentencePiece never matches in text, and `▁`, its symbol for a space, is replaced before encoding
and after decoding by a character that normalized text does not contain.

With `tokenizer.vocab_size: auto`, the number of longer pieces grows with the square root of the text length. This
agrees with the best sizes found for 5,000 sentence pairs (2,000 pieces; Sennrich & Zhang 2019), for 165,000 (over
10,000; Araabi & Monz 2020) and for 4.5 million (32,000; Gowda & May 2020), and with our recipes: 5,000 for 24,000 short
pairs of English and Chinese, 8,000 for 306,000 of English and Italian.
"""

import io
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from nmt.config import Recipe, TokenizerSettings
from nmt.config.data_section import LARGEST_PROPOSED_VOCABULARY
from nmt.errors import ConfigError, DataError, ModelError, NMTError
from nmt.system.files import read_json, regular_file
from nmt.text.languages import has_spaces, is_language
from nmt.text.normalize import normalize

PAD, UNK, BOS, EOS = range(4)

# The file of a tokenizer that both sides share, or one file for each side.
TOKENIZER_NAMES = ("tokenizer.model", "tokenizer.source.model", "tokenizer.target.model")
SPACE_MARK, _REPLACEMENT = "▁", "\ufdd0"
COVERAGE = 0.9999  # fraction of the characters in the text that have a piece; rarer ones are spelled in bytes
# More text changes the pieces little and needs more RAM; SentencePiece draws a sample, always the same.
_TRAINING_SENTENCES = 2_000_000
_LONGEST_LINE = 4192  # bytes; SentencePiece ignores longer lines
_TRAINING_THREADS = 8  # fixed, because sums of floats, and with them the pieces, depend on the number of threads


class Tokenizer:
    """Encodes sentences into ids of pieces and decodes ids. Neither raises an error, whatever the text."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    @classmethod
    def train(
        cls, lines: Iterable[str], settings: TokenizerSettings, tags: Sequence[str] = (), at_most: bool = False
    ) -> "Tokenizer":
        """Train on raw or normalized lines; the same lines give the same tokenizer, byte for byte.

        `settings.vocab_size` must be a number, not auto. With `at_most` or `min_frequency`, it is an upper limit: the
        text may yield fewer pieces. Raises ConfigError if it is too large or too small for the text, DataError if
        there is no text.
        """
        codes = range(sys.maxunicode) if settings.lowercase else ()
        small = {code: low for code in codes if (low := chr(code).lower()) != chr(code)}  # by the code of each capital
        # a list: while SentencePiece calls a generator that reads a file, RAM grows by more than the size of this file
        text, model = [line.translate(small) for line in map(_escape, lines) if line], io.BytesIO()
        is_limit = at_most or settings.min_frequency > 1
        more: dict[str, Any] = {"hard_vocab_limit": False} if is_limit else {}  # only if it is not the default
        if settings.min_frequency > 1:
            counts = Counter(chain.from_iterable(map(str.split, text)))
            frequent = {word for word, count in counts.items() if count >= settings.min_frequency}
            if not frequent:
                least = f"{settings.min_frequency:,} times; set it lower"
                raise ConfigError(f"tokenizer.min_frequency: no word of the text occurs {least}")
            text = [" ".join(filter(frequent.__contains__, line.split())) for line in text]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as rules:
            if small:
                more["normalization_rule_tsv"] = rules.name  # the model contains a copy of the rules
            for letter, low in small.items():
                rules.write(f"{letter:x}\t{' '.join(format(ord(character), 'x') for character in low)}\n")
            rules.flush()
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(text), model_writer=model,
                    model_type=settings.type, vocab_size=settings.vocab_size, **more,
                    character_coverage=COVERAGE, byte_fallback=True, normalization_rule_name="identity",
                    control_symbols=[f"<{tag}>" for tag in tags], user_defined_symbols=list(settings.symbols),
                    pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS,
                    input_sentence_size=_TRAINING_SENTENCES, shuffle_input_sentence=True,
                    max_sentence_length=_LONGEST_LINE, num_threads=_TRAINING_THREADS, minloglevel=2,
                )  # fmt: skip
            except RuntimeError as error:
                raise _explained(str(error), settings) from None
        return cls.from_bytes(model.getvalue())

    @classmethod
    def from_bytes(cls, model: bytes) -> "Tokenizer":
        """Inverse of `to_bytes`. Raises ModelError for a damaged model or one with other special symbols."""
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(model)
        except RuntimeError:
            raise ModelError("not a SentencePiece model, or a damaged one") from None
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if ids != (PAD, UNK, BOS, EOS):
            raise ModelError(f"the symbols pad, unk, bos, eos have the ids {ids}, expected (0, 1, 2, 3)")
        return cls(processor)

    def to_bytes(self) -> bytes:
        """Return the tokenizer as a SentencePiece model, the format of `tokenizer.model`."""
        return bytes(self._processor.serialized_model_proto())

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def symbols(self) -> list[str]:
        """The unique names of all ids in SentencePiece's file."""
        return [self._processor.id_to_piece(i) for i in range(len(self))]

    @cached_property
    def pieces(self) -> list[str]:
        """All pieces by id, with `▁` for spaces."""
        return [symbol.replace(_REPLACEMENT, SPACE_MARK) for symbol in self.symbols]

    @cached_property
    def _tag_ids(self) -> dict[str, int]:
        controls = (i for i in range(len(self)) if self._processor.is_control(i) and i not in (PAD, BOS, EOS))
        return {self.symbols[i][1:-1]: i for i in controls}

    @property
    def tags(self) -> list[str]:
        """The tags of the tokenizer, in the order of their ids."""
        return list(self._tag_ids)

    def tag_ids(self, tags: Iterable[str | None]) -> list[int]:
        """Return the ids of tags, without those that are None. Raises ModelError for a tag without a symbol."""
        required = [tag for tag in tags if tag is not None]
        if unknown := [tag for tag in required if tag not in self._tag_ids]:
            raise ModelError(f"the tokenizer has no tag '{unknown[0]}'; tags are set in data.train of the recipe")
        return [self._tag_ids[tag] for tag in required]

    @property
    def has_words_only(self) -> bool:
        """Whether its type is word, the only type without a piece for the space."""
        return int(self._processor.piece_to_id(SPACE_MARK)) == UNK

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """The byte that each id of a byte piece stands for."""
        return {i: int(symbol[3:5], 16) for i, symbol in enumerate(self.symbols) if self._processor.is_byte(i)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a sentence, without `<s>` and `</s>`; [] if it is empty after normalization."""
        return list(self._processor.encode(_escape(text)))

    def encode_lines(self, lines: Iterable[str]) -> list[list[int]]:
        """Return the ids of normalized lines, as `encode` does, in one thread."""
        escaped = [line.replace(SPACE_MARK, _REPLACEMENT) for line in lines]
        ids: list[list[int]] = self._processor.encode(escaped, num_threads=1)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalized sentence of ids, always one line. Special symbols and tags are skipped.

        `decode(encode(text)) == normalize(text)` with `byte_fallback`, in small letters with `tokenizer.lowercase`.
        Bytes that form no character become U+FFFD.
        """
        plain = [int(i) for i in ids if i > EOS]
        # a word that is spelled in bytes begins with the space mark
        decoded = self._processor.decode(plain).replace(SPACE_MARK, " ")
        return normalize(decoded.replace(_REPLACEMENT, SPACE_MARK))

    def spell_text(self, text: str) -> list[bytes]:
        """Return the UTF-8 bytes of each id of `encode(text)`, with the space before it."""
        parts = []
        for i, piece in zip(self.encode(text), self._processor.encode(_escape(text), out_type=str), strict=True):
            byte = self._bytes.get(i)
            parts.append(piece.replace(SPACE_MARK, " ").encode() if byte is None else bytes([byte]))
        # the replacement may be spelled byte by byte; it is as long as the space mark
        joined = b"".join(parts).replace(SPACE_MARK.encode(), b"   ")  # the mark begins words that are spelled in bytes
        whole = io.BytesIO(joined.replace(_REPLACEMENT.encode(), SPACE_MARK.encode()))
        return [whole.read(len(part)) for part in parts]

    def without_piece(self, text: str) -> list[tuple[int, bytes]]:
        """Return the ids of `encode(text)` that are `<unk>` or a byte, each with the UTF-8 bytes that it spells."""
        parts = zip(self.encode(text), self.spell_text(text), strict=True)
        return [(i, part) for i, part in parts if i == UNK or i in self._bytes]

    def spelled(self) -> npt.NDArray[np.bool_]:
        """Return (V,) bools: True for `<unk>` and for bytes that begin a character."""
        table = np.zeros(len(self), dtype=np.bool_)
        # the second and later bytes of a character are 10xxxxxx
        table[[UNK, *(i for i, byte in self._bytes.items() if byte >> 6 != 0b10)]] = True
        return table


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides: one object twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both sides use one vocabulary."""
        return self.source is self.target

    def different_side(self, other: "Tokenizers") -> str | None:
        """Return the first side, source or target, whose tokenizers differ in a byte; None if both are equal."""
        if self.source.to_bytes() != other.source.to_bytes():
            return "source"
        return None if self.target.to_bytes() == other.target.to_bytes() else "target"

    def save(self, directory: Path) -> list[Path]:
        """Write and return `tokenizer.model`, or `tokenizer.source.model` and `tokenizer.target.model`."""
        sides = [self.source] if self.shared else [self.source, self.target]
        files = [directory / name for name in (TOKENIZER_NAMES[:1] if self.shared else TOKENIZER_NAMES[1:])]
        for file, tokenizer in zip(files, sides, strict=True):
            file.write_bytes(tokenizer.to_bytes())
        return files

    @classmethod
    def load(cls, directory: Path, listed: Container[str] | None = None) -> "Tokenizers":
        """Load what `save` wrote; `listed` are the files of a model. Raises ModelError: absent or damaged."""
        present = {path.name for path in directory.glob("tokenizer*")} if listed is None else listed
        loaded = [_load_file(directory / name) for name in tokenizer_names(present)]
        return cls(loaded[0], loaded[-1])


def tokenizer_names(files: Container[str]) -> list[str]:
    """Return the file names of tokenizers: the shared one if it is in `files`, else those of source and target."""
    return [*TOKENIZER_NAMES[:1]] if TOKENIZER_NAMES[0] in files else [*TOKENIZER_NAMES[1:]]


def initial_files(initial: Path) -> list[Path]:
    """Return the tokenizer files that an initial model lists, none if it is gone. Raises ModelError if damaged."""
    file = initial / "config.json"
    if not file.exists():
        return []
    content = read_json(file, "copy the model again")
    listed = content.get("files") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        raise ModelError(f"{file}: damaged, or not written by nmt: it has no list of files; copy the model again")
    return [initial / name for name in tokenizer_names(listed)]


def _escape(text: str) -> str:
    return normalize(text).replace(SPACE_MARK, _REPLACEMENT)


def _load_file(path: Path) -> Tokenizer:
    try:
        with open(path, "rb", opener=regular_file) as stream:
            return Tokenizer.from_bytes(stream.read())
    except FileNotFoundError:
        raise ModelError(f"{path.parent}: no {path.name} here; a complete directory holds its tokenizer") from None
    except (OSError, ModelError) as error:
        raise ModelError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _explained(message: str, settings: TokenizerSettings) -> NMTError:
    """Return SentencePiece's error in terms of the recipe."""
    if "sentences_.empty()" in message:
        problem = f"every line is empty or longer than {_LONGEST_LINE} bytes; put one sentence per line"
        return DataError(f"there is no text to train the tokenizer on: {problem}")
    problem = f"tokenizer.vocab_size: found {settings.vocab_size}, but"
    advice = "set tokenizer.vocab_size to auto, or to"
    if match := re.search(r"too high \(\d+\).*<= (\d+)", message):
        text = f"{problem} this text yields at most {match[1]} different pieces; {advice} {match[1]} or less"
        return ConfigError(f"{text}, or train on more text")
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        text = f"{problem} the special symbols, the 256 bytes and the characters of this text alone need {match[1]}"
        return ConfigError(f"{text}; {advice} {match[1]} or more")
    return ConfigError(f"tokenizer: SentencePiece cannot be trained on this text: {message}")


# More text changes the pieces little. SentencePiece needs about 22 bytes of RAM for each byte of text.
SAMPLED_BYTES = 24_000_000
_PIECES_PER_ROOT = 1.8  # pieces of several characters per square root of the number of characters
# Larger vocabularies are a multiple of this, since GPUs then compute matrix products several times as fast.
_MULTIPLE = 64


def train_tokenizers(
    recipe: Recipe, size: int, sample: Callable[[float], Iterator[list[str]]], directory: Path
) -> None:
    """Train and save the tokenizers for a text of `size` bytes, both sides together.

    `sample` returns a share of its lines, evenly spread, as cells; the last two are source and target. Raises
    ConfigError for a vocabulary size that the text does not permit.
    """
    settings, tags = recipe.tokenizer, recipe.tags
    unspaced = [code for code in (recipe.languages.source, *recipe.languages.target) if not has_spaces(code)]
    if settings.type == "word" and unspaced:
        raise ConfigError(f"tokenizer.type: {unspaced[0]} has no spaces between words; use unigram, bpe or char")

    def trained(sides: Sequence[int], tags: Sequence[str]) -> Tokenizer:
        share, pieces = min(1.0, SAMPLED_BYTES / (size * len(sides) / 2)), settings.largest_vocabulary
        is_auto = settings.vocab_size == "auto"
        if is_auto and settings.type in ("unigram", "bpe"):
            counts = Counter(chain.from_iterable(pair[side] for pair in sample(share) for side in sides))
            pieces = proposed_size(round(counts.total() / share), counts, settings, len(tags))
        lines = (pair[side] for pair in sample(share) for side in sides)
        return Tokenizer.train(lines, settings.model_copy(update={"vocab_size": pieces}), tags, is_auto)

    both = [trained((-2, -1), tags)] if settings.shared else [trained((-2,), tags), trained((-1,), ())]
    Tokenizers(both[0], both[-1]).save(directory)


def proposed_size(characters: int, counts: Counter[str], settings: TokenizerSettings, tags: int = 0) -> int:
    """Return the vocabulary size for a text of `characters` characters, given the counts of each in a sample."""
    covered = accumulate(sorted(counts.values(), reverse=True))  # by the most frequent one, the first two, …
    alphabet = min(len(counts), 1 + sum(number < COVERAGE * counts.total() for number in covered))
    symbols = EOS + 1 + tags + len(settings.symbols) + 256  # special symbols, tags, symbols of the recipe, bytes
    pieces = symbols + alphabet + round(_PIECES_PER_ROOT * math.sqrt(characters))
    if pieces > 8 * _MULTIPLE:
        pieces = math.ceil(pieces / _MULTIPLE) * _MULTIPLE
    return min(pieces, LARGEST_PROPOSED_VOCABULARY)


def initial_tokenizers(recipe: Recipe, initial: Path) -> Tokenizers:
    """Return the tokenizers of an initial model. Raises ConfigError where they do not fit the recipe."""
    if recipe.tokenizer != TokenizerSettings():
        raise ConfigError(f"tokenizer: it comes with train.init_from ({initial}); leave this section out, or empty")
    tokenizers = Tokenizers.load(initial, {file.name for file in initial_files(initial)})
    try:
        tokenizers.source.tag_ids(recipe.tags)
    except ModelError as error:
        if any(tag not in tokenizers.source.tags for tag in recipe.target_tags):
            problem = "has another target language, or others; training further cannot add one"
            raise ConfigError(f"languages.target: the model of train.init_from ({initial}) {problem}") from None
        known = ", ".join(tokenizers.source.tags) or "none"
        raise ConfigError(f"train.init_from ({initial}): {error}; its tags are {known}") from None
    languages = [tag[1:] for tag in tokenizers.source.tags if tag.startswith("2") and is_language(tag[1:])]
    if dropped := [language for language in languages if language not in recipe.languages.target]:
        raise ConfigError(
            f"languages.target: {', '.join(dropped)} is missing, a target language of the model of train.init_from "
            f"({initial}); state them all: target: [{', '.join(languages)}]"
        )
    return tokenizers
