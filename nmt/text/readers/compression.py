"""Unpack compressed data as it arrives: gzip, bzip2, xz and zstd, recognized by their first bytes."""

import bz2
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from nmt.errors import DataError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CHUNK_BYTES = 1 << 16
_GZIP_CONTAINER = 31  # zlib's `wbits` for a gzip header and trailer
_XZ_RAM = 1 << 28  # bytes; `xz -9` needs 65 MiB


class Compression(NamedTuple):
    """A compressed format."""

    name: str
    suffix: str
    signature: re.Pattern[bytes]
    decompressor: Callable[[], Any]
    """Makes a decompressor of one member, with `decompress(data, max_length)`, `eof` and `unused_data`."""


_COMPRESSIONS = (
    Compression("gzip", ".gz", re.compile(rb"\x1f\x8b"), lambda: zlib.decompressobj(_GZIP_CONTAINER)),
    Compression("bzip2", ".bz2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.BZ2Decompressor),
    Compression("xz", ".xz", re.compile(rb"\xfd7zXZ\0"), lambda: lzma.LZMADecompressor(memlimit=_XZ_RAM)),
    Compression("zstd", ".zst", re.compile(rb"\x28\xb5\x2f\xfd"), zstd.ZstdDecompressor),
)


def compression_of(start: bytes) -> Compression | None:
    """Return the format of data that begins with these bytes; None if they are not compressed."""
    return next((known for known in _COMPRESSIONS if known.signature.match(start)), None)


def compression_named(suffix: str) -> Compression | None:
    """Return the format that the suffix of a file name stands for."""
    return next((known for known in _COMPRESSIONS if known.suffix == suffix), None)


def unpacked(chunks: Iterator[bytes], compression: Compression, name: str) -> Iterator[bytes]:
    """Yield the content of compressed data, which may have several members, in chunks of bounded size.

    Raises DataError, which begins with `name`, for damaged data.
    """
    member = compression.decompressor()
    for packed in chunks:
        data = packed.lstrip(b"\0") if member.eof else packed  # padding, as on tapes
        # zlib's object has no `needs_input`, and returns input in its place
        while data or not (member.eof or getattr(member, "needs_input", True)):
            if member.eof:
                member = compression.decompressor()
            try:
                content = member.decompress(data, _CHUNK_BYTES)
            except (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError) as error:
                raise _damaged(name, compression, str(error)) from None
            if content:
                yield content
            data = member.unused_data.lstrip(b"\0") if member.eof else getattr(member, "unconsumed_tail", b"")
    if not member.eof:
        raise _damaged(name, compression, "it ends too early")


def _damaged(name: str, compression: Compression, problem: str) -> DataError:
    return DataError(f"{name}: damaged {compression.name} file ({problem}); copy or download it again")
