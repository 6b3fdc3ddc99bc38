"""Beam search in batches.

B sentences still searched, K beam, N rows: the hypotheses of all of them that still grow. L length so far with `<s>`,
V vocabulary, C candidates a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.hypothesis import BestFinished, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.decoding.step_model import DecoderState
from nmt.decoding.topk import best_tokens
from nmt.text.tokenizer import BOS, EOS


@dataclass(frozen=True)
class Live:
    """The hypotheses that still grow: those of a sentence together, best first; the sentences in order.

    This is small and decides about Python objects, so it stays on the CPU; the model's memory is elsewhere.
    """

    sentences: Tensor  # (N) place in the batch that was asked for
    log_probs: Tensor  # (N)
    tokens: Tensor  # (N, L)
    history: Tensor  # (N, L) log_prob after each token, 0 first

    def grown(self, rows: Tensor, tokens: Tensor, log_probs: Tensor) -> "Live":
        """Go on from these rows (N') with a token and a log-probability each."""
        said = torch.cat([self.tokens[rows], tokens.unsqueeze(1)], dim=1)
        history = torch.cat([self.history[rows], log_probs.unsqueeze(1)], dim=1)
        return Live(self.sentences[rows], log_probs, said, history)


@dataclass(frozen=True)
class Candidates:
    """The 2·K best ways to go on in each sentence, best first, each (B, 2K)."""

    log_probs: Tensor  # -inf where there is none
    rows: Tensor
    tokens: Tensor


def beam_search(
    steps: DecoderState, device: torch.device, limits: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first, for steps just started and longest outputs (B).

    A hypothesis grows no more when nothing that becomes of it can be among the n best. The bound: let it have
    log-probability s. Whatever it becomes has a log-probability s' ≤ s ≤ 0, because each token adds a logarithm of a
    probability, and a length L ≤ M, the sentence's limit. The penalty is positive and never falls with L, so
    s' / penalty(L) ≤ s / penalty(L) ≤ s / penalty(M). If that is no more than the worst of n finished ones, it is lost.
    To let it go changes nothing for the others: among the candidates for a place in the beam, those that are better
    than a lost one do not need its place, and those that are worse are lost as well, by the same bound. A sentence is
    done when none is left. At the limit all are ended with `</s>`, at its own log-probability.
    """
    count = limits.numel()
    finished = [BestFinished(options.n_best) for _ in range(count)]
    penalty_at_limit = [options.penalty(limit) for limit in limits.tolist()]
    lost = torch.full((count,), -torch.inf, dtype=torch.float64)  # up to which log-probability one is lost
    live = Live(torch.arange(count), torch.zeros(count), torch.full((count, 1), BOS), torch.zeros(count, 1))
    while live.sentences.numel():
        logits = steps.step(live.tokens[:, -1].to(device))
        log_probs, tokens = best_tokens(logits, rules, live.tokens, live.sentences, options.beam + 1)
        candidates = best_candidates(live, log_probs, tokens, options.beam)
        for sentence, hypothesis in (ended := _ended(live, candidates, options)):
            finished[sentence].add(hypothesis)
        known = sorted({sentence for sentence, _ in ended})
        bounds = [finished[sentence].worst * penalty_at_limit[sentence] for sentence in known]
        lost[known] = torch.tensor(bounds, dtype=torch.float64)
        live, rows = _grow(live, candidates, lost, options.beam)
        if live.sentences.numel():
            steps.select(rows.to(device))
    return [best.result() for best in finished]


def best_candidates(live: Live, log_probs: Tensor, tokens: Tensor, beam: int) -> Candidates:
    """Choose the 2·K best of each sentence from its rows' best tokens (N, C) with log-probabilities (N, C).

    2·K are enough for K that go on, for each hypothesis can end in one way only. And C = K + 1 a row are enough, for
    these hold its K best that go on, and its end, unless K that go on are better. Equal candidates rank by row.
    """
    totals = live.log_probs.unsqueeze(1) + log_probs
    _, sizes = torch.unique_consecutive(live.sentences, return_counts=True)
    firsts = sizes.cumsum(0) - sizes
    ranks = torch.arange(len(totals)) - firsts.repeat_interleave(sizes)
    places = torch.arange(len(sizes)).repeat_interleave(sizes) * beam + ranks
    width = tokens.size(1)
    grid = totals.new_full((len(sizes) * beam, width), -torch.inf).index_copy_(0, places, totals)
    best, positions = grid.view(len(sizes), -1).sort(dim=1, descending=True, stable=True)
    best, positions = best[:, : 2 * beam], positions[:, : 2 * beam]
    # where there is no candidate, any row will do
    rows = (firsts.unsqueeze(1) + positions // width).clamp_(max=len(totals) - 1)
    return Candidates(best, rows, tokens.flatten()[rows * width + positions % width])


def _ended(live: Live, candidates: Candidates, options: SearchOptions) -> list[tuple[int, Hypothesis]]:
    """Return the hypotheses that end now, with their sentences: they must be among the K best, as those that go on."""
    best = slice(0, options.beam)
    ended = (candidates.tokens[:, best] == EOS) & (candidates.log_probs[:, best] > -torch.inf)
    if not ended.any():
        return []
    rows, totals = candidates.rows[:, best][ended], candidates.log_probs[:, best][ended]
    steps = torch.cat([live.history[rows], totals.unsqueeze(1)], dim=1).diff(dim=1).tolist()
    said = live.tokens[rows, 1:].tolist()
    penalty = options.penalty(live.tokens.size(1))
    found = zip(live.sentences[rows].tolist(), said, totals.tolist(), steps, strict=True)
    return [(sentence, Hypothesis(ids, total, by_token, total / penalty)) for sentence, ids, total, by_token in found]


def _grow(live: Live, candidates: Candidates, lost: Tensor, beam: int) -> tuple[Live, Tensor]:
    """Go on with the K best candidates of each sentence that do not end, but for the lost; return also their rows."""
    ends = (candidates.tokens == EOS).to(torch.uint8)
    going_on = ends.argsort(dim=1, stable=True)[:, :beam]  # stable: the others stay in order
    rows, tokens, log_probs = (
        part.gather(1, going_on) for part in (candidates.rows, candidates.tokens, candidates.log_probs)
    )
    # so written, NaN is lost as well; a candidate that ends is here only where there are too few others
    worth = (log_probs > lost[live.sentences[rows]]) & (tokens != EOS)
    return live.grown(rows[worth], tokens[worth], log_probs[worth]), rows[worth]
