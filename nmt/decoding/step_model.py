"""What a search asks of a model: one step after the other for a batch of sentences.

N rows, each the newest token of one hypothesis; the rows of a sentence stand together, in the order of the sentences.
B sentences, K the most rows of a sentence, S source length, V vocabulary.
"""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor


class DecoderState(Protocol):
    """A batch that is being translated, with what the model remembers of it; it begins with one row a sentence."""

    def step(self, tokens: Tensor) -> Iterator[Tensor]:
        """Read the newest token of each row (N); yield logits of the next, free to be changed.

        They come a block of rows at a time, (n, V) each, in order: so they can be dealt with while the processor still
        has them at hand, and all of them together are never in the memory.
        """

    def select(self, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, for rows (N') of sentences in order, K a sentence at most."""


class StepModel(Protocol):
    """A model, or several that speak with one voice."""

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have; None for any number."""

    @property
    def device(self) -> torch.device:
        """Where tokens and rows must be."""

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> DecoderState:
        """Read source ids (B, S) and their mask (B, S), True at tokens; None if nothing is padded. K is the beam."""
