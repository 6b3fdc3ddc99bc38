"""When loss or gradient are not finite: the update is skipped, its batch kept, and after some in a row we go back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from nmt.batching.batch import Batch, Group
from nmt.errors import ModelError
from nmt.system.files import replace_text
from nmt.text.tokenizer import Tokenizers
from nmt.training.progress import Progress
from nmt.training.step import Update

MOST_SKIPPED = 5
"""Updates skipped in a row, after which training goes back to the last checkpoint, and on at half the rate."""
MOST_ROLLBACKS = 3
"""Times that it goes back to the same checkpoint."""
_MOST_KEPT = 20
"""Batches kept, so that thousands of skipped updates do not fill the disk."""


class DivergedError(Exception):
    """Training cannot go on from where it is."""


def keep_batches(folder: Path, update: Update, batches: Sequence[Batch], tokenizers: Tokenizers) -> Path:
    """Write what a skipped update was made of, ids and texts, into the folder, unless it is full; return the file."""
    file = folder / f"step-{update.step:08d}.json"
    folder.mkdir(exist_ok=True)
    if len(list(folder.glob("step-*.json"))) < _MOST_KEPT:
        pairs = [pair for batch in batches for group in batch.groups for pair in _pairs(group, tokenizers)]
        figures = {"loss": str(update.loss), "gradient_norm": str(update.gradient_norm)}
        content = {"step": update.step, **figures, "pairs": pairs}
        replace_text(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return file


def _pairs(group: Group, tokenizers: Tokenizers) -> list[dict[str, object]]:
    sources = _unpadded(group.source, tokenizers.source.pad_id)
    targets = _unpadded(group.target_out, tokenizers.target.pad_id)
    return [
        {
            "source": tokenizers.source.decode(source),
            "target": tokenizers.target.decode(target),
            "source_ids": source,
            "target_ids": target,
        }
        for source, target in zip(sources, targets, strict=True)
    ]


def _unpadded(ids: Tensor, pad_id: int) -> list[list[int]]:
    return [[number for number in row if number != pad_id] for row in ids.tolist()]


def check_rollback(progress: Progress, reason: str, skipped: Path) -> None:
    """Raise ModelError if there is no checkpoint to go back to, or if that has been tried often enough."""
    again = progress.rolled_back_to == progress.validated_at
    if not progress.validated_at:
        tried = "there is no checkpoint of a validation to go back to"
    elif again and progress.rollbacks >= MOST_ROLLBACKS:
        tried = (
            f"{MOST_ROLLBACKS} times training has gone back to step {progress.validated_at:,}, "
            f"at last with {progress.adjustments.rate:g} of its rate"
        )
    else:
        return
    raise ModelError(
        f"{reason}, and {tried}: lower train.schedule's rate or lengthen its warmup, and start over with --restart or "
        f"in another run:; skipped batches are in {skipped}, in case there is something odd about them"
    )


def rolled_back(before: Progress, checkpoint: Progress) -> Progress:
    """Return how far a training is that has gone back from `before` to a checkpoint: there, but slower from now on."""
    again = before.rolled_back_to == checkpoint.step
    return replace(
        checkpoint,
        seconds=before.seconds,  # they have passed
        adjustments=replace(before.adjustments, rate=before.adjustments.rate / 2),
        skipped_in_a_row=0,
        rollbacks=before.rollbacks + 1 if again else 1,
        rolled_back_to=checkpoint.step,
    )
