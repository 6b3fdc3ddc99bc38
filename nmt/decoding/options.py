"""The options of a search, from the recipe's `decode` section and the call."""

import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from pydantic import model_validator

from nmt.config import DecodeSettings, MaxLength
from nmt.config.section import PositiveInt
from nmt.errors import ConfigError
from nmt.kernels.constant_products import Floats
from nmt.kernels.machine import seed_for
from nmt.kernels.native_search import SearchRules

# unless a search is exact: hypotheses whose log-probability is lower than that of the n-th best by more than the margin
# are dropped, and no hypothesis is expected to become longer by more than a quarter of its length
MARGIN = 2.0
GROWTH_DIVISOR = 4


class SearchOptions(DecodeSettings):
    """Decode settings of one search, complete and checked against each other. Lengths count `</s>`.

    Keys, bounds and defaults are those of `DecodeSettings`. With `sampling`, `n_best` samples are drawn and `beam` has
    no effect. Raises ConfigError if two values contradict each other.
    """

    max_length: MaxLength = MaxLength()  # for a model without a limit, the default one
    batch_tokens: PositiveInt = 8192
    n_best: int = 1  # hypotheses to return for each sentence
    log_probs: bool = True  # whether they are needed; greedy search finds the same tokens without them

    @classmethod
    def from_settings(cls, settings: DecodeSettings, n_best: int = 1) -> Self:
        """Return the options for the `decode` section of a recipe or a model."""
        values = {key: value for key, value in settings if value is not None}
        return cls.model_validate({**values, "n_best": n_best})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_best < 1:
            raise ConfigError(f"n_best: found {self.n_best}, expected 1 or more")
        if self.n_best > self.beam and self.sampling is None:
            raise ConfigError(
                f"n_best: found {self.n_best}, but a beam of {self.beam} returns at most {self.beam}; widen the beam"
            )
        return self

    @property
    def width(self) -> int:
        """Number of hypotheses of a sentence that are extended at a time."""
        return self.beam if self.sampling is None else self.n_best

    @property
    def changes_logits(self) -> bool:
        """Whether a rule needs the logits of all tokens in each step, not only the best ones."""
        return self.no_repeat_ngram is not None or self.sampling is not None

    def penalty(self, length: int) -> float:
        """Return the divisor of a log-probability for an output of this length: ((5 + L) / 6)^α.

        It is positive and does not decrease with L (Wu et al. 2016, eq. 14).
        """
        return float(((5 + length) / 6) ** self.length_penalty)

    def longest_output(self, source_length: int) -> int:
        """Return the length limit of an output for a source of this length: ceil(factor · S) + extra."""
        return math.ceil(self.max_length.factor * source_length) + self.max_length.extra

    def limit(self, source_length: int, longest: int, prefix: int = 0) -> int:
        """Return the length limit with a prefix, for a model that generates up to `longest` tokens."""
        return min(self.longest_output(source_length), max(1, longest - prefix)) + prefix

    def rules(self, longest: int) -> SearchRules:
        """Return the parameters of a search step, for outputs of up to `longest` tokens."""
        rules = SearchRules(
            penalties=[self.penalty(length) for length in range(longest + 1)],
            margin=math.inf if self.exact else MARGIN,
            growth_divisor=GROWTH_DIVISOR,
            extends_each=self.beam == 1,
            log_probs=self.log_probs or self.beam > 1,
            no_repeat_ngram=self.no_repeat_ngram or 0,
        )
        if (drawn := self.sampling) is None:
            return rules
        return rules._replace(extends_each=True, log_probs=True, temperature=drawn.temperature, top_p=drawn.top_p)

    def noise(self, sentences: Sequence[Sequence[int]], limits: Sequence[int]) -> Floats | None:
        """Return a number in [0, 1) for each sentence, sample and position (B, K, T), 0 beyond a limit.

        It is a function of the source ids and the indices of sample and position only: a sentence gets the same samples
        in any batch. (Philox, Salmon et al. 2011, is a counter-based generator.) None without sampling.
        """
        if self.sampling is None:
            return None
        noise = np.zeros((len(sentences), self.width, max(limits)), np.float32)
        for row, ids, limit in zip(noise, sentences, limits, strict=True):
            for sample, numbers in enumerate(row):
                key = seed_for("sampling", sample, *ids)
                numbers[:limit] = np.random.Generator(np.random.Philox(key=key)).random(limit, dtype=np.float32)
        return noise
