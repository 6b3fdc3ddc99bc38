"""The options of a search, from the recipe's `decode` section and the call, and the rules on the output among them.

A rule lowers logits before the best tokens are chosen. N rows, one for each active hypothesis; B sentences, L length of
the prefix with `<s>`, V vocabulary, G tokens of an n-gram, W n-grams.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from pydantic import model_validator
from torch import Tensor

from nmt.config import DecodeSettings, MaxLength
from nmt.config.section import PositiveInt
from nmt.errors import ConfigError
from nmt.text.tokenizer import BOS, EOS, PAD, UNK


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
    # Token ids that are never generated.
    forbidden: tuple[int, ...] = (PAD, UNK, BOS)
    # Whether log-probabilities are needed; greedy search finds the same tokens without them.
    log_probs: bool = True

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

    @property
    def has_plain_choice(self) -> bool:
        """Whether nothing but the largest logit matters, apart from tokens that no search generates."""
        return not self.log_probs and self.no_repeat_ngram is None and set(self.forbidden) == {PAD, UNK, BOS}

    def penalty(self, length: int) -> float:
        """Return the divisor of a log-probability for an output of this length: ((5 + L) / 6)^α.

        It is positive and does not decrease with L (Wu et al. 2016, eq. 14).
        """
        return float(((5 + length) / 6) ** self.length_penalty)

    def longest_output(self, source_length: int) -> int:
        """Return the length limit of an output for a source of this length: ceil(factor · S) + extra."""
        return math.ceil(self.max_length.factor * source_length) + self.max_length.extra


class Rule(Protocol):
    """A rule may only lower logits, because beam search relies on an upper bound of all extensions.

    A forbidden token gets -inf; its probability is not distributed among the others.
    """

    def apply(self, logits: Tensor, prefixes: Tensor, sentences: Tensor) -> None:
        """Change logits (N, V) in place.

        `prefixes` (N, L) are the tokens generated so far; `sentences` (N) are the indices of the sentences in the
        batch. Both are on the CPU.
        """


def rules_for(options: SearchOptions, prefixes: Sequence[Sequence[int]], limits: Tensor) -> list[Rule]:
    """Return the rules in the order of their application, for required prefixes and longest outputs (B).

    In this order at least one token remains: `</s>`, unless an earlier rule leaves another one.
    """
    rules: list[Rule] = [Forbidden(torch.tensor(options.forbidden, dtype=torch.long))]
    if options.no_repeat_ngram is not None:
        rules.append(NoRepeatedNgram(options.no_repeat_ngram))
    rules.append(EndAt(limits))
    return [BeginWith(prefixes, rules)] if any(prefixes) else rules


@dataclass(frozen=True)
class Forbidden:
    """Forbid some tokens everywhere."""

    tokens: Tensor

    def apply(self, logits: Tensor, prefixes: Tensor, sentences: Tensor) -> None:
        """Set their logits to -inf."""
        logits.index_fill_(1, self.tokens.to(logits.device), float("-inf"))


@dataclass(frozen=True)
class NoRepeatedNgram:
    """Forbid a second occurrence of any run of G tokens (Paulus et al. 2018, section 2.5), `<s>` excluded."""

    size: int

    def apply(self, logits: Tensor, prefixes: Tensor, sentences: Tensor) -> None:
        """Forbid the tokens that followed earlier occurrences of the last G - 1 tokens."""
        length = prefixes.size(-1)
        if length <= self.size:
            return
        ngrams = prefixes[:, 1:].unfold(-1, self.size, 1)  # (N, W, G)
        last = prefixes[:, length - self.size + 1 :].unsqueeze(1)  # (N, 1, G-1)
        rows, places = (ngrams[..., :-1] == last).all(-1).nonzero(as_tuple=True)
        forbidden = ngrams[rows, places, -1]
        logits[rows.to(logits.device), forbidden.to(logits.device)] = float("-inf")


@dataclass(frozen=True)
class EndAt:
    """Maximum lengths (B), `</s>` included: at its limit, a hypothesis can only end."""

    limits: Tensor

    def apply(self, logits: Tensor, prefixes: Tensor, sentences: Tensor) -> None:
        """Forbid all tokens but `</s>` where the limit is reached."""
        rows = (self.limits[sentences] == prefixes.size(-1)).nonzero().squeeze(1).to(logits.device)
        if rows.numel():
            ends = logits[rows, EOS]
            logits[rows] = float("-inf")
            logits[rows, EOS] = ends


@dataclass(frozen=True)
class BeginWith:
    """Required prefixes of the sentences (B): until all their tokens are generated, no other rule applies."""

    required: Sequence[Sequence[int]]
    others: Sequence[Rule]  # for what follows

    def apply(self, logits: Tensor, prefixes: Tensor, sentences: Tensor) -> None:
        """Forbid all tokens but the next required one; where none is left, apply the other rules."""
        place = prefixes.size(-1) - 1
        required = [self.required[sentence] for sentence in sentences.tolist()]
        next_of = [(row, tokens[place]) for row, tokens in enumerate(required) if len(tokens) > place]
        rows, tokens = torch.tensor(next_of, dtype=torch.long, device=logits.device).view(-1, 2).unbind(1)
        kept = logits[rows, tokens]
        for rule in self.others:
            rule.apply(logits, prefixes, sentences)
        logits[rows] = float("-inf")
        logits[rows, tokens] = kept
