"""Beam search for sentences whose translation must contain required phrases, each in one piece.

Dynamic beam allocation (Post & Vilar 2018, Hu et al. 2019): hypotheses compete only with those that have generated as
many tokens of the phrases, their bank. The banks have equal shares of the beam; what a bank does not use goes to the
others. So a hypothesis with an improbable phrase is not replaced by one that postpones it. A phrase begins only between
words, and before the final punctuation: otherwise many hypotheses are the usual translation, followed by the phrase.
Hypotheses are ranked by their log-probability, without the length penalty: a phrase costs much at once, and a mean over
the tokens would reward those that follow it in a loop.

B sentences, N rows: all active hypotheses of these sentences. L length of the prefix with `<s>`, V vocabulary.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.decoding.beam import BestFinished, Hypothesis, largest, normalizers
from nmt.decoding.models import DecoderState
from nmt.decoding.options import Constraints, SearchOptions
from nmt.decoding.rules import Rule
from nmt.text.tokenizer import BOS, EOS

MAX_WIDTH = 16  # the beam is widened to the number of phrase tokens up to this

Phrase = tuple[int, ...]


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


class _Partial(NamedTuple):
    """A translation that is not finished, or that `</s>` has just ended."""

    search: "_SentenceSearch"
    progress: PhraseProgress
    tokens: tuple[int, ...] = ()
    log_prob: float = 0.0
    final_punctuation: int = 0  # number of its tokens, after the prefix, that are final punctuation
    parent: int = 0  # the row that it extends

    @property
    def free(self) -> int:
        """Number of tokens that fit between the next one and `</s>`; -1 if the next one must be `</s>`."""
        return self.search.limit - len(self.tokens) - 2

    @property
    def is_bound(self) -> bool:
        """Whether the next token follows from the prefix, or from the limit."""
        return len(self.tokens) < len(self.search.constraints.prefix) or self.free < 0

    def extended(self, row: int, token: int, log_prob: float, progress: PhraseProgress) -> "_Partial":
        """Return the extension by a token of this log-probability; this is the translation of a row."""
        constraints, length = self.search.constraints, len(self.tokens)
        stops = self.final_punctuation
        stops += token in constraints.final_punctuation and length >= len(constraints.prefix)
        return _Partial(self.search, progress, (*self.tokens, token), self.log_prob + log_prob, stops, row)

    def advancing_tokens(self, most_probable: int) -> list[int]:
        """Return the tokens that advance a phrase, if one may begin or continue before the most probable next token.

        It may begin where `may_begin` says so, or where it would not fit later.
        """
        if self.is_bound:
            return []
        begins = not self.progress.begun and self.progress.remaining <= self.free
        return [] if begins and not self.may_begin(most_probable) else sorted(self.progress.advancing_tokens)

    def may_begin(self, most_probable: int) -> bool:
        """Return whether a phrase may begin in place of the most probable next token: between words, before the end."""
        constraints, last = self.search.constraints, self.tokens[-1] if self.tokens else BOS
        if last in constraints.final_punctuation and not constraints.may_begin_sentence:
            return False
        return most_probable not in constraints.word_continuations or last in constraints.elisions

    def advanced(self, row: int, required: Mapping[int, float]) -> Iterator[tuple["_Partial", bool]]:
        """Yield the extensions by required tokens, all of which are well placed."""
        for token, log_prob in required.items():
            if log_prob > -torch.inf:
                yield self.extended(row, token, log_prob, self.progress.after(token)), True

    def allowed(
        self, row: int, best: Sequence[tuple[float, int]], required: Container[int]
    ) -> Iterator[tuple["_Partial", bool]]:
        """Yield the extensions by the best tokens other than required ones, and whether each is well placed."""
        is_bound, may_begin = self.is_bound, self.may_begin(best[0][1])
        for log_prob, token in best:
            if token not in required and log_prob > -torch.inf:
                progress = self.progress.after(token)
                if is_bound or self._fits(token, progress):
                    extension = self.extended(row, token, log_prob, progress)
                    yield extension, self._is_placed(token, extension, may_begin)

    def _fits(self, token: int, progress: PhraseProgress) -> bool:
        """Return whether the missing phrases still fit after a token: `</s>` only if there are none."""
        return not progress.missing if token == EOS else progress.remaining <= self.free

    def _is_placed(self, token: int, extension: "_Partial", may_begin: bool) -> bool:
        """Return whether a token neither begins a phrase where none may begin nor ends the sentence before one.

        Where a phrase may begin, its tokens are among those that are required, unless another is begun and left for it.
        """
        constraints = self.search.constraints
        begins_anew = len(extension.progress.begun) == 1
        if token in self.progress.advancing_tokens or (begins_anew and not may_begin):
            return False
        ended = token in constraints.final_punctuation and bool(extension.progress.missing)
        return not (ended and extension.final_punctuation > constraints.max_final_punctuation)


@dataclass(frozen=True, eq=False)
class _SentenceSearch:
    """The search of one sentence, on Python objects, since few sentences have required phrases."""

    index: int
    constraints: Constraints
    limit: int
    options: SearchOptions
    finished: BestFinished

    @cached_property
    def never_after_phrase(self) -> Tensor:
        """Ids that would continue the last word of a phrase; among the best tokens they would displace all others."""
        return torch.tensor(sorted(self.constraints.word_continuations), dtype=torch.long)

    def best(self, extensions: Sequence[tuple[_Partial, bool]]) -> list[_Partial]:
        """Return the extensions that stay active; those that end are added to `finished`.

        Each is given with whether it is well placed: others are taken only if there is nothing else.
        """
        candidates = [one for one, is_placed in extensions if is_placed] or [one for one, _ in extensions]
        candidates.sort(key=lambda one: -one.log_prob)  # stable: equal ones in the order of their rows
        width, chosen = beam_width([self.constraints], self.options), list[_Partial]()
        for rank, one in enumerate(_allocated(candidates)):
            if one.tokens[-1] != EOS and len(chosen) < width:
                chosen.append(one)
            elif one.tokens[-1] == EOS and rank < width:
                self.finished.add(Hypothesis(list(one.tokens[:-1]), one.log_prob, one.log_prob))
        # no extension is more probable
        return chosen if any(one.log_prob > self.finished.worst for one in chosen) else []


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
        _SentenceSearch(index, constraints, limit, options, BestFinished(options.n_best))
        for index, (constraints, limit) in enumerate(zip(constraints_of, limits.tolist(), strict=True))
    ]
    active = [_Partial(one, PhraseProgress(one.constraints.phrases)) for one in searches]
    while active:
        prefixes = torch.tensor([[BOS, *one.tokens] for one in active])  # (N, L)
        sentences = torch.tensor([one.search.index for one in active])
        logits = state.step(prefixes[:, -1].to(device)).float()  # (N, V)
        normalizer = normalizers(logits)
        required = _required_tokens(active, logits, normalizer)  # before the rules, which do not apply to them
        for rule in rules:
            rule.apply(logits, prefixes, sentences)
        for row, one in enumerate(active):
            if one.progress.phrase_ended and not one.is_bound:
                logits[row, one.search.never_after_phrase.to(device)] = -torch.inf
        values, tokens = largest(logits, min(2 * options.beam, logits.size(-1)))  # (N, 2·beam)
        best = list(zip((values - normalizer).tolist(), tokens.tolist(), strict=True))
        extended: list[_Partial] = []
        for one, group in groupby(enumerate(active), key=lambda numbered: numbered[1].search):
            rows = list(group)
            extensions = [pair for row, partial in rows for pair in partial.advanced(row, required[row])]
            for row, partial in rows:
                extensions += partial.allowed(row, list(zip(*best[row], strict=True)), required[row])
            extended += one.best(extensions)
        active = extended
        if active:
            state.select(torch.tensor([one.parent for one in active], device=device))
    return [one.finished.result() for one in searches]


def _required_tokens(active: Sequence[_Partial], logits: Tensor, normalizer: Tensor) -> list[dict[int, float]]:
    """Return for each row the tokens that advance a phrase, with their log-probabilities."""
    most_probable = logits.argmax(-1).tolist()
    tokens_of = [one.advancing_tokens(token) for one, token in zip(active, most_probable, strict=True)]
    places = [(row, token) for row, of_row in enumerate(tokens_of) for token in of_row]
    rows, tokens = torch.tensor(places, dtype=torch.long, device=logits.device).view(-1, 2).unbind(1)
    log_probs = iter((logits[rows, tokens] - normalizer[rows, 0]).tolist())
    return [{token: next(log_probs) for token in of_row} for of_row in tokens_of]


def _allocated(candidates: Sequence[_Partial]) -> Iterator[_Partial]:
    """Yield the best of each bank, then the second of each, and so on; in each round the highest bank first."""
    banks: dict[int, list[_Partial]] = {}
    for candidate in candidates:
        banks.setdefault(candidate.progress.bank, []).append(candidate)
    for round_ in zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True))):
        yield from (candidate for candidate in round_ if candidate is not None)


def _is_beginning(phrase: Phrase, start: Phrase) -> bool:
    """Return whether a phrase begins with `start` and is longer."""
    return len(start) < len(phrase) and phrase[: len(start)] == start
