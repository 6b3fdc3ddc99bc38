"""How far a training is: what every checkpoint remembers beside weights and moments."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from nmt.errors import DamagedError, ModelError

PROGRESS_FILE = "progress.json"


@dataclass
class IntervalSums:
    """Sums since the last line of the log."""

    loss: float = 0.0
    likelihood: float = 0.0
    gradient_norm: float = 0.0
    steps: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    padded_target_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0  # seconds of these in which no batch was ready

    def means(self) -> dict[str, float]:
        """Return losses a target token, and the rest a step, a second, or as a share."""
        return {
            "loss": self.loss / self.target_tokens,
            "perplexity": math.exp(min(self.likelihood / self.target_tokens, 700)),
            "gradient_norm": self.gradient_norm / self.steps,
            "padding": 1 - self.target_tokens / self.padded_target_tokens,
            "loader_wait": round(self.waited / self.seconds, 4),
            "target_tokens_per_second": round(self.target_tokens / self.seconds, 1),
        }


@dataclass(frozen=True)
class Adjustments:
    """What mishaps have taught a run: to go slower, and to cut what does not fit."""

    rate: float = 1.0
    """Factor on the schedule's learning rate."""
    largest_batch: int | None = None
    """Padded source and target tokens above which a batch is cut; None cuts nothing."""


@dataclass
class Progress:
    """All that the next step depends on, beside weights and moments."""

    step: int = 0
    epoch: int = 0
    part: int = 0  # of the epoch; 0 unless the corpus is huge
    group: int = 0  # of the part's plan, the next to be read
    target_tokens: int = 0
    seconds: float = 0.0
    validated_at: int = 0  # the step of the last validation
    validations_without_gain: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)  # (metric, step), best first
    window: IntervalSums = field(default_factory=IntervalSums)
    corpus: str = ""  # fingerprint of the prepared corpus
    adjustments: Adjustments = Adjustments()
    skipped: int = 0  # steps that changed nothing, since their loss or gradient was not finite
    skipped_in_a_row: int = 0  # of these, the last ones
    rollbacks: int = 0  # to the checkpoint of the next line, since it was written
    rolled_back_to: int = 0


def read_progress(directory: Path) -> Progress:
    """Read how far a checkpoint is.

    Raises DamagedError if it cannot be read, ModelError if another version of the program wrote it.
    """
    file = directory / PROGRESS_FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{file}: damaged: {error}") from None
    try:
        best = [(value, step) for value, step in content.pop("best")]
        window = IntervalSums(**content.pop("window"))
        before = content.pop("care", {})  # the name of "adjustments" in version 0.1.0
        adjustments = Adjustments(**content.pop("adjustments", before))
        return Progress(**content, best=best, window=window, adjustments=adjustments)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{file}: made by another version of nmt, which kept other things: {error}; the model still translates, "
            "but cannot go on learning here: start over with --restart, or choose another run: and let "
            f"train.init_from name {directory}"
        ) from None
