"""Beam search in batches.

B sentences still searched, K beam, L length so far, S source length, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.candidates import Candidates, best_candidates
from nmt.decoding.decoder import Steps
from nmt.decoding.hypothesis import BestFinished, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.text.tokenizer import BOS, EOS

WORTH_LEAVING = 8
"""Finished sentences leave the batch once they are one in so many: leaving costs a copy of the cache."""


@dataclass(frozen=True)
class Live:
    """The K hypotheses of each sentence that still grow, best first; those with log_prob -inf only fill the place.

    This is small and decides about Python objects, so it stays on the CPU; the model's cache holds the rest.
    """

    sentences: Tensor  # (B) place in the batch that was asked for
    log_probs: Tensor  # (B, K)
    tokens: Tensor  # (B, K, L) <s> first
    history: Tensor  # (B, K, L) log_prob after each token, 0 first

    def select(self, rows: Tensor) -> "Live":
        """Keep only these sentences."""
        return Live(self.sentences[rows], self.log_probs[rows], self.tokens[rows], self.history[rows])


def beam_search(
    steps: Steps, device: torch.device, limits: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first, for steps just started and longest outputs (B).

    A sentence is done when nothing that grows can still change its n best. The bound: let a live hypothesis have
    log-probability s. Whatever it becomes has a log-probability s' ≤ s ≤ 0, because each token adds a logarithm of a
    probability, and a length L ≤ M, the sentence's limit. The penalty is positive and never falls with L, so
    s' / penalty(L) ≤ s / penalty(L) ≤ s / penalty(M). If that is no more than the worst of n finished ones for the best
    live hypothesis, then it is so for all, and no result is lost by stopping. At the limit all live ones are ended with
    `</s>`, at its own log-probability.
    """
    count = limits.numel()
    finished = [BestFinished(options.n_best) for _ in range(count)]
    penalty_at_limit = torch.tensor([options.penalty(int(limit)) for limit in limits], dtype=torch.float64)
    worst = torch.full((count,), -torch.inf, dtype=torch.float64)
    live = _start(count, options.beam)
    order = torch.arange(options.beam)
    while live.sentences.numel():
        logits = steps.step(live.tokens[:, :, -1].to(device)).float()
        normalizers = logits.logsumexp(-1, keepdim=True)  # over all of V: what is forbidden still has its share
        for rule in rules:
            rule.apply(logits, live.tokens, live.sentences)
        candidates = best_candidates(logits, normalizers, live.log_probs.to(device))
        for row, hypothesis in _ended(live, candidates, options):
            sentence = int(live.sentences[row])
            finished[sentence].add(hypothesis)
            worst[sentence] = finished[sentence].worst
        live, parents = _grow(live, candidates)
        bound = live.log_probs[:, 0] / penalty_at_limit[live.sentences]
        done = ~(bound > worst[live.sentences])  # so written, NaN is done as well
        if done.sum() * WORTH_LEAVING >= done.numel():
            rows = (~done).nonzero().squeeze(1)
            live, parents = live.select(rows), parents[rows]
            steps.keep(rows.to(device))
        if not torch.equal(parents, order.expand_as(parents)):
            steps.reorder(parents.to(device))
    return [best.result() for best in finished]


def _start(count: int, beam: int) -> Live:
    """Begin with `<s>`, K times the same: only the first counts."""
    log_probs = torch.full((count, beam), -torch.inf)
    log_probs[:, 0] = 0.0
    tokens = torch.full((count, beam, 1), BOS)
    return Live(torch.arange(count), log_probs, tokens, torch.zeros(count, beam, 1))


def _ended(live: Live, candidates: Candidates, options: SearchOptions) -> list[tuple[int, Hypothesis]]:
    """Return the hypotheses that end now, each with its row: they must be among the K best, as those that go on."""
    beam = options.beam
    ended = (candidates.tokens[:, :beam] == EOS) & (candidates.log_probs[:, :beam] > -torch.inf)
    rows, columns = ended.nonzero(as_tuple=True)
    if not rows.numel():
        return []
    parents = candidates.parents[rows, columns]
    tokens = live.tokens[rows, parents, 1:].tolist()
    totals = candidates.log_probs[rows, columns]
    steps = torch.cat([live.history[rows, parents], totals.unsqueeze(1)], dim=1).diff(dim=1).tolist()
    penalty = options.penalty(live.tokens.size(2))
    return [
        (row, Hypothesis(said, total, by_token, total / penalty))
        for row, said, total, by_token in zip(rows.tolist(), tokens, totals.tolist(), steps, strict=True)
    ]


def _grow(live: Live, candidates: Candidates) -> tuple[Live, Tensor]:
    """Go on with the K best candidates that do not end; return them and what they continue, parents (B, K)."""
    beam = live.log_probs.size(1)
    ends = (candidates.tokens == EOS).to(torch.uint8)
    going_on = ends.argsort(dim=1, stable=True)[:, :beam]  # stable: the others stay in order
    log_probs, parents, tokens = (part.gather(1, going_on) for part in candidates)
    rows = torch.arange(parents.size(0)).unsqueeze(1)
    said = torch.cat([live.tokens[rows, parents], tokens.unsqueeze(2)], dim=2)
    history = torch.cat([live.history[rows, parents], log_probs.unsqueeze(2)], dim=2)
    return Live(live.sentences, log_probs, said, history), parents
