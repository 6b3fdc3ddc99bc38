"""The options of a search: the recipe's `decode` section with the values that a call adds."""

import math
from typing import Self

from pydantic import model_validator

from nmt.config import DecodeSettings, MaxLength
from nmt.config.section import PositiveInt
from nmt.errors import ConfigError
from nmt.text.tokenizer import BOS, EOS, PAD, UNK


class SearchOptions(DecodeSettings):
    """Decode settings of one search, complete and checked against each other. Lengths count `</s>`.

    Keys, bounds and defaults are those of `DecodeSettings`. With `sampling`, `n_best` samples are drawn and `beam` has
    no effect. Raises ConfigError if two values contradict each other.
    """

    max_length: MaxLength = MaxLength()
    """The longest translation. A model without a limit gets the default one."""
    batch_tokens: PositiveInt = 8192
    n_best: int = 1
    """Number of hypotheses to return for each sentence."""
    forbidden: tuple[int, ...] = (PAD, UNK, BOS)
    """Token ids that are never generated."""
    log_probs: bool = True
    """Whether log-probabilities are needed; greedy search finds the same tokens without them."""

    @classmethod
    def from_settings(cls, settings: DecodeSettings, n_best: int = 1) -> Self:
        """Return the options for the `decode` section of a recipe or a model."""
        values = {key: value for key, value in settings if value is not None}
        return cls.model_validate({**values, "n_best": n_best})

    @model_validator(mode="after")
    def _check(self) -> Self:
        assert EOS not in self.forbidden, "no hypothesis could end"
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
