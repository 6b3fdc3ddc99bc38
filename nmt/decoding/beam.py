"""Beam search in batches, and the choice of the most probable next tokens.

B active sentences, K beam, N rows: all active hypotheses of these sentences. L length of the prefix with `<s>`,
C candidates of a row, V vocabulary.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.models import DecoderState
from nmt.decoding.options import Rule, SearchOptions
from nmt.errors import ModelError
from nmt.text.tokenizer import BOS, EOS

_MARGIN = 2.0  # a hypothesis whose log-probability is lower than the best one's by more than this is improbable
_GROWTH = 4  # that one becomes longer by more than a quarter of its length is improbable, too
_BLOCK = 64  # numbers, of which only the maximum is compared at first


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: tokens without `<s>` and `</s>`, and its log-probability with `</s>`.

    `normalized` is `log_prob` divided by the length penalty: the number that hypotheses, other than samples, are ranked
    by.
    """

    tokens: list[int]
    log_prob: float
    normalized: float


def not_a_number() -> ModelError:
    """Return the error for a model whose log-probabilities are NaN or all infinite."""
    return ModelError(
        "the model's log-probabilities are not numbers: its weights are damaged, or its training diverged; "
        "take an earlier checkpoint"
    )


@dataclass(frozen=True)
class ActiveBeams:
    """The hypotheses that are still extended, on the CPU: sentence by sentence, the best of each first."""

    sentences: Tensor  # (N) index of the sentence in the batch
    log_probs: Tensor  # (N)
    prefixes: Tensor  # (N, L)


@dataclass(frozen=True)
class Candidates:
    """The 2·K best extensions of each active sentence, best first, each (B, 2K)."""

    log_probs: Tensor  # -inf where there are fewer
    rows: Tensor  # the extended row
    tokens: Tensor


# Receives the hypotheses of a step, their best extensions, those that are extended further, and the rows they extend;
# it must not change the tensors.
Observer = Callable[[ActiveBeams, Candidates, ActiveBeams, Tensor], None]


def beam_search(
    state: DecoderState,
    device: torch.device,
    limits: Tensor,
    rules: Sequence[Rule],
    options: SearchOptions,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first, for length limits (B).

    A hypothesis is dropped when no extension of it can be among the n best. The bound: let its log-probability be s.
    Every extension has a log-probability s' ≤ s ≤ 0, because each token adds the logarithm of a probability, and a
    length L ≤ M, the limit of the sentence. The penalty is positive and does not decrease with L, so
    s' / penalty(L) ≤ s / penalty(L) ≤ s / penalty(M). If that is not greater than the worst of n finished hypotheses,
    no extension can replace one of them.
    Dropping it does not change the other hypotheses: its place in the beam can only go to a candidate that is less
    probable than its extensions, so at most s, which the same bound drops or keeps out of the n best. The search of a
    sentence ends with its last active hypothesis. At the limit, `</s>` ends all of them, with its own log-probability.

    Unless `options.exact`, hypotheses that hardly ever win are dropped, too: the bound assumes that one becomes longer
    by a quarter at most, and a log-probability must not be lower by more than the margin than that of the n-th best
    extension of the sentence (Freitag & Al-Onaizan 2017, absolute threshold), which finishes or is extended further.
    """
    count = limits.numel()
    finished: list[list[Hypothesis]] = [[] for _ in range(count)]  # the n best of each sentence, best first
    worst = torch.full((count,), -torch.inf, dtype=torch.float64)  # of n finished ones, normalized
    penalties = torch.tensor([options.penalty(length) for length in range(int(limits.max()) + 1)], dtype=torch.float64)
    active = ActiveBeams(torch.arange(count), torch.zeros(count), torch.full((count, 1), BOS))
    while active.sentences.numel():
        logits = state.step(active.prefixes[:, -1].to(device))
        log_probs, tokens = best_tokens(logits, rules, active.prefixes, active.sentences, options.beam + 1)
        candidates = best_candidates(active, log_probs, tokens, options.beam)
        for sentence, hypothesis in finished_hypotheses(active, candidates, options):
            best = finished[sentence]
            insort(best, hypothesis, key=lambda one: -one.normalized)  # behind equal ones
            del best[options.n_best :]
            if len(best) == options.n_best:
                worst[sentence] = best[-1].normalized
        length = active.prefixes.size(1)
        longest = limits if options.exact else limits.clamp(max=length + length // _GROWTH + 1)
        extended, rows = extend(active, candidates, worst * penalties[longest], options)
        if observer is not None:
            observer(active, candidates, extended, rows)
        active = extended
        if active.sentences.numel():
            state.select(rows)
    if not all(finished):  # only NaN can cause this
        raise not_a_number()
    return finished


def best_candidates(active: ActiveBeams, log_probs: Tensor, tokens: Tensor, beam: int) -> Candidates:
    """Choose the 2·K best of each sentence from the best tokens (N, C) of its rows and their log-probabilities (N, C).

    2·K contain K that do not end, because each hypothesis has only one extension that ends it. C = K + 1 tokens of a
    row suffice: they contain its K best that do not end. Of equal candidates, the one of the earlier row comes first.
    """
    totals = active.log_probs.unsqueeze(1) + log_probs  # (N, C)
    _, sizes = torch.unique_consecutive(active.sentences, return_counts=True)  # (B) rows of each sentence
    first_rows = sizes.cumsum(0) - sizes
    ranks = torch.arange(len(totals)) - first_rows.repeat_interleave(sizes)
    places = torch.arange(len(sizes)).repeat_interleave(sizes) * beam + ranks  # (N) row of the padded table
    width = tokens.size(1)
    padded = totals.new_full((len(sizes) * beam, width), -torch.inf).index_copy_(0, places, totals)
    best, positions = padded.view(len(sizes), -1).sort(dim=1, descending=True, stable=True)  # (B, K·C)
    best, positions = best[:, : 2 * beam], positions[:, : 2 * beam]
    # a padded place belongs to no row: its log-probability is -inf, so its row may be any
    rows = (first_rows.unsqueeze(1) + positions // width).clamp_(max=len(totals) - 1)
    return Candidates(best, rows, tokens.flatten()[rows * width + positions % width])


def finished_hypotheses(
    active: ActiveBeams, candidates: Candidates, options: SearchOptions
) -> list[tuple[int, Hypothesis]]:
    """Return (sentence, hypothesis) for each candidate that ends and is among the K best of its sentence."""
    log_probs, rows, tokens = (x[:, : options.beam] for x in (candidates.log_probs, candidates.rows, candidates.tokens))
    ends = (tokens == EOS) & (log_probs > -torch.inf)  # (B, K)
    if not ends.any():
        return []
    penalty = options.penalty(active.prefixes.size(1))
    finished = zip(
        active.sentences[rows[ends]].tolist(),
        active.prefixes[rows[ends], 1:].tolist(),
        log_probs[ends].tolist(),
        strict=True,
    )
    return [(sentence, Hypothesis(ids, log_prob, log_prob / penalty)) for sentence, ids, log_prob in finished]


def extend(
    active: ActiveBeams, candidates: Candidates, bounds: Tensor, options: SearchOptions
) -> tuple[ActiveBeams, Tensor]:
    """Return the K best candidates of each sentence that do not end and are not dropped, and the rows they extend.

    A log-probability up to the bound of its sentence is dropped.
    """
    ends = (candidates.tokens == EOS).to(torch.uint8)
    chosen = ends.argsort(dim=1, stable=True)[:, : options.beam]  # (B, K): a stable sort keeps the order of the others
    log_probs, rows, tokens = (x.gather(1, chosen) for x in (candidates.log_probs, candidates.rows, candidates.tokens))
    # NaN fails this comparison too; a candidate that ends is among the chosen only if there are too few others
    kept = (log_probs > bounds[active.sentences[rows]]) & (tokens != EOS)
    if not options.exact:
        kept &= log_probs >= candidates.log_probs[:, options.n_best - 1 : options.n_best] - _MARGIN
    log_probs, rows, tokens = log_probs[kept], rows[kept], tokens[kept]  # (N')
    prefixes = torch.cat([active.prefixes[rows], tokens.unsqueeze(1)], dim=1)
    return ActiveBeams(active.sentences[rows], log_probs, prefixes), rows


def best_tokens(
    logits: Tensor, rules: Sequence[Rule], prefixes: Tensor, sentences: Tensor, count: int, normalized: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of each row's C best next tokens, best first, and the tokens, (N, C), on the CPU.

    Logits are (N, V), for prefixes (N, L) of the sentences (N). Tokens that rules forbid keep their share of the
    probability. Only the best tokens are normalised: within a row, log p = logit − normalizer ranks as the logits do.
    If not `normalized`, the logits themselves are returned.
    """
    logits = logits.float()
    # log p of the first token is its logit − normalizer; log_softmax reads the logits twice, logsumexp four times
    normalizer = logits[:, :1] - logits.log_softmax(-1)[:, :1] if normalized else 0.0
    for rule in rules:
        rule.apply(logits, prefixes, sentences)
    best, tokens = largest(logits, count)
    return (best - normalizer).cpu(), tokens.cpu()


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the C largest of each row of numbers (N, V), in descending order, and their columns: (N, C) each.

    In two steps, which is faster: the C largest numbers are in the C blocks with the largest maxima, because every
    number in another block is at most as large as C others.
    """
    rows, vocabulary = numbers.shape
    blocks = vocabulary // _BLOCK
    if vocabulary % _BLOCK or blocks < count:
        top = numbers.topk(min(count, vocabulary))
        return top.values, top.indices
    by_block = numbers.view(rows, blocks, _BLOCK)
    chosen = by_block.amax(-1).topk(count).indices  # (N, C)
    first = torch.arange(rows, device=numbers.device).unsqueeze(1) * blocks
    candidates = by_block.flatten(0, 1).index_select(0, (first + chosen).flatten()).view(rows, -1)  # (N, C·64)
    values, places = candidates.topk(count)
    return values, chosen.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK
