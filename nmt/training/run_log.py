"""The log of a training: metrics.jsonl, one JSON object per line in the order of steps, and curves in TensorBoard."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nmt.config.section import SettingError
from nmt.errors import DataError, ModelError


class MetricsLog:
    """A file that grows line by line, and is truncated when a training returns to a checkpoint."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def append(self, record: dict[str, Any]) -> None:
        """Append a line, all of it or nothing. Raises DataError if it cannot be written."""
        with self.file.open("ab", buffering=0) as stream:
            before = stream.tell()
            line = json.dumps(record, allow_nan=False).encode() + b"\n"
            try:
                # on a disk that is almost full, only a part is written
                while line:
                    line = line[stream.write(line) :]
            except OSError as error:
                stream.truncate(before)
                raise DataError(f"{self.file}: cannot write it: {error.strerror}; free some space") from None

    def sync(self) -> None:
        """Wait until all lines are on the disk, so that no checkpoint exists without them."""
        if self.file.exists():
            with self.file.open("rb") as stream:
                os.fsync(stream.fileno())

    def truncate(self, step: int, validated_at: int) -> None:
        """Drop the lines of later steps and validations, which will be written again.

        Raises ModelError for a line that training did not write.
        """
        if not self.file.exists():
            return
        kept = 0
        with self.file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith(b"\n"):
                    break  # of a killed process; no checkpoint can have followed it
                record = _record(line)
                if record is None:
                    raise ModelError(
                        f"{self.file}:{number}: expected a JSON object with a step, as training logs it, found "
                        f"{line[:60].decode(errors='replace').strip()!r}; correct the line or remove it"
                    )
                if record["step"] > (validated_at if record.get("type") == "validation" else step):
                    break
                kept += len(line)
        os.truncate(self.file, kept)


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line, None if the line is not a record with a step."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


def check_tensorboard() -> None:
    """Raise SettingError if TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise SettingError(
            "train.tensorboard",
            "tensorboard is not installed; run: pip install tensorboard (or set it to false)",
        )


class TensorBoard:
    """A folder of event files; each resumed training adds a new one."""

    def __init__(self, folder: Path) -> None:
        """Raise SettingError if TensorBoard is not installed; nothing is written yet."""
        check_tensorboard()
        self.folder = folder
        self._writer: Any = None
        self._first_step = 1

    def append(self, record: dict[str, Any]) -> None:
        """Add the numbers of a line of metrics.jsonl, as train/loss, validation/bleu and so on."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # TensorBoard then ignores this step and later ones in older files
            self._writer = SummaryWriter(self.folder, purge_step=self._first_step)
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(f"{record['type']}/{name}", value, record["step"])
        self._writer.flush()

    def truncate(self, step: int, validated_at: int = 0) -> None:
        """Replace later steps by those that are appended from now on."""
        self._first_step = step + 1
        if self._writer is not None:
            self._writer.close()
            self._writer = None
