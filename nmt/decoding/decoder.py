"""What a search asks of a model: one step after the other for a batch of sentences with K hypotheses each.

B sentences still searched, K beam, S source length, V vocabulary.
"""

from typing import Protocol

import torch
from torch import Tensor


class Steps(Protocol):
    """A batch that is being translated, with what the model remembers of it."""

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest token of each hypothesis (B, K); return logits of the next (B, K, V), free to be changed."""

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of each sentence continue its hypothesis parents[b, k]; parents (B, K)."""

    def keep(self, sentences: Tensor) -> None:
        """Let go of all sentences but these, (B') in the order that they shall have."""


class Decoder(Protocol):
    """A model, or several that speak with one voice."""

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have; None for any number."""

    @property
    def device(self) -> torch.device:
        """Where tokens must be."""

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> Steps:
        """Read source ids (B, S) and their mask (B, S), True at tokens; None if nothing is padded."""
