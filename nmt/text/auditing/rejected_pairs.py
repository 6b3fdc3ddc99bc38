"""The pairs of the training text that the rules removed, from the work directory of a preparation."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nmt.system.ownership import output_file
from nmt.text.filters import Rejected
from nmt.text.preparing.chunk_files import EncodedChunk, KeptChunk, encoded_file, kept_file
from nmt.text.preparing.chunks import repeated_in
from nmt.text.preparing.duplicates import BitSet


def rejected_pairs(folder: Path, repeated: Mapping[str, BitSet]) -> Iterator[Rejected]:
    """Yield the removed pairs in the order of the text.

    `folder` holds the chunks of the text. If they are not encoded, as in an audit, `repeated` has the pairs that the
    rules on repetitions remove, and the rules on tokens have not been applied.
    """
    number = start = 0
    while kept_file(folder, number).exists():
        chunk = KeptChunk(folder, number)
        encoded = encoded_file(folder, number).exists()
        later = EncodedChunk(folder, number).rules if encoded else repeated_in(chunk, start, repeated)
        yield from sorted([*chunk.removed, *chunk.removed_by(later)], key=lambda rejected: rejected.number)
        number, start = number + 1, start + chunk.record.kept


def write_rejected(file: Path, rejected: Iterable[Rejected]) -> int:
    """Write removed pairs as tab-separated lines of rule, file, line, source, target; return their number.

    Raises ConfigError if the file must not be replaced, DataError for an error of the file system.
    """
    count = 0
    with output_file(file) as output:
        for one in rejected:
            pair, count = one.pair, count + 1
            output.write(f"{one.rule}\t{pair.file}\t{pair.line}\t{pair.source}\t{pair.target}\n".encode())
    return count
