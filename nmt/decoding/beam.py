"""The state of a search, hypotheses on the device of the model, and one step of beam search, greedy search or sampling.

B sentences, K hypotheses of each, N of all, n hypotheses to return, P positions, C candidates of a hypothesis, T
longest output, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.config import Sampling
from nmt.decoding.options import GROWTH_DIVISOR, MARGIN, SearchOptions
from nmt.text.tokenizer import BOS, EOS


@dataclass(frozen=True)
class Beams:
    """The hypotheses of B sentences. A sentence without an active hypothesis is finished, or its slot is empty."""

    log_probs: Tensor  # (B, K) of active hypotheses, the best first; -inf where there is none
    tokens: Tensor  # (B, K) the newest ones
    lengths: Tensor  # (B) tokens of the active hypotheses of a sentence, with `<s>`
    limits: Tensor  # (B) the longest output, with `</s>`
    # (B, K, 2, P) int32: [:, :, 0] the tokens of each hypothesis; [:, :, 1] the place, among the K, whose cell has the
    # key and value of each token: the place of the hypothesis, or of its ancestor, at that step
    history: Tensor
    # (B, n) penalized log-probabilities of finished hypotheses, -inf where there is none; in a beam search only
    finished: Tensor
    finished_log_probs: Tensor  # (B, n)
    finished_lengths: Tensor  # (B, n) with `</s>`
    finished_tokens: Tensor  # (B, n, P) with `<s>`

    @classmethod
    def empty(cls, count: int, positions: int, options: SearchOptions, device: torch.device) -> "Beams":
        """Return the state of no sentences."""
        shape, best, long = (count, options.width), (count, options.n_best), torch.long
        history = torch.zeros(*shape, 2, positions, dtype=torch.int32, device=device)
        history[:, :, 1] = torch.arange(options.width, dtype=torch.int32, device=device).unsqueeze(1)
        return cls(
            log_probs=torch.full(shape, -torch.inf, device=device),
            tokens=torch.full(shape, BOS, device=device),
            lengths=torch.ones(count, dtype=long, device=device),
            limits=torch.ones(count, dtype=long, device=device),
            history=history,
            finished=torch.full(best, -torch.inf, device=device),
            finished_log_probs=torch.zeros(best, device=device),
            finished_lengths=torch.zeros(best, dtype=long, device=device),
            finished_tokens=torch.zeros(*best, positions, dtype=torch.int32, device=device),
        )

    def begin(self, slots: Tensor, limits: Tensor, active: int) -> None:
        """Begin to search sentences with these limits (B') in these slots, each with `active` hypotheses `<s>`."""
        self.log_probs.index_fill_(0, slots, -torch.inf)
        self.log_probs[:, :active].index_fill_(0, slots, 0)
        self.tokens.index_fill_(0, slots, BOS)
        self.lengths.index_fill_(0, slots, 1)
        self.limits.index_copy_(0, slots, limits)
        self.history[:, :, 0, 0].index_fill_(0, slots, BOS)
        places = torch.arange(self.tokens.size(1), dtype=torch.int32, device=slots.device)
        self.history[:, :, 1, 0].index_copy_(0, slots, places.expand(len(slots), -1))
        self.finished.index_fill_(0, slots, -torch.inf)
        self.finished_lengths.index_fill_(0, slots, 0)

    def assign(self, other: "Beams") -> None:
        """Copy another state of the same size into these tensors, to which recordings refer."""
        for field in fields(self):
            old, new = getattr(self, field.name), getattr(other, field.name)
            if old is not new:
                old.copy_(new)


class Candidates(NamedTuple):
    """The 2·K best extensions of each sentence, best first, each (B, 2K)."""

    log_probs: Tensor  # -inf where there are fewer
    parents: Tensor  # place of the extended hypothesis
    tokens: Tensor


# Receives the state before a step, its best extensions, and the state after it.
Observer = Callable[[Beams, Candidates, Beams], None]


def best_candidates(beams: Beams, log_probs: Tensor, tokens: Tensor) -> Candidates:
    """Choose the 2·K best of each sentence from the best next tokens of its hypotheses and their log-probabilities.

    Both are (B, K, C). The 2·K best contain K that do not end, since only one extension of each hypothesis ends. C =
    K + 1 tokens of a hypothesis suffice: they contain its K best that do not end. Of equal candidates, the one of the
    earlier hypothesis comes first.
    """
    beam, width = log_probs.shape[1:]
    active = beams.log_probs.unsqueeze(2)
    totals = torch.where(active > -torch.inf, active + log_probs, -torch.inf).flatten(1)
    best, order = totals.sort(dim=1, descending=True, stable=True)
    best, order = best[:, : 2 * beam], order[:, : 2 * beam]
    return Candidates(best, order // width, tokens.flatten(1).gather(1, order))


def advance(beams: Beams, candidates: Candidates, penalties: Tensor, options: SearchOptions) -> Beams:
    """Return the state after one step, for the length penalties of lengths 0 … P.

    A hypothesis is dropped when no extension of it can be among the n best. The bound: let its log-probability be s.
    Every extension has a log-probability s' ≤ s ≤ 0, because each token adds the logarithm of a probability, and a
    length L ≤ M, the limit of the sentence. The penalty is positive and does not decrease with L, so
    s' / penalty(L) ≤ s / penalty(L) ≤ s / penalty(M). If that is not greater than the worst of n finished hypotheses,
    no extension can replace one of them.
    Dropping it does not change the n best hypotheses: its place in the beam goes to a candidate that is less probable
    than its extensions, with a log-probability of at most s, so the bound excludes that one as well. The search of a
    sentence ends with its last active hypothesis. At the limit, `</s>` ends all of them, with its own log-probability.

    Unless `options.exact`, hypotheses that hardly ever win are dropped, too: the bound assumes that one becomes longer
    by at most a quarter, and a log-probability must not be lower by more than the margin than that of the n-th best
    extension of the sentence (Freitag & Al-Onaizan 2017, absolute threshold), which finishes or is extended further.

    If a log-probability is NaN, the sentence ends without hypotheses; finished ones are discarded, too.
    """
    beams = with_finished(beams, candidates, penalties)
    longest = beams.limits
    if not options.exact:
        longest = torch.minimum(longest, beams.lengths + beams.lengths // GROWTH_DIVISOR + 1)
    bounds = beams.finished[:, -1:] * penalties[longest].unsqueeze(1)
    ends = (candidates.tokens == EOS).to(torch.uint8)
    chosen = ends.argsort(dim=1, stable=True)[:, : options.beam]  # (B, K): a stable sort keeps the order of the others
    log_probs, parents, tokens = (x.gather(1, chosen) for x in candidates)
    # a candidate that ends is among the chosen only if there are too few others
    kept = (log_probs > bounds) & (tokens != EOS) & ~candidates.log_probs[:, :1].isnan()
    if not options.exact:
        kept &= log_probs >= candidates.log_probs[:, options.n_best - 1 : options.n_best] - MARGIN
    by_parent = parents[:, :, None, None].expand_as(beams.history)
    return extended(replace(beams, history=beams.history.gather(1, by_parent)), log_probs, tokens, kept)


def with_finished(beams: Beams, candidates: Candidates, penalties: Tensor) -> Beams:
    """Return the state with the n best of the finished hypotheses and of those among the K best that end now."""
    beam = beams.log_probs.size(1)
    log_probs, parents, tokens = (x[:, :beam] for x in candidates)
    ends = (tokens == EOS) & (log_probs > -torch.inf)
    normalized = torch.where(ends, log_probs / penalties[beams.lengths].unsqueeze(1), -torch.inf)
    finished, order = torch.cat([beams.finished, normalized], 1).sort(dim=1, descending=True, stable=True)
    order = order[:, : beams.finished.size(1)]
    prefixes = beams.history[:, :, 0].gather(1, parents.unsqueeze(2).expand(-1, -1, beams.history.size(3)))
    lengths = torch.where(ends, beams.lengths.unsqueeze(1), 0)
    is_damaged = log_probs[:, :1].isnan()  # NaN is the largest number of a sort
    return replace(
        beams,
        finished=finished[:, : beams.finished.size(1)].masked_fill(is_damaged, -torch.inf),
        finished_log_probs=torch.cat([beams.finished_log_probs, log_probs], 1).gather(1, order),
        finished_lengths=torch.cat([beams.finished_lengths, lengths], 1).gather(1, order).masked_fill(is_damaged, 0),
        finished_tokens=torch.cat([beams.finished_tokens, prefixes], 1).gather(
            1, order.unsqueeze(2).expand(-1, -1, prefixes.size(2))
        ),
    )


def extended(beams: Beams, log_probs: Tensor, tokens: Tensor, kept: Tensor) -> Beams:
    """Return the state whose hypotheses have one more token each, for log-probabilities and tokens (B, K).

    Those that are not kept (B, K) are no longer active. The tokens are added to the history in place.
    """
    beam, positions = beams.history.size(1), beams.history.size(3)
    places = torch.arange(beam, device=tokens.device).expand_as(tokens)
    newest = torch.stack([tokens, places], 2).unsqueeze(3).int()  # (B, K, 2, 1)
    newest_positions = beams.lengths.clamp(max=positions - 1)[:, None, None, None].expand_as(newest)
    return replace(
        beams,
        log_probs=torch.where(kept, log_probs, -torch.inf),
        tokens=torch.where(kept, tokens, BOS),
        lengths=beams.lengths + kept.any(1),
        history=beams.history.scatter_(3, newest_positions, newest),
    )


# greedy search and sampling, which extend each hypothesis by one token at a time


def extend_each(beams: Beams, log_probs: Tensor, tokens: Tensor) -> Beams:
    """Return the state after each hypothesis is extended by its chosen token, of this log-probability, both (B, K).

    The tables of tokens, which are the largest tensors, are changed in place.
    """
    totals = beams.log_probs + log_probs
    active = totals > -torch.inf  # NaN fails this comparison, too
    ends = active & (tokens == EOS)
    tokens_table = beams.finished_tokens
    torch.where(ends.unsqueeze(2), beams.history[:, :, 0], tokens_table, out=tokens_table)
    beams = replace(
        beams,
        finished_log_probs=torch.where(ends, totals, beams.finished_log_probs),
        finished_lengths=torch.where(ends, beams.lengths.unsqueeze(1), beams.finished_lengths),
    )
    return extended(beams, totals, tokens, active & ~ends)


def draw(logits: Tensor, noise: Tensor, sampling: Sampling) -> Tensor:
    """Return a token (N) for each row of logits (N, V) and each number in [0, 1) of the noise (N).

    Inverse transform sampling: the token into whose share of [0, 1) the number falls. Shares are in the order of the
    vocabulary, so that rounding moves their ends a little and never swaps two. Tokens that are as probable as the last
    one of top_p are kept too.
    """
    logits = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    probabilities = logits.softmax(-1)
    if sampling.top_p < 1:
        ranked = probabilities.sort(-1, descending=True).values
        # the most probable token is always kept, even if top_p is 0 in fp32
        preceding_sum = ranked.cumsum(-1) - ranked
        lowest = ranked.masked_fill((preceding_sum >= sampling.top_p) & (preceding_sum > 0), 1.0).amin(-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < lowest, 0.0)
    ends = probabilities.cumsum(-1)
    # a product with a number below 1 is less than the sum of all shares, also after rounding
    return (ends <= noise.unsqueeze(-1) * ends[..., -1:]).sum(-1)
