"""Compressed text is unpacked as it arrives, in bounded RAM, whatever the blocks in which it comes."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text.readers.compression import compression_of, unpacked
from nmt.text.readers.opening import open_text, read_lines

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Compress = Callable[[bytes], bytes]
FORMATS: dict[str, Compress] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),  # as the program
}
LINES = b"".join(b"line %d of a text\n" % number for number in range(20_000))


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_members_are_unpacked_in_any_blocks(suffix: str, size: int) -> None:
    parts = [LINES[:100], b"", LINES[100:]] if size > 1 else [LINES[:100], b"", LINES[100:900]]
    packed = b"".join(map(FORMATS[suffix], parts))
    compression = compression_of(packed[:10])
    assert compression is not None
    blocks = (packed[start : start + size] for start in range(0, len(packed), size))
    chunks = list(unpacked(blocks, compression, "x"))
    assert b"".join(chunks) == b"".join(parts)
    assert max(map(len, chunks)) <= 1 << 16
    assert open_text(io.BytesIO(packed), "x").read() == b"".join(parts)


@pytest.mark.parametrize("suffix", FORMATS)
def test_names_need_no_suffix(tmp_path: Path, suffix: str) -> None:
    for name in ("a", f"a.{suffix}"):
        (tmp_path / name).write_bytes(FORMATS[suffix](b"one\r\ntwo"))
        assert list(read_lines(tmp_path / name)) == ["one", "two"]
    (tmp_path / "empty").write_bytes(FORMATS[suffix](b""))
    assert list(read_lines(tmp_path / "empty")) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_text_of_gigabytes_is_unpacked_in_bounded_memory(suffix: str) -> None:
    block = FORMATS[suffix](bytes(4_000_000))
    compression = compression_of(block)
    assert compression is not None
    tracemalloc.start()
    try:
        assert sum(map(len, unpacked(iter([block] * 15), compression, "x"))) == 60_000_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("damage", ["truncated", "changed", "followed by something else"])
def test_damaged_data_is_refused(tmp_path: Path, suffix: str, damage: str) -> None:
    packed = FORMATS[suffix](LINES)
    if damage == "truncated":
        packed = packed[: len(packed) // 2]
    elif damage == "changed":
        packed = packed[:100] + bytes(100) + packed[200:]
    else:
        packed += b"something else"
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(DataError, match=rf"{tmp_path}/a: damaged \w+ file \(.*copy or download it again"):
        list(read_lines(tmp_path / "a"))


def test_xz_file_that_needs_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.readers.compression._XZ_RAM", 1 << 20)
    packed = lzma.compress(b"text", preset=3)  # needs 5 MiB
    with pytest.raises(DataError, match=r"^x: damaged xz file .*[Mm]emory"):
        open_text(io.BytesIO(packed), "x").read()


@pytest.mark.parametrize("program", ["gzip", "bzip2", "xz", "zstd"])
def test_output_of_the_programs_is_read(tmp_path: Path, program: str) -> None:
    try:
        packed = subprocess.run([program, "-c"], input=LINES, capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"{program} is not installed")
    assert open_text(io.BytesIO(packed), "x").read() == LINES
