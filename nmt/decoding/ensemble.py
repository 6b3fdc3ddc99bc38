"""Several models that translate together: the probability of a token is the mean of theirs.

N rows, each the newest token of a hypothesis; B sentences, S source length, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt.decoding.step_model import DecoderState, StepModel
from nmt.errors import ModelError
from nmt.model.checkpoint import LoadedModel


class Ensemble:
    """A decoder made of decoders that have the same vocabularies and are on the same device."""

    def __init__(self, members: Sequence[StepModel]) -> None:
        self.members = members

    @property
    def longest(self) -> int | None:
        """The most tokens that all of them can read and say."""
        return min((member.longest for member in self.members if member.longest is not None), default=None)

    @property
    def device(self) -> torch.device:
        """Where all of them are."""
        return self.members[0].device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> DecoderState:
        """Let each of them read the source ids (B, S)."""
        return EnsembleSteps([member.start(source, source_mask, beam) for member in self.members])


@dataclass(frozen=True)
class EnsembleSteps:
    """A batch that all of them translate, with what each remembers of it."""

    members: Sequence[DecoderState]

    def step(self, tokens: Tensor) -> Iterator[Tensor]:
        """Read the newest tokens (N); yield log(Σₘ pₘ / n), (n, V) for n rows at a time: logits of normalizer 0."""
        for blocks in zip(*(member.step(tokens) for member in self.members), strict=True):
            mean, *others = (block.float().log_softmax(-1) for block in blocks)
            for other in others:
                torch.logaddexp(mean, other, out=mean)
            yield mean.sub_(math.log(len(self.members)))

    def select(self, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, for rows (N')."""
        for member in self.members:
            member.select(rows)


def check_same_vocabulary(directories: Sequence[Path], models: Sequence[LoadedModel]) -> None:
    """Raise ModelError if the tokenizers of a model are not, to the byte, those of the first."""
    first = models[0].tokenizers
    for directory, model in zip(directories[1:], models[1:], strict=True):
        for side in ("source", "target"):
            if getattr(model.tokenizers, side).to_bytes() != getattr(first, side).to_bytes():
                raise ModelError(
                    f"--model {directory}: its {side} tokenizer is not that of {directories[0]}, so their tokens do "
                    "not mean the same; models that translate together must be trained from one prepared corpus"
                )
