"""Attention for short sentences: batched products of small matrices, forward and backward in one function.

torch's own attention is made for long sequences. At the five to twenty tokens of most sentences it takes two to four
times as long as the plain formulas, if these copy every tensor once and no more.

N queries and M keys of all groups, packed; B sentences, T queries, S keys, D width, H heads, d = D/H.
"""

from typing import Any

import torch
from torch import Tensor

from nmt.model.packing import Packing

MAX_LENGTH = 128  # tokens in a sentence; for longer ones torch's own attention is faster
_TORCH_SOFTMAX_KEYS = 16  # from here on torch's softmax, which handles short rows number by number, is faster
_BMM_KEYS = 7  # from here on a batched product with a single query is faster than multiplying and summing


def fits(queries: Tensor, packings: tuple[Packing, Packing], bf16: bool) -> bool:
    """Whether `packed_attention` is faster than torch's attention; `bf16` if the processor multiplies bf16 numbers."""
    return (
        queries.device.type == "cpu"
        and (queries.dtype == torch.float32 or (bf16 and queries.dtype == torch.bfloat16))
        and max(length for packing in packings for _, length in packing.shapes) <= MAX_LENGTH
        and not torch.compiler.is_compiling()
    )


def packed_attention(
    queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V of each sentence and head (N, D), differentiable.

    Queries are (N, D), keys and values side by side (M, 2D); the packings are those of both.
    """
    output: Tensor = _PackedAttention.apply(queries, keys_values, packings, heads, causal)  # type: ignore[no-untyped-call]
    return output


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
    ) -> Tensor:
        output, saved = torch.empty_like(queries), []
        to, of = packings
        groups = zip(to.unpack(queries), of.unpack(keys_values), of.masks, to.unpack(output), strict=True)
        for query, key_value, mask, group_output in groups:
            (q,), (k, v) = _split_heads(query, 1, heads), _split_heads(key_value, 2, heads)
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(q.size(2) ** -0.5)  # (B·H, T, S)
            if causal:
                scores.masked_fill_(scores.new_ones(scores.shape[1:], dtype=torch.bool).triu_(1), float("-inf"))
            elif mask is not None:
                scores.view(len(query), heads, *scores.shape[1:]).masked_fill_(~mask, float("-inf"))
            weights = torch.softmax(scores, dim=-1, out=scores)
            _merge_heads_into(group_output, torch.bmm(weights, v).unsqueeze(0), heads)
            saved += [q, k, v, weights]
        ctx.save_for_backward(*saved)
        ctx.heads, ctx.packings, ctx.rows = heads, packings, keys_values.size(0)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        gradient, (to, of), saved = gradients[0].contiguous(), ctx.packings, ctx.saved_tensors
        query_gradient = torch.empty_like(gradient)
        key_value_gradient = gradient.new_empty(ctx.rows, 2 * gradient.size(1))
        groups = zip(to.unpack(gradient), to.unpack(query_gradient), of.unpack(key_value_gradient), strict=True)
        for number, (group_gradient, to_query, to_key_value) in enumerate(groups):
            q, k, v, weights = saved[4 * number : 4 * number + 4]
            (g,) = _split_heads(group_gradient, 1, ctx.heads)
            to_weights = torch.bmm(g, v.transpose(1, 2))
            # through the softmax: weights · (to_weights - Σ weights · to_weights)
            to_scores = to_weights.sub_((to_weights * weights).sum(-1, keepdim=True)).mul_(weights)
            to_scores.mul_(q.size(2) ** -0.5)
            _merge_heads_into(to_query, torch.bmm(to_scores, k).unsqueeze(0), ctx.heads)
            to_keys_values = k.new_empty(2, *k.shape)
            torch.bmm(to_scores.transpose(1, 2), q, out=to_keys_values[0])
            torch.bmm(weights.transpose(1, 2), g, out=to_keys_values[1])
            _merge_heads_into(to_key_value, to_keys_values, ctx.heads)
        return query_gradient, key_value_gradient, None, None, None


def step_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V (B, H, T, d) of q (B, H, T, d), k and v (B, H, S, d); not differentiable.

    The mask is broadcast to (B, H, T, S), True at keys that a query attends to.
    """
    q = q * q.size(-1) ** -0.5
    by_sums = q.size(2) == 1 and k.size(2) < _BMM_KEYS
    scores = (k * q).sum(-1).unsqueeze(2) if by_sums else _batched_product(q, k.transpose(2, 3))
    if mask is not None:
        scores.masked_fill_(~mask, float("-inf"))
    if scores.size(-1) >= _TORCH_SOFTMAX_KEYS or scores.dtype != torch.float32:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
        weights.div_(weights.sum(-1, keepdim=True))
    return (v * weights.transpose(2, 3)).sum(2, keepdim=True) if by_sums else _batched_product(weights, v)


def _batched_product(a: Tensor, b: Tensor) -> Tensor:
    """Return a (B, H, I, J) times b (B, H, J, K), (B, H, I, K)."""
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1)).view(*a.shape[:3], -1)


def _split_heads(x: Tensor, count: int, heads: int) -> Tensor:
    """Copy `count` vectors of each token, (B, T, count·D), to (count, B·H, T, d)."""
    sentences, length, width = x.shape
    by_head = x.view(sentences, length, count, heads, -1).permute(2, 0, 3, 1, 4)
    return by_head.reshape(count, sentences * heads, length, width // count // heads)


def _merge_heads_into(out: Tensor, x: Tensor, heads: int) -> None:
    """Copy (count, B·H, T, d) into (B, T, count·D)."""
    sentences, length, _ = out.shape
    out.view(sentences, length, len(x), heads, -1).permute(2, 0, 3, 1, 4).copy_(
        x.view(len(x), sentences, heads, length, -1)
    )
