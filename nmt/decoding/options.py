"""What to search for: width, how lengths are compared, what may be said, where a sentence must end."""

import math
from dataclasses import dataclass
from typing import Literal

from nmt.config import DecodeSettings, MaxLength, Sampling
from nmt.errors import ConfigError
from nmt.text.tokenizer import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search, checked once. A length L counts target tokens with `</s>`, which every result ends in.

    The longest output for S source tokens, `</s>` included too, is `limit(S) = ceil(length_factor · S) + length_extra`,
    the shortest `shortest(S) = ceil(min_length · S)`. With `sampling` there is no beam: `n_best` samples are drawn.
    Raises ConfigError where a value is impossible.
    """

    beam: int = 5
    n_best: int = 1
    length_penalty: float = 1.0
    length_normalization: Literal["gnmt", "average"] = "gnmt"
    length_factor: float = 2.0
    length_extra: int = 10
    forbidden: tuple[int, ...] = (PAD, UNK, BOS)
    min_length: float = 0.0
    no_repeat_ngram: int | None = None
    repetition_penalty: float = 1.0
    coverage_penalty: float = 0.0
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        problems = [
            (not 1 <= self.beam <= 1000, f"decode.beam: found {self.beam}, expected 1 to 1000"),
            (self.n_best < 1, f"--n-best: found {self.n_best}, expected 1 or more"),
            (
                self.n_best > self.beam and self.sampling is None,
                f"--n-best: found {self.n_best}, but a beam of {self.beam} finds no more than that; widen the beam",
            ),
            (
                not 0 <= self.length_penalty <= 10,  # more than that no float can hold
                f"decode.length_penalty: found {self.length_penalty}, expected 0 to 10",
            ),
            (self.length_factor < 0 or self.length_extra < 1, "the longest output must be 1 token or more"),
            (
                not 0 <= self.min_length <= max(0, self.length_factor),
                f"decode.min_length: found {self.min_length}, but the longest output has {self.length_factor:g} tokens "
                "per source token; lower it, or raise decode.max_length.factor",
            ),
            (
                self.no_repeat_ngram is not None and self.no_repeat_ngram < 1,
                f"decode.no_repeat_ngram: found {self.no_repeat_ngram}, expected 1 or more tokens, or null",
            ),
            (
                not 1 <= self.repetition_penalty <= 100,
                f"decode.repetition_penalty: found {self.repetition_penalty}, expected 1 (none) to 100",
            ),
            (
                not 0 <= self.coverage_penalty <= 10,
                f"decode.coverage_penalty: found {self.coverage_penalty}, expected 0 (none) to 10",
            ),
            (EOS in self.forbidden, "</s> cannot be forbidden: no output would end"),
        ]
        for wrong, message in problems:
            if wrong:
                raise ConfigError(message)

    @classmethod
    def from_settings(cls, settings: DecodeSettings, n_best: int = 1) -> "SearchOptions":
        """Take what the recipe says, and where it says nothing of the longest output, twice the source and ten."""
        longest = settings.max_length or MaxLength()
        return cls(
            beam=settings.beam,
            n_best=n_best,
            length_penalty=settings.length_penalty,
            length_normalization=settings.length_normalization,
            length_factor=longest.factor,
            length_extra=longest.extra,
            forbidden=(PAD, BOS) if settings.unknown == "copy" else (PAD, UNK, BOS),
            min_length=settings.min_length,
            no_repeat_ngram=settings.no_repeat_ngram,
            repetition_penalty=settings.repetition_penalty,
            coverage_penalty=settings.coverage_penalty,
            sampling=settings.sampling,
        )

    @property
    def width(self) -> int:
        """How many hypotheses of a sentence grow at a time."""
        return self.beam if self.sampling is None else self.n_best

    def penalty(self, length: int) -> float:
        """Return what a log-probability of that length is divided by.

        gnmt: ((5 + L) / 6)^α (Wu et al. 2016, eq. 14); average: L^α. Both are positive and never fall as L grows.
        """
        base = (5 + length) / 6 if self.length_normalization == "gnmt" else length
        return float(base**self.length_penalty)

    def limit(self, source_length: int) -> int:
        """Return the longest output, `</s>` included, for a source of so many tokens."""
        return math.ceil(self.length_factor * source_length) + self.length_extra

    def shortest(self, source_length: int) -> int:
        """Return the shortest output, `</s>` included, for a source of so many tokens; it is within the limit."""
        return math.ceil(self.min_length * source_length)
