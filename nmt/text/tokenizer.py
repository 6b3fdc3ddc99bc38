"""The tokenizer: SentencePiece on normalized text. It is also the vocabulary.

>>> tokenizer = Tokenizer.train(lines, TokenizerSettings(vocab_size=8000))
>>> tokenizer.decode(tokenizer.encode("Come  stai?"))
'Come stai?'

A literal `<s>`, `<back>` or `▁` in a sentence is encoded as text and decoded to itself: the symbols of those names are
control symbols, which SentencePiece never matches in text, and `▁`, its symbol for a space, is replaced before encoding
and after decoding by a character that normalized text does not contain.
"""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from nmt.config import TokenizerSettings
from nmt.errors import ConfigError, DataError, ModelError, NMTError
from nmt.text.normalize import normalize

PAD, UNK, BOS, EOS = range(4)

TOKENIZER_NAMES = ("tokenizer.model", "tokenizer.source.model", "tokenizer.target.model")
"""The file of a tokenizer for both sides, or those of each."""
_SPACE_MARK, _REPLACEMENT = "▁", "\ufdd0"
COVERAGE = 0.9999
"""Fraction of the characters in the text that are pieces; rarer ones are written in bytes."""
_TRAINING_SENTENCES = 2_000_000
"""More text changes the pieces little and needs more RAM; SentencePiece draws a sample, always the same."""
_LONGEST_LINE = 4192  # bytes; SentencePiece ignores longer lines
_TRAINING_THREADS = 8  # fixed, because sums of floats, and with them the pieces, depend on the number of threads


class VocabularySizeError(ConfigError):
    """A vocabulary that is too large or too small for the text; `bound` is the nearest size that is possible."""

    def __init__(self, message: str, bound: int) -> None:
        super().__init__(message)
        self.bound = bound

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        """Pickle both arguments, for errors in worker processes."""
        return type(self), (str(self), self.bound)


class Tokenizer:
    """Encodes sentences into ids of pieces and decodes ids. Neither raises an error, whatever the text."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    @classmethod
    def train(cls, lines: Iterable[str], settings: TokenizerSettings, tags: Sequence[str] = ()) -> "Tokenizer":
        """Train on raw or normalized lines; the same lines give the same tokenizer, byte for byte.

        `tokenizer.vocab_size` is a number, not auto. Raises VocabularySizeError if it is too large or too small for the
        text, DataError if there is no text.
        """
        if changed := next((symbol for symbol in settings.symbols if _escape(symbol) != symbol), None):
            raise ConfigError(
                f"tokenizer.symbols: {changed!r} does not occur in normalized text, expected {normalize(changed)!r}"
            )
        model = io.BytesIO()
        # a list: while SentencePiece calls a generator that reads a file, RAM grows by more than the size of this file
        text = [line for line in map(_escape, lines) if line]
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(text),
                model_writer=model,
                model_type=settings.type,
                vocab_size=settings.vocab_size,
                character_coverage=COVERAGE,
                byte_fallback=True,
                normalization_rule_name="identity",
                control_symbols=[f"<{tag}>" for tag in tags],
                user_defined_symbols=list(settings.symbols),
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                input_sentence_size=_TRAINING_SENTENCES,
                shuffle_input_sentence=True,
                max_sentence_length=_LONGEST_LINE,
                num_threads=_TRAINING_THREADS,
                minloglevel=2,
            )
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
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found != (PAD, UNK, BOS, EOS):
            raise ModelError(f"the symbols pad, unk, bos, eos have the ids {found}, expected (0, 1, 2, 3)")
        return cls(processor)

    def to_bytes(self) -> bytes:
        """Return the tokenizer as a SentencePiece model, the format of `tokenizer.model`."""
        return bytes(self._processor.serialized_model_proto())

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def symbols(self) -> list[str]:
        """The names in SentencePiece's file by id, which are unique."""
        return [self._processor.id_to_piece(i) for i in range(len(self))]

    @cached_property
    def pieces(self) -> list[str]:
        """All pieces by id, with `▁` for spaces."""
        return [symbol.replace(_REPLACEMENT, _SPACE_MARK) for symbol in self.symbols]

    @property
    def tags(self) -> list[str]:
        """The tags that it was trained with, in the order of their ids."""
        controls = (i for i in range(len(self)) if self._processor.is_control(i) and i not in (PAD, BOS, EOS))
        return [self.symbols[i][1:-1] for i in controls]

    def tag_id(self, tag: str) -> int:
        """Return the id of the symbol `<tag>`. Raises ModelError if the tokenizer was trained without that tag."""
        index = int(self._processor.piece_to_id(f"<{tag}>"))
        if not self._processor.is_control(index) or index in (PAD, BOS, EOS):
            raise ModelError(f"the tokenizer has no tag '{tag}'; tags are set in data.train of the recipe")
        return index

    def tag_ids(self, tags: Iterable[str | None]) -> list[int]:
        """Return the ids of tags, of which None are left out. Raises ModelError as `tag_id` does."""
        return [self.tag_id(tag) for tag in tags if tag is not None]

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """The values of the ids that spell a byte."""
        return {i: int(symbol[3:5], 16) for i, symbol in enumerate(self.symbols) if self._processor.is_byte(i)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a sentence, without `<s>` and `</s>`; [] if it is empty after normalization."""
        ids: list[int] = self._processor.encode(_escape(text))
        return ids

    def encode_lines(self, lines: Iterable[str]) -> list[list[int]]:
        """Return the ids of normalized lines, as `encode` does, in one thread."""
        escaped = [line.replace(_SPACE_MARK, _REPLACEMENT) for line in lines]
        ids: list[list[int]] = self._processor.encode(escaped, num_threads=1)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalized sentence of ids, always one line. Special symbols and tags are skipped.

        `decode(encode(text)) == normalize(text)` with `byte_fallback`. Bytes that form no character become U+FFFD.
        """
        plain = [int(i) for i in ids if i > EOS]
        text: str = self._processor.decode(plain)
        return normalize(text.replace(_REPLACEMENT, _SPACE_MARK))

    def spell_text(self, text: str) -> list[bytes]:
        """Return the UTF-8 bytes of each id of `encode(text)`, with the space before it."""
        parts = []
        for i, piece in zip(self.encode(text), self._processor.encode(_escape(text), out_type=str), strict=True):
            byte = self._bytes.get(i)
            parts.append(piece.replace(_SPACE_MARK, " ").encode() if byte is None else bytes([byte]))
        # the replacement may be spelled byte by byte; it is as long as the space mark
        whole = io.BytesIO(b"".join(parts).replace(_REPLACEMENT.encode(), _SPACE_MARK.encode()))
        return [whole.read(len(part)) for part in parts]

    def spelled(self) -> npt.NDArray[np.bool_]:
        """Return (V,) bools: True for ids of (the first byte of) a character without a piece."""
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
        """Return the side, source or target, whose tokenizer is not, byte for byte, that of the others; else None."""
        if self.source.to_bytes() != other.source.to_bytes():
            return "source"
        return None if self.target.to_bytes() == other.target.to_bytes() else "target"

    def save(self, directory: Path) -> None:
        """Write `tokenizer.model`, or `tokenizer.source.model` and `tokenizer.target.model`."""
        sides = {"": self.source} if self.shared else {".source": self.source, ".target": self.target}
        for side, tokenizer in sides.items():
            (directory / f"tokenizer{side}.model").write_bytes(tokenizer.to_bytes())

    @classmethod
    def load(cls, directory: Path) -> "Tokenizers":
        """Inverse of `save`. Raises ModelError if it is absent or damaged."""
        loaded = [_load_file(file) for file in tokenizer_files(directory)]
        return cls(loaded[0], loaded[-1])


def tokenizer_files(directory: Path) -> list[Path]:
    """Return the tokenizer files of a directory: one if it is shared, else those of source and target."""
    shared, *both = (directory / name for name in TOKENIZER_NAMES)
    return [shared] if shared.exists() else both


def _escape(text: str) -> str:
    return normalize(text).replace(_SPACE_MARK, _REPLACEMENT)


def _load_file(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_bytes(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path.parent}: no {path.name} here; a complete directory holds its tokenizer") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read it: {error.strerror}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _explained(message: str, settings: TokenizerSettings) -> NMTError:
    """Return SentencePiece's error in terms of the recipe."""
    if "sentences_.empty()" in message:
        found = f"every line is empty or longer than {_LONGEST_LINE} bytes; put one sentence per line"
        return DataError(f"there is no text to train the tokenizer on: {found}")
    found = f"tokenizer.vocab_size: found {settings.vocab_size}, but"
    if match := re.search(r"too high \(\d+\).*<= (\d+)", message):
        reason = f"this text yields at most {match[1]} different pieces", "less, or train on more text"
    elif match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        reason = f"the special symbols, the 256 bytes and the characters of this text alone need {match[1]}", "more"
    else:
        text = message.removeprefix("INTERNAL: ").strip()
        return ConfigError(f"tokenizer: SentencePiece cannot be trained on this text: {text}")
    advice = f"set tokenizer.vocab_size to auto, or to {match[1]} or {reason[1]}"
    return VocabularySizeError(f"{found} {reason[0]}; {advice}", int(match[1]))
