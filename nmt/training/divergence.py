"""Divergence: skip updates that are not finite and keep their batches, roll back after several in a row, warn early."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.batching.batch import Batch
from nmt.errors import ModelError
from nmt.system.files import write_output
from nmt.text.tokenizer import PAD, Tokenizers
from nmt.training.progress import Progress

# updates skipped in a row, after which training returns to the last checkpoint and continues at half the rate
MAX_SKIPPED = 5
MAX_ROLLBACKS = 3  # rollbacks to the same checkpoint
_MAX_KEPT = 20  # batches kept, so that thousands of skipped updates do not fill the disk


class DivergedError(Exception):
    """Training cannot continue from the current weights."""


class DivergenceMonitor:
    """Recognises a loss that is finite but rises far above that of a uniform prediction, or above its own minimum."""

    def __init__(self, vocabulary: int) -> None:
        self._uniform = math.log(vocabulary)
        self._lowest = math.inf
        self._warned = False

    def warning(self, likelihood: float) -> str | None:
        """Return a warning about a mean negative log-likelihood per token, in nats, once for each rise; else None."""
        self._lowest = min(self._lowest, likelihood)
        limit = min(2 * self._uniform, self._lowest + self._uniform)
        warned_before, self._warned = self._warned, likelihood > limit
        if warned_before or not self._warned:
            return None
        return (
            f"training diverges: {likelihood:,.1f} nats per token, after {self._lowest:,.1f} at best (a uniform "
            f"prediction has {self._uniform:.1f}); lower train.schedule's rate or lengthen its warmup"
        )


def write_batches(folder: Path, results: dict[str, Any], batches: Sequence[Batch], tokenizers: Tokenizers) -> Path:
    """Write a skipped update's results and pairs, ids and texts, into a folder unless it is full; return the file."""
    file = folder / f"step-{results['step']:08d}.json"
    folder.mkdir(exist_ok=True)
    if len(list(folder.glob("step-*.json"))) < _MAX_KEPT:
        pairs = []
        for group in [group for batch in batches for group in batch.groups]:
            for source, target in zip(_unpadded(group.source), _unpadded(group.target_out), strict=True):
                texts = {"source": tokenizers.source.decode(source), "target": tokenizers.target.decode(target)}
                pairs.append({**texts, "source_ids": source, "target_ids": target})
        write_output(file, json.dumps({**results, "pairs": pairs}, indent=1, ensure_ascii=False) + "\n")
    return file


def _unpadded(ids: Tensor) -> list[list[int]]:
    return [[number for number in row if number != PAD] for row in ids.tolist()]


def check_rollback(progress: Progress, reason: str, skipped: Path) -> None:
    """Raise ModelError if there is no checkpoint to return to, or after too many rollbacks to it."""
    if not progress.validated_at:
        tried = "there is no checkpoint of a validation to return to"
    elif progress.rolled_back_to == progress.validated_at and progress.rollbacks >= MAX_ROLLBACKS:
        tried = (
            f"training has returned to step {progress.validated_at:,} {MAX_ROLLBACKS} times, "
            f"the last time with {progress.adjustments.rate:g} of its rate"
        )
    else:
        return
    raise ModelError(
        f"{reason}, and {tried}: lower train.schedule's rate or lengthen its warmup, and start over with --restart or "
        f"with 'run' set to another folder; skipped batches are in {skipped}, in case their text is the cause"
    )


def rolled_back(before: Progress, checkpoint: Progress) -> Progress:
    """Return the progress after a rollback from `before` to a checkpoint: the checkpoint's, at half the rate."""
    again = before.rolled_back_to == checkpoint.step
    return replace(
        checkpoint,
        seconds=before.seconds,
        adjustments=replace(before.adjustments, rate=before.adjustments.rate / 2),
        skipped_in_a_row=0,
        rollbacks=before.rollbacks + 1 if again else 1,
        rolled_back_to=checkpoint.step,
    )
