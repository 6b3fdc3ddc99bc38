"""The options of a search, from the recipe's `decode` section and the call."""

import math
from typing import Self

from pydantic import model_validator

from nmt.config import DecodeSettings, MaxLength
from nmt.config.section import PositiveInt
from nmt.errors import ConfigError
from nmt.kernels.native import SearchRules

MARGIN = 2.0  # a hypothesis whose log-probability is lower than the best one's by more than this is improbable
GROWTH = 4  # that one becomes longer by more than a quarter of its length is improbable, too


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

    def limit(self, source_length: int, longest: int, prefix: int = 0) -> int:
        """Return the length limit with a prefix, of a model that generates up to so many tokens."""
        return min(self.longest_output(source_length), max(1, longest - prefix)) + prefix

    @property
    def is_plain(self) -> bool:
        """Whether the best tokens of each step are chosen, by no other rule than a length limit."""
        return self.sampling is None and self.no_repeat_ngram is None

    def rules(self, longest: int) -> SearchRules:
        """Return what a step is computed with, for outputs of up to so many tokens."""
        penalties = [self.penalty(length) for length in range(longest + 1)]
        margin = math.inf if self.exact else MARGIN
        return SearchRules(penalties, margin, GROWTH, self.beam == 1, self.log_probs)
