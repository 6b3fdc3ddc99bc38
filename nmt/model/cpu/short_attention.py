"""Attention for short sentences on a CPU: batched products of small matrices, forward and backward in one piece.

torch's own attention is made for long sequences. At the five to twenty tokens of most sentences it takes two to four
times as long as the plain formulas, if these copy every tensor once and no more.

N queries and M keys of all groups, packed; B sentences, T queries, S keys, D width, H heads, d = D/H. Step by step:
G groups of Q queries to P keys.
"""

from typing import Any

import torch
from torch import Tensor

from nmt.model.packing import Packing

_WIDE, _FEW = 16, 7
"""Lengths from which torch's softmax, and products of single queries, are quicker than the formulas."""
LONGEST = 128
"""Tokens in a sentence up to which this is the quicker way."""


def short_attention(
    queries: Tensor, memory: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V of each sentence and head (N, D), differentiable.

    Queries are (N, D), keys and values stand side by side in memory (M, 2D); the packings are those of both.
    """
    mixed: Tensor = _ShortAttention.apply(queries, memory, packings, heads, causal)  # type: ignore[no-untyped-call]
    return mixed


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, memory: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
    ) -> Tensor:
        mixed, saved = torch.empty(queries.shape), []
        to, of = packings
        groups = zip(to.unpack(queries), of.unpack(memory), of.masks, to.unpack(mixed), strict=True)
        for query, key_value, mask, found in groups:
            (q,), (keys, values) = _by_head(query, 1, heads), _by_head(key_value, 2, heads)
            scores = torch.bmm(q, keys.transpose(1, 2)).mul_(q.size(2) ** -0.5)  # (B·H, T, S)
            if causal:
                scores.masked_fill_(scores.new_ones(scores.shape[1:], dtype=torch.bool).triu_(1), float("-inf"))
            elif mask is not None:
                scores.view(len(query), heads, *scores.shape[1:]).masked_fill_(~mask, float("-inf"))
            weights = torch.softmax(scores, dim=-1, out=scores)
            _by_head_into(found, torch.bmm(weights, values).unsqueeze(0), heads)
            saved += [q, keys, values, weights]
        ctx.save_for_backward(*saved)
        ctx.heads, ctx.packings, ctx.rows = heads, packings, memory.size(0)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        gradient, (to, of), saved = gradients[0].contiguous(), ctx.packings, ctx.saved_tensors
        by_queries, by_memory = torch.empty(gradient.shape), torch.empty(ctx.rows, 2 * gradient.size(1))
        groups = zip(to.unpack(gradient), to.unpack(by_queries), of.unpack(by_memory), strict=True)
        for number, (by_found, by_query, by_key_value) in enumerate(groups):
            q, keys, values, weights = saved[4 * number : 4 * number + 4]
            (g,) = _by_head(by_found, 1, ctx.heads)
            by_weights = torch.bmm(g, values.transpose(1, 2))
            # through the softmax: weights · (by_weights - Σ weights · by_weights)
            by_scores = by_weights.sub_((by_weights * weights).sum(-1, keepdim=True)).mul_(weights)
            by_scores.mul_(q.size(2) ** -0.5)
            _by_head_into(by_query, torch.bmm(by_scores, keys).unsqueeze(0), ctx.heads)
            by_keys_values = torch.empty(2, *keys.shape)
            torch.bmm(by_scores.transpose(1, 2), q, out=by_keys_values[0])
            torch.bmm(weights.transpose(1, 2), g, out=by_keys_values[1])
            _by_head_into(by_key_value, by_keys_values, ctx.heads)
        return by_queries, by_memory, None, None, None


def softmax_in_place(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension, made of the scores."""
    if scores.size(-1) >= _WIDE or scores.dtype != torch.float32:
        return torch.softmax(scores, dim=-1)
    # torch's own goes through short rows number by number
    scores = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))


def query_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the products (G, H, Q, P) of queries (G, H, Q, d) with their group's keys (P, G, H, d)."""
    groups, heads, count, width = queries.shape
    keys = keys.flatten(1, 2)  # (P, G·H, d)
    if count == 1 and len(keys) < _FEW:
        return (keys * queries.reshape(-1, width)).sum(-1).t().reshape(groups, heads, 1, -1)
    return torch.bmm(queries.reshape(-1, count, width), keys.permute(1, 2, 0)).view(groups, heads, count, -1)


def query_mix(weights: Tensor, values: Tensor) -> Tensor:
    """Return the sums of values (P, G, H, d) with weights (G, H, Q, P), as (G·Q, D)."""
    groups, heads, count, _ = weights.shape
    values = values.flatten(1, 2)  # (P, G·H, d)
    if count == 1 and len(values) < _FEW:
        return (values * weights.view(groups * heads, -1).t().unsqueeze(-1)).sum(0).view(groups, -1)
    mixed = torch.bmm(weights.flatten(0, 1), values.transpose(0, 1)).view(groups, heads, count, -1)
    return mixed.transpose(1, 2).reshape(groups * count, -1)


def _by_head(x: Tensor, count: int, heads: int) -> Tensor:
    """Copy `count` vectors a token, (B, T, count·D), to (count, B·H, T, d)."""
    sentences, length, width = x.shape
    by_head = x.view(sentences, length, count, heads, -1).permute(2, 0, 3, 1, 4)
    return by_head.reshape(count, sentences * heads, length, width // count // heads)


def _by_head_into(out: Tensor, x: Tensor, heads: int) -> None:
    """Copy (count, B·H, T, d) into (B, T, count·D)."""
    sentences, length, _ = out.shape
    out.view(sentences, length, len(x), heads, -1).permute(2, 0, 3, 1, 4).copy_(
        x.view(len(x), sentences, heads, length, -1)
    )
