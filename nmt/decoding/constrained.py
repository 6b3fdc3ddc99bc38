"""Beam search for sentences whose translation must hold given phrases, each in one piece.

Dynamic beam allocation (Post & Vilar 2018, Hu et al. 2019): hypotheses compete only with those that have said as many
tokens of the phrases, their bank; the banks share the beam alike, and what an empty bank does not use goes to others.
So a hypothesis that has paid for an improbable phrase is not thrown out by one that has put it off.

B sentences, N rows: the hypotheses of all of them that still grow. L length so far with `<s>`, V vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, zip_longest

import torch
from torch import Tensor

from nmt.decoding.hypothesis import BestFinished, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.decoding.step_model import DecoderState
from nmt.decoding.topk import largest, normalizers
from nmt.text.tokenizer import BOS, EOS

WIDEST = 16
"""The beam grows with the tokens of the phrases up to this: so many other tokens may still stand between them."""

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """How much of its phrases a hypothesis has said.

    >>> Progress(missing=((7, 8), (9,))).after(7).after(8)
    Progress(missing=((9,),), begun=(), met=2, closed=True)
    """

    missing: tuple[Phrase, ...]
    """Phrases that it has not said; each is said with tokens of its own, one that is asked for twice twice."""
    begun: Phrase = ()
    """The longest end of what it has said that begins a missing phrase."""
    met: int = 0
    """Tokens of the phrases that it has said."""
    closed: bool = False
    """Whether a phrase ended with its last token, be it the start of a longer one."""

    def after(self, token: int) -> "Progress":
        """Return the progress with one more token: as in Aho & Corasick 1975, no more need be known than `begun`.

        Of phrases that begin alike or stand in each other the longest is followed. Only when nothing comes of it do the
        shorter ones count that were said on the way: so each wanted token leaves one less that is needed.
        """
        if not self.begun and token not in self.wanted:
            return self._open  # almost all tokens; a line of tags may have a hundred phrases
        said = (*self.begun, token)
        if any(_begins(phrase, said) for phrase in self.missing):
            return Progress(self.missing, said, self.met, closed=said in self.missing)
        ended = max((phrase for phrase in self.missing if said[: len(phrase)] == phrase), key=len, default=())
        place = self.missing.index(ended) if ended else len(self.missing)
        missing = self.missing[:place] + self.missing[place + 1 :]
        progress = Progress(missing, (), self.met + len(ended), closed=bool(ended))
        for later in said[len(ended) or 1 :]:
            progress = progress.after(later)
        return progress

    @property
    def bank(self) -> int:
        """Return how many tokens of the phrases are said, those of a phrase in the making included."""
        return self.met + len(self.begun)

    @cached_property
    def wanted(self) -> set[int]:
        """Return the tokens that bring a phrase further."""
        return {phrase[len(self.begun)] for phrase in self.missing if _begins(phrase, self.begun)}

    @cached_property
    def needed(self) -> int:
        """Return how many tokens it takes to say the rest."""
        return sum(map(len, self.missing)) - len(self.begun)

    @cached_property
    def _open(self) -> "Progress":
        """The same, but with a last token that is not a phrase's."""
        return Progress(self.missing, (), self.met) if self.closed else self


@dataclass(frozen=True, slots=True)
class _Growing:
    """A hypothesis: its tokens and their log-probabilities."""

    tokens: tuple[int, ...]
    steps: tuple[float, ...]
    total: float
    progress: Progress


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A way to go on: hypothesis `parent` with one more token."""

    total: float
    step: float
    parent: int
    token: int
    progress: Progress


class _Sentence:
    """One sentence's search, which decides on Python objects: such sentences are few."""

    def __init__(self, place: int, constraints: Constraints, limit: int, options: SearchOptions) -> None:
        self.place, self._demand, self._limit, self._options = place, constraints, limit, options
        self._width = beam_width([constraints], options)
        self.live = [_Growing((), (), 0.0, Progress(constraints.phrases))]
        self.finished = BestFinished(options.n_best)

    def wanted(self) -> list[tuple[int, int]]:
        """Return (hypothesis, token) for all tokens that bring a phrase further, where one may be said now."""
        if self._in_prefix or self._room < 0:
            return []
        return [
            (parent, token)
            for parent, hypothesis in enumerate(self.live)
            for token in sorted(hypothesis.progress.wanted)
        ]

    def grow(self, candidates: Iterable[tuple[float, int, int]], wanted: Sequence[tuple[float, int, int]]) -> list[int]:
        """Go on with the best of (log_prob, parent, token), and return the parents; end what can end."""
        known = {(parent, token) for _, parent, token in wanted}
        ways = [self._way(*forward) for forward in wanted]
        others = (self._way(*candidate) for candidate in candidates if candidate[1:] not in known)
        ways += [way for way in others if self._allowed(way)]
        ways = [way for way in ways if way.step > -torch.inf]
        ways.sort(key=lambda way: -way.total)  # stable: equals rank by parent
        going_on: list[_Candidate] = []
        for rank, way in enumerate(_allocated(ways)):
            if way.token != EOS and len(going_on) < self._width:
                going_on.append(way)
            elif way.token == EOS and rank < self._width:
                self._finish(way)
        parents = [way.parent for way in going_on]
        self.live = [
            _Growing((*parent.tokens, way.token), (*parent.steps, way.step), way.total, way.progress)
            for parent, way in zip([self.live[parent] for parent in parents], going_on, strict=True)
        ]
        return parents

    @property
    def done(self) -> bool:
        """Whether nothing that grows can be among the n best: the bound of the plain beam, see there, holds here too.

        What becomes of log-probability s ≤ 0 ends at s / penalty(limit) or below, whatever it has yet to say.
        """
        lost = self.finished.worst * self._options.penalty(self._limit)
        return all(hypothesis.total <= lost for hypothesis in self.live)

    @property
    def _in_prefix(self) -> bool:
        return len(self.live[0].tokens) < len(self._demand.prefix)

    @property
    def _room(self) -> int:
        """How many tokens may come between the next and `</s>`; -1 where the next must be `</s>`."""
        return self._limit - len(self.live[0].tokens) - 2

    def _way(self, step: float, parent: int, token: int) -> _Candidate:
        hypothesis = self.live[parent]
        return _Candidate(hypothesis.total + step, step, parent, token, hypothesis.progress.after(token))

    def _allowed(self, way: _Candidate) -> bool:
        """Whether a token leaves room for what is missing; at the limit `</s>` comes whatever is missing."""
        if self._in_prefix or self._room < 0:
            return True
        if way.token == EOS:
            return not way.progress.missing
        glued = self.live[way.parent].progress.closed and way.token in self._demand.apart
        return not glued and way.progress.needed <= self._room

    def _finish(self, way: _Candidate) -> None:
        parent = self.live[way.parent]
        steps = [*parent.steps, way.step]
        normalized = way.total / self._options.penalty(len(steps))
        self.finished.add(Hypothesis(list(parent.tokens), way.total, steps, normalized))


def beam_width(constraints_of: Sequence[Constraints], options: SearchOptions) -> int:
    """Return how many hypotheses a sentence with these demands takes: one a bank, if there are not too many."""
    tokens = max((constraints.phrase_tokens for constraints in constraints_of), default=0)
    return max(options.beam, min(tokens + 1, WIDEST)) if tokens else options.beam


def constrained_search(
    steps: DecoderState,
    device: torch.device,
    limits: Tensor,
    rules: Sequence[Rule],
    constraints_of: Sequence[Constraints],
    options: SearchOptions,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first, that hold the phrases of its demand (B).

    The steps have just been started with a beam of `beam_width(demands, options)`. `</s>` comes when all
    phrases are said, or at the limit (B), where some may be missing only if the limit left no room for them. Phrases
    may use tokens that the rules forbid, but begin after the demand's prefix. Without phrases it is the plain beam.
    """
    sentences = [
        _Sentence(place, constraints, int(limit), options)
        for place, (constraints, limit) in enumerate(zip(constraints_of, limits, strict=True))
    ]
    searched = list(sentences)
    while searched:
        said = torch.tensor([[BOS, *growing.tokens] for one in searched for growing in one.live])
        places = torch.tensor([one.place for one in searched for _ in one.live])
        logits = torch.cat(list(steps.step(said[:, -1].to(device)))).float()
        shares = normalizers(logits)
        wanted = _wanted(searched, logits, shares)  # before the rules: a demand outranks them
        for rule in rules:
            rule.apply(logits, said, places)
        values, tokens = largest(logits, min(2 * options.beam, logits.size(-1)))  # (N, 2·beam)
        candidates = iter(zip((values - shares).tolist(), tokens.tolist(), strict=True))
        rows, first = [], 0
        for one, forward in zip(searched, wanted, strict=True):
            count = len(one.live)
            parents = one.grow(_candidates(islice(candidates, count)), forward)
            rows += [] if one.done else [first + parent for parent in parents]
            first += count
        searched = [one for one in searched if not one.done]
        if rows:
            steps.select(torch.tensor(rows, device=device))
    return [one.finished.result() for one in sentences]


def _wanted(searched: Sequence[_Sentence], logits: Tensor, shares: Tensor) -> list[list[tuple[float, int, int]]]:
    """Return (log_prob, hypothesis, token) for the tokens that bring phrases further, a list for each sentence."""
    firsts = accumulate((len(one.live) for one in searched), initial=0)
    pairs = [one.wanted() for one in searched]
    places = [(first + parent, token) for first, of_one in zip(firsts, pairs, strict=False) for parent, token in of_one]
    if not places:
        return [[] for _ in searched]
    rows, tokens = torch.tensor(places, device=logits.device).unbind(1)
    log_probs = iter((logits[rows, tokens] - shares[rows, 0]).tolist())
    return [[(next(log_probs), *pair) for pair in of_one] for of_one in pairs]


def _candidates(of_rows: Iterable[tuple[list[float], list[int]]]) -> Iterator[tuple[float, int, int]]:
    """Yield (log_prob, hypothesis, token)."""
    for parent, row in enumerate(of_rows):
        for log_prob, token in zip(*row, strict=True):
            yield log_prob, parent, token


def _allocated(ways: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield the best of each bank, then the second of each, and so on; in each round those with most said first."""
    banks: dict[int, list[_Candidate]] = {}
    for way in ways:
        banks.setdefault(way.progress.bank, []).append(way)
    for round_ in zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True))):
        yield from (way for way in round_ if way is not None)


def _begins(phrase: Phrase, start: Phrase) -> bool:
    return len(start) < len(phrase) and phrase[: len(start)] == start
