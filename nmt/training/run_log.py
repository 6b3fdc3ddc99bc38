"""metrics.jsonl: the log of a training for machines, one JSON object a line, in the order of steps."""

import json
import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from nmt.errors import DataError, ModelError


class MetricsLog:
    """A file that grows line by line, and shrinks when a training goes back to a checkpoint."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def append(self, record: dict[str, Any]) -> None:
        """Add a line, all of it or nothing. Raises DataError if the disk refuses."""
        with self.file.open("ab", buffering=0) as stream:
            before = stream.tell()
            line = json.dumps(record, allow_nan=False).encode() + b"\n"
            try:
                # a disk that is almost full takes a part, and refuses the rest
                while line:
                    line = line[stream.write(line) :]
            except OSError as error:
                stream.truncate(before)
                raise DataError(f"{self.file}: cannot write it: {error.strerror}; free some space") from None

    def sync(self) -> None:
        """Make sure that all lines are on the disk, so that no checkpoint is there without them."""
        if self.file.exists():
            with self.file.open("rb") as stream:
                os.fsync(stream.fileno())

    def keep_until(self, step: int, validated_at: int) -> None:
        """Drop the lines of later steps and validations, for they will be written again; only the end is cut off.

        Raises ModelError for a line that no training wrote.
        """
        if self.file.exists():
            lines = takewhile(lambda line: line[1] <= (validated_at if line[2] else step), self._lines())
            os.truncate(self.file, sum(size for size, _, _ in lines))

    def _lines(self) -> Iterator[tuple[int, int, bool]]:
        """Yield the size of each line in bytes, its step, and whether it tells of a validation."""
        with self.file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith(b"\n"):
                    return  # a kill cut it short; no checkpoint can have followed it
                record = _record(line)
                if record is None:
                    raise ModelError(
                        f"{self.file}:{number}: expected a JSON object with a step, as training logs it, found "
                        f"{line[:60].decode(errors='replace').strip()!r}; mend the line or remove it"
                    )
                yield len(line), record["step"], record.get("type") == "validation"


def _record(line: bytes) -> dict[str, Any] | None:
    """Return what a line says, None if it tells of no step."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
