"""Members of zip archives, which are named like files in a folder: `corpus.zip/corpus.en`."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from nmt.errors import DataError

_NO_TEXT = re.compile(
    r"(^|/)([._]|(readme|licen[cs]e|copying|copyright|about|changelog|citation)\b)|/$|\.(xml|ids)$", re.IGNORECASE
)
"""Names of members that are no text for training: folders, hidden files, descriptions, lists of alignments (OPUS)."""
_SHOWN = 8  # members in a message


def split_member(path: Path) -> tuple[Path, str | None]:
    """Return the file on disk that a path leads to, and the member of that file, if the path continues below it.

    >>> split_member(Path("data/corpus.txt"))
    (PosixPath('data/corpus.txt'), None)
    """
    for above in path.parents:
        if above.suffix.lower() == ".zip" and above.is_file():
            return above, path.relative_to(above).as_posix()
    return path, None


def is_archive(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a zip archive."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def text_members(archive: Path) -> list[str]:
    """Return the names of the members of an archive that may be text for training, sorted."""
    with archive.open("rb") as file, _opened(file, archive) as members:
        return _texts(members)


@contextmanager
def open_member(file: BinaryIO, archive: Path, name: str | None) -> Iterator[BinaryIO]:
    """Open a member of an archive, by default its only text. Raises DataError if it cannot be read."""
    with _opened(file, archive) as members:
        texts = _texts(members)
        if name is None and not texts:
            raise DataError(
                f"{archive}: an archive without text; if it is a document or a spreadsheet, save it as plain text or "
                "as CSV (UTF-8)"
            )
        if name is None and len(texts) > 1:
            raise DataError(
                f"{archive}: expected an archive of one text file, found {len(texts)}{_shown(texts)}; name one as "
                f"{archive}/NAME"
            )
        name = texts[0] if name is None else name
        try:
            content = members.open(name)
        except KeyError:
            raise DataError(f"{archive}: no member {name}{_shown(texts)}") from None
        except BadZipFile as error:
            raise _damaged(archive, error) from None
        except (RuntimeError, NotImplementedError) as error:  # encrypted, or compressed in a rare way
            raise DataError(f"{archive}: cannot read {name}: {error}; extract it with another program") from None
        with content:
            yield cast(BinaryIO, content)


def _texts(archive: ZipFile) -> list[str]:
    return sorted(name for name in archive.namelist() if not _NO_TEXT.search(name))


def _opened(file: BinaryIO, archive: Path) -> ZipFile:
    try:
        return ZipFile(file)
    except BadZipFile as error:
        raise _damaged(archive, error) from None


def _damaged(archive: Path, error: BadZipFile) -> DataError:
    return DataError(f"{archive}: damaged zip archive ({error}); copy or download it again")


def _shown(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})" if names else ""
