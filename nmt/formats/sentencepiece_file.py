"""SentencePiece's files, read and written as they are: messages of Protocol Buffers (sentencepiece_model.proto).

SentencePiece itself cannot change the pieces of a model, and the package with its messages needs protobuf.
"""

import struct
from collections.abc import Container, Iterator, Mapping, Sequence

from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}

# Numbers of fields, and kinds of pieces.
_PIECE, _TRAINER = 1, 2
_NORMAL, _UNKNOWN, _CONTROL, _UNUSED, _BYTE = 1, 2, 3, 5, 6
# Kinds of fields, and the bytes of those of fixed size; the most bytes of a number.
_VARINT, _BYTES, _SIZES, _LONGEST = 0, 2, {1: 8, 5: 4}, 10
_BYTE_FALLBACK, _IDS, _NAMES = 35, 40, 45  # _IDS and _NAMES: of unk, bos, eos, pad, in this order


def tokenizer_of(spm: bytes, symbols: list[str], tags: Mapping[str, str] | None = None) -> Tokenizer:
    """Return a tokenizer that splits text as a SentencePiece model does, with ids that are places in `symbols`.

    Symbols that the model does not have are decoded, but not used to encode, except for single characters.
    """
    known = {piece: (score, kind) for piece, score, kind in pieces_of(spm)}
    # the score that SentencePiece gives to unknown characters
    rarest = min((score for score, kind in known.values() if kind == _NORMAL), default=0.0) - 10
    has_bytes = all(f"<0x{byte:02X}>" in symbols for byte in range(256))
    controls = {f"<2{code}>" for code in (tags or {}).values()}
    message = bytearray()
    for place, symbol in enumerate(symbols):
        score, kind = known.get(symbol, (rarest, _NORMAL if len(symbol) == 1 else _UNUSED))
        if place < len(SPECIAL) or symbol in controls:
            score, kind = 0.0, _UNKNOWN if place == UNK else _CONTROL
        elif kind in (_UNKNOWN, _CONTROL) or (kind == _BYTE and not has_bytes):
            kind = _UNUSED
        message += _piece(symbol, score, kind)
    for number, value in _fields(spm):
        if number == _TRAINER:
            order = (UNK, BOS, EOS, PAD)
            value += b"".join(_number(_IDS + index, special) for index, special in enumerate(order))
            value += b"".join(_field(_NAMES + index, SPECIAL[special].encode()) for index, special in enumerate(order))
            value += b"" if has_bytes else _number(_BYTE_FALLBACK, 0)
        if number != _PIECE:
            message += _field(number, value)
    return Tokenizer.from_bytes(bytes(message))


def with_pieces(tokenizer: Tokenizer, pieces: Mapping[str, Sequence[int]], used: Container[str]) -> Tokenizer:
    """Return a tokenizer with further pieces, each with the ids that spelled it; those not in `used` are only decoded.

    For bpe, the merges of the pieces follow all existing ones. For other types, a piece has the mean score of those
    that spelled it (bytes: the lowest score); unigram prefers it to these, whose scores are added up.
    """
    message = tokenizer.to_bytes()
    scores, is_bpe = [score for _, score, _ in pieces_of(message)], type_of(message) == "bpe"
    lowest = min(scores)
    for place, (symbol, ids) in enumerate(pieces.items(), start=1):
        score = lowest - place if is_bpe else sum(scores[i] or lowest for i in ids) / len(ids)
        message += _piece(symbol, score, _NORMAL if symbol in used else _UNUSED)
    return Tokenizer.from_bytes(message)


def type_of(spm: bytes) -> str:
    """Return the type of a SentencePiece model, as `tokenizer.type` has it."""
    trainer = dict(_fields(dict(_fields(spm))[_TRAINER]))
    return ("unigram", "bpe", "word", "char")[trainer.get(3, b"\1")[0] - 1]


def pieces_of(spm: bytes) -> Iterator[tuple[str, float, int]]:
    """Yield the pieces of a SentencePiece model: text, score, kind."""
    for number, value in _fields(spm):
        if number == _PIECE:
            fields = dict(_fields(value))
            score = struct.unpack("<f", fields[2])[0] if 2 in fields else 0.0
            yield fields[1].decode(), score, fields[3][0] if 3 in fields else _NORMAL


def _piece(symbol: str, score: float, kind: int) -> bytes:
    return _field(_PIECE, _field(1, symbol.encode()) + struct.pack("<Bf", 2 << 3 | 5, score) + _number(3, kind))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of the fields of a message; the content of an integer is its encoding."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        start, kind = position, key & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
        elif kind == _BYTES:
            length, start = _varint(message, position)
            position = start + length
        elif kind in _SIZES:
            position += _SIZES[kind]
        else:
            raise ValueError("not a SentencePiece model")
        if position > len(message):
            raise ValueError("a truncated SentencePiece model")
        yield key >> 3, message[start:position]


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a number, 7 bits a byte and the lowest first, and the position behind it."""
    value = 0
    for index, byte in enumerate(message[position : position + _LONGEST]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise ValueError("a truncated SentencePiece model")


def _encoded(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _encoded(value >> 7)


def _number(field: int, value: int) -> bytes:
    return _encoded(field << 3) + _encoded(value)


def _field(field: int, content: bytes) -> bytes:
    return _encoded(field << 3 | 2) + _encoded(len(content)) + content
