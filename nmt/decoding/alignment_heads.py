"""Which heads align best: measured on a text that no one has aligned.

A anchors, C heads, S source tokens without `</s>`, T target tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.alignment import all_heads, rows_of_tokens
from nmt.decoding.forced_decoding import Pair, force_all
from nmt.model.checkpoint import AlignmentHeads
from nmt.model.transformer import Transformer

_SENTENCES, _LONGEST = 2000, 100
"""More sentences change the choice little, and longer ones fill the memory: all weights of all heads are in it."""
_TOGETHER, _ASSOCIATED = 3, 0.5
"""Tokens belong together if so many sentences have both, and if their Dice coefficient is at least so high."""
_A_KIND = 10
"""Anchors of one kind: no name shall decide by itself."""
_KINDS = 10
"""With fewer kinds of anchors there is nothing to choose by."""


@dataclass(frozen=True)
class Anchor:
    """A target token whose source token is as good as sure."""

    kind: tuple[int, int]
    source: int
    target: int


def best_heads(model: Transformer, pairs: Sequence[Pair], budget: int) -> AlignmentHeads | None:
    """Return the heads that point from anchors to their source most often; None if the text has too few anchors.

    Heads are added one by one, each the one that helps most, as long as the mean of their weights points better. This
    is done for what the decoder sees when it says a token and for what it sees when it reads it (Chen et al. 2020).
    """
    short = [pair for pair in pairs if max(map(len, pair)) < min(_LONGEST, model.longest or _LONGEST)][:_SENTENCES]
    chosen = [(pair, own) for pair, own in zip(short, anchors(short), strict=True) if own]
    kinds = Counter(anchor.kind for _, own in chosen for anchor in own)
    if len(kinds) < _KINDS:
        return None
    heads = all_heads(model.settings)
    forced = force_all(model, [pair for pair, _ in chosen], budget, heads)
    places = torch.tensor([anchor.source for _, own in chosen for anchor in own])
    shares = torch.tensor([1 / kinds[anchor.kind] for _, own in chosen for anchor in own]) / len(kinds)
    found = []
    for at_input in (False, True):
        rows = [
            rows_of_tokens(weights.attention, at_input)[:, anchor.target]
            for weights, (_, own) in zip(forced, chosen, strict=True)
            for anchor in own
        ]
        width = max(row.size(1) for row in rows)
        table = torch.stack([torch.nn.functional.pad(row, (0, width - row.size(1))) for row in rows])  # (A, C, S + 1)
        accuracy, best = _greedy(table, places, shares)
        found.append((accuracy, AlignmentHeads(heads=tuple(heads[i] for i in sorted(best)), at_input=at_input)))
    return max(found, key=lambda way: way[0])[1]


def anchors(pairs: Sequence[Pair]) -> list[list[Anchor]]:
    """Return the anchors of each sentence pair, a few of each kind.

    A kind is a source and a target token that are each other's best partner by the Dice coefficient of the sentences
    that they are in, 2·|both| / (|one| + |other|) (Melamed 2000 links words so). They are an anchor where each stands
    in its sentence once: names, numbers, punctuation, and the words that have one translation.
    """
    of_source = Counter(token for source, _ in pairs for token in set(source))
    of_target = Counter(token for _, target in pairs for token in set(target))
    together = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    dice = {(a, b): 2 * n / (of_source[a] + of_target[b]) for (a, b), n in together.items() if n >= _TOGETHER}
    best: dict[tuple[str, int], float] = defaultdict(float)
    for (a, b), value in dice.items():
        best["source", a], best["target", b] = max(best["source", a], value), max(best["target", b], value)
    partner = {
        a: b
        for (a, b), value in dice.items()
        if value >= _ASSOCIATED and value == best["source", a] == best["target", b]
    }
    left = dict.fromkeys(partner, _A_KIND)
    return [list(_anchors_of(pair, partner, left)) for pair in pairs]


def _anchors_of(pair: Pair, partner: dict[int, int], left: dict[int, int]) -> Iterator[Anchor]:
    source, target = list(pair[0]), list(pair[1])
    for place, token in enumerate(source):
        other = partner.get(token)
        if other is not None and source.count(token) == target.count(other) == 1 and left[token]:
            left[token] -= 1
            yield Anchor((token, other), place, target.index(other))


def _greedy(rows: Tensor, places: Tensor, shares: Tensor) -> tuple[float, list[int]]:
    """Return the best accuracy and its heads, for rows (A, C, S + 1) that shall point at places (A), each its share."""
    chosen: list[int] = []
    best, total = 0.0, torch.zeros_like(rows[:, :1])
    while True:
        right = (total + rows).argmax(-1) == places.unsqueeze(1)  # (A, C)
        accuracy = shares @ right.to(shares.dtype)
        accuracy[chosen] = 0.0
        value, head = accuracy.max(0)
        if float(value) <= best:
            return best, chosen
        best = float(value)
        chosen.append(int(head))
        total = total + rows[:, [int(head)]]
