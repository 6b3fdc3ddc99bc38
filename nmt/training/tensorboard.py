"""The log of a training for TensorBoard: the numbers of metrics.jsonl as curves."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError


class TensorBoard:
    """A folder of event files, of which a training writes a new one each time that it goes on from a checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Raise ConfigError if TensorBoard is not installed; nothing is written yet."""
        if find_spec("tensorboard") is None:
            raise ConfigError(
                "train.tensorboard: tensorboard is not installed; run pip install '.[tensorboard]' in the nmt "
                "checkout, or set it to false"
            )
        self.folder = folder
        self._writer: Any = None
        self._first_step = 1

    def append(self, record: dict[str, Any]) -> None:
        """Add the numbers of a line of metrics.jsonl, as train/loss, validation/bleu and the like."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # tells TensorBoard to forget what other files say of this step and those after it
            self._writer = SummaryWriter(self.folder, purge_step=self._first_step)
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(f"{record['type']}/{name}", value, record["step"])
        self._writer.flush()

    def keep_until(self, step: int) -> None:
        """Let what comes next replace what there is of later steps."""
        self._first_step = step + 1
        if self._writer is not None:
            self._writer.close()
            self._writer = None
