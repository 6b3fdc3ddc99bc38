"""What a search may not say, or not so gladly: rules that change logits before the best are chosen.

N rows, each a hypothesis; B sentences, L length so far with `<s>`, V vocabulary, G tokens of an n-gram, W n-grams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.decoding.hypothesis import Constraints
from nmt.decoding.options import SearchOptions
from nmt.text.tokenizer import EOS


class Rule(Protocol):
    """One rule. It may only lower logits, for the search stops where it can prove that nothing gets better any more.

    What it forbids gets -inf; the probability that it had is shared out among no others.
    """

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Change logits (N, V) in place.

        The rows have said (N, L); sentences (N) are the places of theirs among those asked for. Both are on the CPU.
        """


def rules_for(
    options: SearchOptions, constraints_of: Sequence[Constraints], limits: Tensor, shortest: Tensor
) -> list[Rule]:
    """Return the rules in the order in which they apply, for sentences with demands, longest and shortest outputs (B).

    The order sees to it that there is always something to say: `</s>`, unless a rule before it leaves another token.
    """
    rules: list[Rule] = [Forbidden(options.forbidden)]
    if options.repetition_penalty != 1:
        rules.append(RepetitionPenalty(options.repetition_penalty))
    if options.no_repeat_ngram is not None:
        rules.append(NoRepeatedNgram(options.no_repeat_ngram))
    if bool((shortest > 1).any()):
        rules.append(NoEndBefore(torch.minimum(shortest, limits)))
    rules.append(EndAt(limits))
    if any(constraints.prefix for constraints in constraints_of):
        return [BeginWith([constraints.prefix for constraints in constraints_of], rules)]
    return rules


class Forbidden:
    """Tokens that are never said."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = torch.tensor(tokens, dtype=torch.long)

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid them."""
        logits.index_fill_(1, self._tokens.to(logits.device), float("-inf"))


@dataclass(frozen=True)
class RepetitionPenalty:
    """Say less gladly what was said (Keskar et al. 2019, section 4.1): its logit over θ, or times θ where negative.

    θ is 1 or more, so that this only lowers. How much depends on where the model's logits have their zero.
    """

    penalty: float

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Lower the logits of all tokens said, however often they were."""
        tokens = said[:, 1:].to(logits.device)
        before = logits.gather(-1, tokens)
        logits.scatter_(-1, tokens, torch.where(before > 0, before / self.penalty, before * self.penalty))


@dataclass(frozen=True)
class NoRepeatedNgram:
    """No run of G tokens twice in one hypothesis (Paulus et al. 2018, section 2.5); `<s>` belongs to none."""

    size: int

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid what came after each earlier occurrence of the last G - 1 tokens."""
        length = said.size(-1)
        if length <= self.size:
            return
        ngrams = said[:, 1:].unfold(-1, self.size, 1)  # (N, W, G)
        last = said[:, length - self.size + 1 :].unsqueeze(1)  # (N, 1, G-1)
        rows, places = (ngrams[..., :-1] == last).all(-1).nonzero(as_tuple=True)
        forbidden = ngrams[rows, places, -1]
        logits[rows.to(logits.device), forbidden.to(logits.device)] = float("-inf")


@dataclass(frozen=True)
class NoEndBefore:
    """The shortest outputs, `</s>` included: before that (B), a sentence ends only if there is nothing else to say."""

    shortest: Tensor

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid `</s>` where an output is too short."""
        rows = (self.shortest[sentences] > said.size(-1)).nonzero().squeeze(1).to(logits.device)
        if rows.numel():
            ends = logits[rows, EOS]
            logits[rows, EOS] = float("-inf")
            nothing_else = logits[rows].amax(-1) == float("-inf")
            logits[rows, EOS] = torch.where(nothing_else, ends, float("-inf"))


class EndAt:
    """The longest outputs, `</s>` included: at its limit (B) a sentence can only end."""

    def __init__(self, limits: Tensor) -> None:
        self._limits = limits
        self._soonest = int(limits.min())

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid all but `</s>` where the limit is reached."""
        if said.size(-1) < self._soonest:
            return
        must_end = self._limits[sentences] == said.size(-1)
        if must_end.any():
            rows = must_end.nonzero().squeeze(1).to(logits.device)
            ends = logits[rows, EOS]
            logits[rows] = float("-inf")
            logits[rows, EOS] = ends


class BeginWith:
    """Each sentence's prefix: until all of it is said, it is the only way on, whatever the other rules say."""

    def __init__(self, prefixes: Sequence[Sequence[int]], others: Sequence[Rule]) -> None:
        self._others = others
        self._lengths = torch.tensor([len(prefix) for prefix in prefixes])
        self._prefixes = torch.zeros(len(prefixes), int(self._lengths.max()), dtype=torch.long)  # (B, longest)
        for row, prefix in zip(self._prefixes, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid all but the prefix's next token where there is one; elsewhere apply the other rules."""
        length = said.size(-1)
        rows = (self._lengths[sentences] >= length).nonzero().squeeze(1)
        place = min(length, self._prefixes.size(1)) - 1  # beyond the longest prefix there are no rows
        tokens, rows = (index.to(logits.device) for index in (self._prefixes[sentences[rows], place], rows))
        kept = logits[rows, tokens]
        for rule in self._others:
            rule.apply(logits, said, sentences)
        logits[rows] = float("-inf")
        logits[rows, tokens] = kept
