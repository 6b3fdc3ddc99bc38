"""The interface between a search and a model, and an ensemble of models behind the same interface.

N rows, one for each active hypothesis, sentence by sentence in the order of the batch. B sentences, K beam, S source
length, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from nmt.errors import ModelError
from nmt.model.checkpoint import LoadedModel


class DecoderState(Protocol):
    """The state of a model that decodes a batch; it begins with one row for each sentence."""

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest token of each row (N); return the logits of the next, (N, V), for the caller to overwrite."""

    def select(self, rows: Tensor) -> None:
        """Make row i continue row `rows[i]`, for rows (N') in the order of the sentences, at most K of each."""


class StepModel(Protocol):
    """A model that predicts the next token of many hypotheses."""

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence, `</s>` included; None without a limit."""

    @property
    def device(self) -> torch.device:
        """Where tokens and rows must be."""

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> DecoderState:
        """Encode source ids (B, S) with their mask (B, S), True at tokens; None if nothing is padded. K is the beam."""


def step_model(models: Sequence[StepModel]) -> StepModel:
    """Return a model as it is, several as an ensemble."""
    return models[0] if len(models) == 1 else Ensemble(models)


class Ensemble:
    """Models with the same vocabularies, on the same device: the probability of a token is the mean of theirs."""

    def __init__(self, members: Sequence[StepModel]) -> None:
        self.members = members

    @property
    def longest(self) -> int | None:
        """The most tokens that all members accept."""
        return min((member.longest for member in self.members if member.longest is not None), default=None)

    @property
    def device(self) -> torch.device:
        """Where all members are."""
        return self.members[0].device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> DecoderState:
        """Encode the source ids (B, S) with each member."""
        return EnsembleState([member.start(source, source_mask, beam) for member in self.members])


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members for one batch."""

    members: Sequence[DecoderState]

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest tokens (N); return log(Σₘ pₘ / M), (N, V): logits of normalizer 0."""
        mean, *others = (member.step(tokens).float().log_softmax(-1) for member in self.members)
        for other in others:
            torch.logaddexp(mean, other, out=mean)
        return mean.sub_(math.log(len(self.members)))

    def select(self, rows: Tensor) -> None:
        """Make row i continue row `rows[i]`, for rows (N')."""
        for member in self.members:
            member.select(rows)


def check_same_vocabulary(directories: Sequence[Path], models: Sequence[LoadedModel]) -> None:
    """Raise ModelError if the tokenizers of a model are not, byte for byte, those of the first one."""
    for directory, model in zip(directories[1:], models[1:], strict=True):
        if side := models[0].tokenizers.different_side(model.tokenizers):
            raise ModelError(
                f"--model {directory}: its {side} tokenizer is not that of {directories[0]}, so their token ids do not "
                "mean the same; models that translate together must be trained from one prepared corpus"
            )
