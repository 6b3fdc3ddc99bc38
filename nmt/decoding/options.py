"""What to search for: width, how lengths are compared, where a sentence must end."""

import math
from dataclasses import dataclass
from typing import Literal

from nmt.config import DecodeSettings
from nmt.errors import ConfigError
from nmt.text.tokenizer import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search, checked once. A length L counts target tokens with `</s>`, which every result ends in.

    `limit(S) = ceil(length_factor · S) + length_extra` is the longest output for S source tokens.
    Raises ConfigError where a value is impossible.
    """

    beam: int = 5
    n_best: int = 1
    length_penalty: float = 1.0
    length_normalization: Literal["gnmt", "average"] = "gnmt"
    length_factor: float = 2.0
    length_extra: int = 10
    forbidden: tuple[int, ...] = (PAD, UNK, BOS)

    def __post_init__(self) -> None:
        problems = [
            (not 1 <= self.beam <= 1000, f"decode.beam: found {self.beam}, expected 1 to 1000"),
            (self.n_best < 1, f"n-best: found {self.n_best}, expected 1 or more"),
            (
                self.n_best > self.beam,
                f"n-best: found {self.n_best}, but a beam of {self.beam} finds no more than that; widen the beam",
            ),
            (
                not 0 <= self.length_penalty <= 10,  # more than that no float can hold
                f"decode.length_penalty: found {self.length_penalty}, expected 0 to 10",
            ),
            (self.length_factor < 0 or self.length_extra < 1, "the longest output must be 1 token or more"),
            (EOS in self.forbidden, "</s> cannot be forbidden: no output would end"),
        ]
        for wrong, message in problems:
            if wrong:
                raise ConfigError(message)

    @classmethod
    def from_settings(cls, settings: DecodeSettings, n_best: int = 1) -> "SearchOptions":
        """Take what the recipe says."""
        return cls(
            beam=settings.beam,
            n_best=n_best,
            length_penalty=settings.length_penalty,
            length_normalization=settings.length_normalization,
        )

    def penalty(self, length: int) -> float:
        """Return what a log-probability of that length is divided by.

        gnmt: ((5 + L) / 6)^α (Wu et al. 2016, eq. 14); average: L^α. Both are positive and never fall as L grows.
        """
        base = (5 + length) / 6 if self.length_normalization == "gnmt" else length
        return float(base**self.length_penalty)

    def limit(self, source_length: int) -> int:
        """Return the longest output, `</s>` included, for a source of so many tokens."""
        return math.ceil(self.length_factor * source_length) + self.length_extra
