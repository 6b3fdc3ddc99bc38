"""The options of a search, from the recipe's `decode` section and the call, and the rules on the output among them.

Rules set logits to -inf before the best tokens are chosen. N rows, one for each hypothesis; P positions of its tokens,
V vocabulary, G tokens of an n-gram, W n-grams.
"""

import math
from typing import NamedTuple, Self

import torch
from pydantic import model_validator
from torch import Tensor

from nmt.config import DecodeSettings, MaxLength
from nmt.config.section import PositiveInt
from nmt.errors import ConfigError
from nmt.kernels.reference import forbid
from nmt.text.tokenizer import PAD


class SearchOptions(DecodeSettings):
    """Decode settings of one search, complete and checked against each other. Lengths count `</s>`.

    Keys, bounds and defaults are those of `DecodeSettings`. With `sampling`, `n_best` samples are drawn and `beam` has
    no effect. Raises ConfigError if two values contradict each other.
    """

    # The longest translation. A model without a limit gets the default one.
    max_length: MaxLength = MaxLength()
    batch_tokens: PositiveInt = 8192
    # Number of hypotheses to return for each sentence.
    n_best: int = 1
    # Whether log-probabilities are needed; greedy search finds the same tokens without them.
    log_probs: bool = True

    @classmethod
    def from_settings(cls, settings: DecodeSettings, n_best: int = 1) -> Self:
        """Return the options for the `decode` section of a recipe or a model."""
        values = {key: value for key, value in settings if value is not None}
        return cls.model_validate({**values, "n_best": n_best})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_best < 1:
            raise ConfigError(f"--n-best: found {self.n_best}, expected 1 or more")
        if self.n_best > self.beam and self.sampling is None:
            raise ConfigError(
                f"--n-best: found {self.n_best}, but a beam of {self.beam} returns at most {self.beam}; widen the beam"
            )
        return self

    @property
    def width(self) -> int:
        """Number of hypotheses of a sentence that are extended at a time."""
        return self.beam if self.sampling is None else self.n_best

    def penalty(self, length: int) -> float:
        """Return the divisor of a log-probability for an output of this length: ((5 + L) / 6)^α.

        It is positive and does not decrease with L (Wu et al. 2016, eq. 14).
        """
        return float(((5 + length) / 6) ** self.length_penalty)

    def longest_output(self, source_length: int) -> int:
        """Return the length limit of an output for a source of this length: ceil(factor · S) + extra."""
        return math.ceil(self.max_length.factor * source_length) + self.max_length.extra


class Prefixes(NamedTuple):
    """The hypotheses that logits follow."""

    tokens: Tensor  # (N, P) with `<s>`; anything behind their lengths
    lengths: Tensor  # (N)
    must_end: Tensor  # (N) whether the longest output is reached
    required: Tensor | None  # (N) the next token of a required prefix, -1 where none is left; None: there are none


def apply_rules(logits: Tensor, prefixes: Prefixes, no_repeat_ngram: int | None) -> None:
    """Set the logits (N, V) of tokens that may not be generated to -inf, in place.

    A rule only lowers logits, because beam search relies on an upper bound of all extensions; the probability of a
    forbidden token is not distributed among the others. At least one token remains: `</s>`, because no n-gram contains
    it, or the required one, for which no other rule applies.
    """
    required = None if prefixes.required is None else prefixes.required.unsqueeze(1)
    before = None if required is None else logits.gather(1, required.clamp(min=0))
    if no_repeat_ngram is not None:
        _forbid_repeated(logits, prefixes, no_repeat_ngram)
    forbid(logits, prefixes.must_end)
    if required is not None and before is not None:
        logits.masked_fill_(required >= 0, -torch.inf)
        kept = torch.where(required >= 0, before, logits.gather(1, required.clamp(min=0)))
        logits.scatter_(1, required.clamp(min=0), kept)


def _forbid_repeated(logits: Tensor, prefixes: Prefixes, size: int) -> None:
    """Forbid a second occurrence of any run of G tokens (Paulus et al. 2018, section 2.5), `<s>` excluded."""
    tokens, lengths = prefixes.tokens.long(), prefixes.lengths.unsqueeze(1)
    if tokens.size(1) <= size:
        return
    ngrams = tokens[:, 1:].unfold(1, size, 1)  # (N, W, G)
    at = lengths - torch.arange(size - 1, 0, -1, device=tokens.device)  # (N, G-1) of the last tokens
    last = tokens.gather(1, at.clamp(min=0)).unsqueeze(1)
    complete = torch.arange(ngrams.size(1), device=tokens.device) + size < lengths  # (N, W) all of it is generated
    repeats = (ngrams[..., :-1] == last).all(2) & complete
    # padding is never generated anyway
    logits.scatter_(1, torch.where(repeats, ngrams[..., -1], PAD), -torch.inf)
