"""Beam search for sentences whose translation must contain required phrases, each in one piece.

Dynamic beam allocation (Post & Vilar 2018, Hu et al. 2019): hypotheses compete only with those that have generated as
many tokens of the phrases, their bank. The banks have equal shares of the beam; what a bank does not use goes to the
others. So a hypothesis with an improbable phrase is not replaced by one that postpones it. A phrase begins only between
words, and before the final punctuation: otherwise many hypotheses are the usual translation, followed by the phrase.

B sentences, N rows: all active hypotheses of these sentences. L length of the prefix with `<s>`, V vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.decoding.beam import largest, normalizers
from nmt.decoding.hypothesis import BestFinished, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.decoding.step_model import DecoderState
from nmt.text.tokenizer import BOS, EOS

MAX_WIDTH = 16  # the beam is widened to the number of phrase tokens up to this

Phrase = tuple[int, ...]
Scored = tuple[float, int, int]  # log_prob of a token, the active hypothesis that it extends, and the token


@dataclass(frozen=True)
class PhraseProgress:
    """Which required phrases a hypothesis contains, and which it has begun.

    >>> PhraseProgress(missing=((7, 8), (9,))).after(7).after(8)
    PhraseProgress(missing=((9,),), begun=(), completed_tokens=2, phrase_ended=True)
    """

    missing: tuple[Phrase, ...]
    """Phrases that are not generated yet. No token counts for two phrases; a phrase may be required twice."""
    begun: Phrase = ()  # the longest suffix of the hypothesis that is the beginning of a missing phrase
    completed_tokens: int = 0  # number of tokens of the completed phrases
    phrase_ended: bool = False
    """Whether the last token is the last one of a phrase, even if that is the beginning of a longer one."""

    def after(self, token: int) -> "PhraseProgress":
        """Return the progress with one more token. As in Aho & Corasick 1975, `begun` is all that must be kept.

        Of phrases with a common beginning, or within each other, the longest is followed. Only if it is not completed,
        shorter ones that were generated on the way count. So each of the `advancing_tokens` leaves one less to
        generate.
        """
        if not self.begun and token not in self.advancing_tokens:
            return replace(self, phrase_ended=False) if self.phrase_ended else self
        suffix = (*self.begun, token)
        if any(_is_beginning(phrase, suffix) for phrase in self.missing):
            return PhraseProgress(self.missing, suffix, self.completed_tokens, phrase_ended=suffix in self.missing)
        ended = max((phrase for phrase in self.missing if suffix[: len(phrase)] == phrase), key=len, default=())
        index = self.missing.index(ended) if ended else len(self.missing)
        missing = self.missing[:index] + self.missing[index + 1 :]
        progress = PhraseProgress(missing, (), self.completed_tokens + len(ended), phrase_ended=bool(ended))
        for later in suffix[len(ended) or 1 :]:
            progress = progress.after(later)
        return progress

    @property
    def bank(self) -> int:
        """Number of generated phrase tokens, including those of the phrase that is begun."""
        return self.completed_tokens + len(self.begun)

    @cached_property
    def advancing_tokens(self) -> set[int]:
        """Tokens that begin or continue a missing phrase."""
        return {phrase[len(self.begun)] for phrase in self.missing if _is_beginning(phrase, self.begun)}

    @cached_property
    def remaining(self) -> int:
        """Number of phrase tokens that are still to be generated."""
        return sum(map(len, self.missing)) - len(self.begun)


class _Active(NamedTuple):
    """An active hypothesis."""

    tokens: tuple[int, ...]
    log_prob: float
    progress: PhraseProgress
    final_punctuation: int = 0  # number of its tokens, after the prefix, that are final punctuation


class _Candidate(NamedTuple):
    """The extension of active hypothesis `parent` by one token, with the log-probability of all tokens."""

    log_prob: float
    parent: int
    token: int
    progress: PhraseProgress


class _SentenceSearch:
    """The search of one sentence, on Python objects, since few sentences have required phrases."""

    def __init__(self, index: int, constraints: Constraints, limit: int, options: SearchOptions) -> None:
        self.index, self._constraints, self._limit, self._options = index, constraints, limit, options
        self._width = beam_width([constraints], options)
        self.active = [_Active((), 0.0, PhraseProgress(constraints.phrases))]
        self.finished = BestFinished(options.n_best)
        self._may_advance = [True]

    @property
    def done(self) -> bool:
        """Whether no extension of an active hypothesis can be among the n best, by the bound of `beam_search`."""
        bound = self.finished.worst * self._options.penalty(self._limit)
        return all(hypothesis.log_prob <= bound for hypothesis in self.active)

    def advancing_pairs(self, most_probable: Sequence[int]) -> list[tuple[int, int]]:
        """Return (hypothesis, token) for each token that advances a phrase, if phrases are allowed at this position.

        `most_probable` holds the most probable next token of each hypothesis.
        """
        if self._in_prefix or self._free < 0:
            self._may_advance = [True] * len(self.active)
            return []
        self._may_advance = [self._is_boundary(*pair) for pair in zip(self.active, most_probable, strict=True)]
        return [
            (parent, token)
            for parent, hypothesis in enumerate(self.active)
            if self._may_advance[parent]
            for token in sorted(hypothesis.progress.advancing_tokens)
        ]

    def extend(self, best: Iterable[Scored], advancing: Sequence[Scored]) -> list[int]:
        """Replace the active hypotheses by their best extensions, and return the parents of these.

        `best` are the candidates that the rules allow, `advancing` those that advance a phrase.
        """
        known = {scored[1:] for scored in advancing}
        required = [self._candidate(*scored) for scored in advancing]
        others = [self._candidate(*scored) for scored in best if scored[1:] not in known]
        allowed = [candidate for candidate in others if self._is_allowed(candidate)]
        placed = [candidate for candidate in allowed if self._is_placed(candidate)]
        candidates = [one for one in (*required, *placed) if one.log_prob > -torch.inf]
        # a narrow beam may have nothing else
        candidates = candidates or [one for one in allowed if one.log_prob > -torch.inf]
        candidates.sort(key=lambda candidate: -candidate.log_prob)  # stable: equal ones in the order of their parents
        chosen: list[_Candidate] = []
        for rank, candidate in enumerate(_allocated(candidates)):
            if candidate.token != EOS and len(chosen) < self._width:
                chosen.append(candidate)
            elif candidate.token == EOS and rank < self._width:
                tokens = self.active[candidate.parent].tokens
                normalized = candidate.log_prob / self._options.penalty(len(tokens) + 1)
                self.finished.add(Hypothesis(list(tokens), candidate.log_prob, normalized))
        in_prefix = self._in_prefix
        self.active = [
            _Active(
                (*self.active[parent].tokens, token),
                log_prob,
                progress,
                self.active[parent].final_punctuation
                + (token in self._constraints.final_punctuation and not in_prefix),
            )
            for log_prob, parent, token, progress in chosen
        ]
        return [candidate.parent for candidate in chosen]

    @property
    def _in_prefix(self) -> bool:
        return len(self.active[0].tokens) < len(self._constraints.prefix)

    @property
    def _free(self) -> int:
        """Number of tokens that fit between the next one and `</s>`; -1 if the next one must be `</s>`."""
        return self._limit - len(self.active[0].tokens) - 2

    def _candidate(self, log_prob: float, parent: int, token: int) -> _Candidate:
        hypothesis = self.active[parent]
        return _Candidate(hypothesis.log_prob + log_prob, parent, token, hypothesis.progress.after(token))

    def _is_allowed(self, candidate: _Candidate) -> bool:
        """Return whether the missing phrases still fit; at the limit, `</s>` is allowed without them."""
        if self._in_prefix or self._free < 0:
            return True
        if candidate.token == EOS:
            return not candidate.progress.missing
        after_phrase = self.active[candidate.parent].progress.phrase_ended
        if after_phrase and candidate.token in self._constraints.word_continuations:
            return False
        return candidate.progress.remaining <= self._free

    def _is_placed(self, candidate: _Candidate) -> bool:
        """Return whether a token neither begins a phrase where none may begin nor ends the sentence before one."""
        hypothesis = self.active[candidate.parent]
        if not hypothesis.progress.missing or self._in_prefix:
            return True
        if not self._may_advance[candidate.parent] and candidate.token in hypothesis.progress.advancing_tokens:
            return False
        ended = candidate.token in self._constraints.final_punctuation and bool(candidate.progress.missing)
        return not (ended and hypothesis.final_punctuation >= self._constraints.max_final_punctuation)

    def _is_boundary(self, hypothesis: _Active, most_probable: int) -> bool:
        """Return whether a phrase may continue or begin: between words, and not after the final punctuation.

        It may begin anywhere where it would not fit later.
        """
        constraints, last = self._constraints, hypothesis.tokens[-1:]
        if hypothesis.progress.begun or hypothesis.progress.remaining > self._free:
            return True
        if last and last[0] in constraints.final_punctuation and not constraints.may_begin_sentence:
            return False
        return most_probable not in constraints.word_continuations or (bool(last) and last[0] in constraints.elisions)


def beam_width(constraints_of: Sequence[Constraints], options: SearchOptions) -> int:
    """Return the number of active hypotheses of a sentence with these constraints: one for each bank, up to a bound."""
    tokens = max((constraints.phrase_tokens for constraints in constraints_of), default=0)
    return max(options.beam, min(tokens + 1, MAX_WIDTH)) if tokens else options.beam


def constrained_search(
    state: DecoderState,
    device: torch.device,
    limits: Tensor,
    rules: Sequence[Rule],
    constraints_of: Sequence[Constraints],
    options: SearchOptions,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first, that contain the phrases of its constraints (B).

    The state has been started with a beam of `beam_width(constraints_of, options)`. `</s>` follows when all phrases are
    generated, or at the limit (B), where phrases may be missing only if the limit is too short for them. Phrases may
    contain tokens that the rules forbid, and begin after the required prefix. Without phrases it is plain beam search.
    """
    searches = [
        _SentenceSearch(index, constraints, int(limit), options)
        for index, (constraints, limit) in enumerate(zip(constraints_of, limits, strict=True))
    ]
    active = list(searches)
    while active:
        prefixes = torch.tensor([[BOS, *hypothesis.tokens] for one in active for hypothesis in one.active])  # (N, L)
        sentences = torch.tensor([one.index for one in active for _ in one.active])
        logits = state.step(prefixes[:, -1].to(device)).float()  # (N, V)
        normalizer = normalizers(logits)
        advancing = _scored_advancing(
            active, logits, normalizer
        )  # before the rules, which do not apply to required phrases
        for rule in rules:
            rule.apply(logits, prefixes, sentences)
        values, tokens = largest(logits, min(2 * options.beam, logits.size(-1)))  # (N, 2·beam)
        best = list(zip((values - normalizer).tolist(), tokens.tolist(), strict=True))
        rows, first = [], 0
        for one, advancing_one in zip(active, advancing, strict=True):
            after = first + len(one.active)
            parents = one.extend(_scored(best[first:after]), advancing_one)
            if not one.done:
                rows += [first + parent for parent in parents]
            first = after
        active = [one for one in active if not one.done]
        if rows:
            state.select(torch.tensor(rows, device=device))
    return [one.finished.result() for one in searches]


def _scored_advancing(active: Sequence[_SentenceSearch], logits: Tensor, normalizer: Tensor) -> list[list[Scored]]:
    """Return the tokens that advance phrases with their log-probabilities, a list for each sentence."""
    first_rows = list(accumulate((len(one.active) for one in active), initial=0))
    most_probable = logits.argmax(-1).tolist()
    pairs_of = [
        one.advancing_pairs(most_probable[first : first + len(one.active)])
        for one, first in zip(active, first_rows, strict=False)
    ]
    places = [
        (first + parent, token) for first, pairs in zip(first_rows, pairs_of, strict=False) for parent, token in pairs
    ]
    if not places:
        return [[] for _ in active]
    rows, tokens = torch.tensor(places, device=logits.device).unbind(1)
    log_probs = iter((logits[rows, tokens] - normalizer[rows, 0]).tolist())
    return [[(next(log_probs), *pair) for pair in pairs] for pairs in pairs_of]


def _scored(of_rows: Iterable[tuple[list[float], list[int]]]) -> Iterator[Scored]:
    """Yield each of the best tokens of the rows of one sentence."""
    for parent, row in enumerate(of_rows):
        for log_prob, token in zip(*row, strict=True):
            yield log_prob, parent, token


def _allocated(candidates: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield the best of each bank, then the second of each, and so on; in each round the highest bank first."""
    banks: dict[int, list[_Candidate]] = {}
    for candidate in candidates:
        banks.setdefault(candidate.progress.bank, []).append(candidate)
    for round_ in zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True))):
        yield from (candidate for candidate in round_ if candidate is not None)


def _is_beginning(phrase: Phrase, start: Phrase) -> bool:
    """Return whether a phrase begins with `start` and is longer."""
    return len(start) < len(phrase) and phrase[: len(start)] == start
