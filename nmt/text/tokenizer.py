"""The tokenizer: SentencePiece over normalized text. It is the vocabulary too, so the two cannot fall out of step.

>>> tokenizer = Tokenizer.train(lines, TokenizerSettings(vocab_size=8000))
>>> tokenizer.decode(tokenizer.encode("Come  stai?"))
'Come stai?'

Text is text: a literal `<s>`, `<back>` or `▁` in a sentence is spelled out and comes back as it was. The symbols of
those names are control symbols, which SentencePiece never matches in text, and `▁`, its mark for a space, is swapped
on the way in and out for a character that normalized text cannot hold.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from nmt.config import TokenizerSettings
from nmt.errors import ConfigError, DataError, ModelError
from nmt.text.normalize import normalize

PAD, UNK, BOS, EOS = range(4)

_SPACE_MARK, _STAND_IN = "▁", "\ufdd0"
_TRAINING_SENTENCES = 2_000_000
"""More text than this changes the pieces little and costs memory; SentencePiece draws a sample, the same each time."""
_LONGEST_LINE = 4192
"""Bytes; SentencePiece learns nothing from longer lines."""
_TRAINING_THREADS = 8
"""Fixed, because sums of floats depend on how many threads share them, and so would the pieces."""


class Tokenizer:
    """Cuts a sentence into ids of pieces and puts ids together again. Neither ever raises, whatever the text."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    @classmethod
    def train(cls, lines: Iterable[str], settings: TokenizerSettings, tags: Sequence[str] = ()) -> "Tokenizer":
        """Learn the pieces from raw or normalized lines; the same lines give the same tokenizer, to the byte.

        Raises ConfigError when the text cannot fill `tokenizer.vocab_size` or needs more, DataError when there
        is no text.
        """
        source = _TrainingLines(lines)
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(source),
                model_writer=model,
                model_type=settings.type,
                vocab_size=settings.vocab_size,
                character_coverage=settings.coverage,
                byte_fallback=settings.byte_fallback,
                normalization_rule_name="identity",
                control_symbols=[f"<{tag}>" for tag in tags],
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
            if source.failure is not None:
                raise source.failure from None
            if "sentences_.empty()" in str(error):
                raise DataError(_no_text(source.count)) from None
            raise ConfigError(_explain(str(error), settings)) from None
        return cls.from_bytes(model.getvalue())

    @classmethod
    def from_bytes(cls, model: bytes) -> "Tokenizer":
        """Read what `to_bytes` returned. Raises ModelError if it is damaged or another program's vocabulary."""
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

    @property
    def pad_id(self) -> int:
        """Fills a batch; never in a sentence."""
        return PAD

    @property
    def bos_id(self) -> int:
        """Begins every target."""
        return BOS

    @property
    def eos_id(self) -> int:
        """Ends every sentence."""
        return EOS

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def pieces(self) -> list[str]:
        """Every piece by id, spaces shown as `▁`, special symbols as `<s>`."""
        return [self._processor.id_to_piece(i).replace(_STAND_IN, _SPACE_MARK) for i in range(len(self))]

    def tag_id(self, tag: str) -> int:
        """Return the id of the symbol `<tag>`. Raises ModelError if the tokenizer was trained without that tag."""
        index = int(self._processor.piece_to_id(f"<{tag}>"))
        if not self._processor.is_control(index) or index in (PAD, BOS, EOS):
            raise ModelError(f"the tokenizer does not know the tag '{tag}'; tags are named in data.train of the recipe")
        return index

    @cached_property
    def merges(self) -> bool:
        """Whether pieces are put together by merges (BPE) rather than chosen by their probabilities (unigram)."""
        try:
            self._processor.nbest_encode("a", nbest_size=2, out_type=int)
        except RuntimeError:
            return True
        return False

    @cached_property
    def table(self) -> "PieceTable":
        """What stands behind each id."""
        processor, ids = self._processor, range(len(self))
        found = {i: int(processor.id_to_piece(i)[3:5], 16) for i in ids if processor.is_byte(i)}
        controls = frozenset(i for i in ids if processor.is_control(i))
        spells = (i not in found and i not in controls and i != UNK for i in ids)
        surfaces = [processor.id_to_piece(i) if text else "" for i, text in zip(ids, spells, strict=True)]
        return PieceTable(surfaces, [processor.get_score(i) for i in ids], found, controls)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a sentence, without bos and eos; [] if nothing is left of it when normalized."""
        ids: list[int] = self._processor.encode(_escape(text))
        return ids

    def encode_batch(self, texts: Sequence[str], threads: int | None = None) -> list[npt.NDArray[np.int32]]:
        """Encode many sentences at once, as arrays; `threads` None takes one a core."""
        escaped = [_escape(text) for text in texts]
        arrays = self._processor.encode(escaped, num_threads=threads or -1, return_type="numpy")
        return list(arrays)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the sentence that ids spell: normalized, so always one line. Special symbols and tags say nothing.

        `decode(encode(text)) == normalize(text)` where `byte_fallback` is on. Bytes that spell no character are U+FFFD.
        """
        plain = [int(i) for i in ids if i > EOS]
        text: str = self._processor.decode(plain)
        return normalize(text.replace(_STAND_IN, _SPACE_MARK))

    def spell(self, ids: Sequence[int]) -> list[bytes]:
        """Return what each id writes, in UTF-8, with the space before it; special symbols and tags write nothing."""
        return self._written(ids, [self._processor.id_to_piece(i) for i in ids])

    def spell_text(self, text: str) -> list[bytes]:
        """Return what each id of `encode(text)` writes, also where a character has no piece."""
        return self._written(self.encode(text), self._processor.encode(_escape(text), out_type=str))

    def _written(self, ids: Sequence[int], pieces: Sequence[str]) -> list[bytes]:
        bytes_of, controls = self.table.bytes, self.table.controls
        parts = [
            bytes([bytes_of[i]])
            if i in bytes_of
            else b""
            if i in controls
            else piece.replace(_SPACE_MARK, " ").encode()
            for i, piece in zip(ids, pieces, strict=True)
        ]
        # the stand-in may be spelled byte by byte; it is as long as what it stands for
        whole = io.BytesIO(b"".join(parts).replace(_STAND_IN.encode(), _SPACE_MARK.encode()))
        return [whole.read(len(part)) for part in parts]

    def spelled(self) -> npt.NDArray[np.bool_]:
        """Return (V,) bools: True where an id stands for (the first byte of) a character that has no piece."""
        table = np.zeros(len(self), dtype=np.bool_)
        table[UNK] = True
        for i in range(len(self)):
            # the second and later bytes of a character are 10xxxxxx
            if self._processor.is_byte(i) and int(self._processor.id_to_piece(i)[3:5], 16) >> 6 != 0b10:
                table[i] = True
        return table


@dataclass(frozen=True)
class PieceTable:
    """The pieces by id: their text, with `▁` for a space ("" where there is none), and their scores.

    A score is the log-probability of a unigram model's piece, or minus the rank of a merge. `bytes` are the values of
    the ids that spell a byte; `controls` are tags and symbols such as `<s>`.
    """

    surfaces: list[str]
    scores: list[float]
    bytes: dict[int, int]
    controls: frozenset[int]


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides: one object twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both sides use one vocabulary."""
        return self.source is self.target

    def save(self, directory: Path) -> None:
        """Write `tokenizer.model`, or `tokenizer.source.model` and `tokenizer.target.model`."""
        if self.shared:
            (directory / "tokenizer.model").write_bytes(self.source.to_bytes())
        else:
            (directory / "tokenizer.source.model").write_bytes(self.source.to_bytes())
            (directory / "tokenizer.target.model").write_bytes(self.target.to_bytes())

    @classmethod
    def load(cls, directory: Path) -> "Tokenizers":
        """Read what `save` wrote. Raises ModelError if it is absent or damaged."""
        loaded = [_load_file(file) for file in tokenizer_files(directory)]
        return cls(loaded[0], loaded[-1])


def tokenizer_files(directory: Path) -> list[Path]:
    """Return where a directory has its tokenizers: one file if they are shared, else those of source and target."""
    shared = directory / "tokenizer.model"
    return [shared] if shared.exists() else [directory / f"tokenizer.{side}.model" for side in ("source", "target")]


class _TrainingLines:
    """Feeds the trainer; keeps the error that reading raised, which SentencePiece would turn into a RuntimeError."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.count = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                text = _escape(line)
                if text:
                    self.count += 1
                    yield text
        except BaseException as error:
            self.failure = error
            raise


def _escape(text: str) -> str:
    return normalize(text).replace(_SPACE_MARK, _STAND_IN)


def _load_file(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_bytes(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path.parent}: no {path.name} here; a complete directory holds its tokenizer") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read it: {error.strerror}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _no_text(lines: int) -> str:
    too_long = f"every line is longer than {_LONGEST_LINE} bytes; put one sentence a line"
    found = too_long if lines else "every line is empty"
    return f"there is no text to learn the tokenizer from: {found}"


def _explain(message: str, settings: TokenizerSettings) -> str:
    """Say in the recipe's words why SentencePiece refused."""
    too_high = re.search(r"too high \(\d+\).*<= (\d+)", message)
    too_low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_high:
        return (
            f"tokenizer.vocab_size: found {settings.vocab_size}, but this text yields at most {too_high[1]} different "
            f"pieces; set tokenizer.vocab_size to {too_high[1]} or less, or train on more text"
        )
    if too_low:
        bytes_too = ", the 256 bytes" if settings.byte_fallback else ""
        return (
            f"tokenizer.vocab_size: found {settings.vocab_size}, but the special symbols{bytes_too} and the characters "
            f"of this text alone need {too_low[1]}; set tokenizer.vocab_size to {too_low[1]} or more, or lower "
            "tokenizer.coverage"
        )
    return f"tokenizer: SentencePiece cannot learn from this text: {message.removeprefix('INTERNAL: ').strip()}"
