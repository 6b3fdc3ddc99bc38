"""The Transformer again, slow and plain: one sentence, one head, one position at a time, from the papers' formulas.

It shares nothing with `nmt.model` but the names of the weights. All numbers are float64; positions count from 0.
"""

import math

import torch
from torch import Tensor

from nmt.config import ModelSettings

Weights = dict[str, Tensor]


def encode(weights: Weights, settings: ModelSettings, source: list[int]) -> Tensor:
    """Return the memory (S, D) of one source sentence."""
    x = _embed(weights, settings, "source", source)
    for layer in range(settings.encoder_layers):
        at = f"encoder.{layer}"
        x = _sublayer(
            weights,
            settings,
            f"{at}.attention_sublayer",
            x,
            lambda y, at=at: _attention(weights, settings, f"{at}.attention", y, y, False),
        )
        x = _sublayer(
            weights,
            settings,
            f"{at}.feed_forward_sublayer",
            x,
            lambda y, at=at: _feed_forward(weights, settings, f"{at}.feed_forward", y),
        )
    return _normalize(weights, settings, "encoder_norm", x) if settings.norm == "pre" else x


def decode(weights: Weights, settings: ModelSettings, target: list[int], memory: Tensor) -> Tensor:
    """Return the logits (T, V) after each prefix of a target sentence that begins with its start symbol."""
    x = _embed(weights, settings, "target", target)
    for layer in range(settings.decoder_layers):
        at = f"decoder.{layer}"
        x = _sublayer(
            weights,
            settings,
            f"{at}.self_attention_sublayer",
            x,
            lambda y, at=at: _attention(weights, settings, f"{at}.self_attention", y, y, True),
        )
        x = _sublayer(
            weights,
            settings,
            f"{at}.cross_attention_sublayer",
            x,
            lambda y, at=at: _attention(weights, settings, f"{at}.cross_attention", y, memory, False),
        )
        x = _sublayer(
            weights,
            settings,
            f"{at}.feed_forward_sublayer",
            x,
            lambda y, at=at: _feed_forward(weights, settings, f"{at}.feed_forward", y),
        )
    if settings.norm == "pre":
        x = _normalize(weights, settings, "decoder_norm", x)
    return x @ weights["output.weight"].T


def position(place: int, dim: int) -> Tensor:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))."""
    numbers = []
    for pair in range(dim // 2):
        angle = place / 10000 ** (2 * pair / dim)
        numbers += [math.sin(angle), math.cos(angle)]
    return torch.tensor(numbers, dtype=torch.float64)


def rotated(x: Tensor, place: int) -> Tensor:
    """Return R x: the pair (x_i, x_{i+d/2}) turned by place / 10000^(2i/d), as the paper's matrix does."""
    pairs = len(x) // 2
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(pairs):
        angle = place / 10000 ** (2 * i / len(x))
        matrix[i, i] = matrix[i + pairs, i + pairs] = math.cos(angle)
        matrix[i, i + pairs], matrix[i + pairs, i] = -math.sin(angle), math.sin(angle)
    return matrix @ x


def _embed(weights: Weights, settings: ModelSettings, side: str, ids: list[int]) -> Tensor:
    rows = []
    for place, token in enumerate(ids):
        row = weights[f"{side}_embedding.tokens.weight"][token] * math.sqrt(settings.dim)
        if settings.positions == "learned":
            row = row + weights[f"{side}_embedding.positions"][place]
        elif settings.positions == "sinusoidal":
            row = row + position(place, settings.dim)
        rows.append(row)
    return torch.stack(rows)


def _sublayer(weights: Weights, settings: ModelSettings, at: str, x: Tensor, function) -> Tensor:  # type: ignore[no-untyped-def]
    if settings.norm == "pre":
        return x + function(_normalize(weights, settings, f"{at}.norm", x))
    return _normalize(weights, settings, f"{at}.norm", x + function(x))


def _normalize(weights: Weights, settings: ModelSettings, at: str, x: Tensor) -> Tensor:
    rows = []
    for row in x:
        if settings.normalization == "rms":
            mean_square = (row**2).sum() / len(row)
            rows.append(row / torch.sqrt(mean_square + 1e-5) * weights[f"{at}.weight"])
            continue
        mean = row.sum() / len(row)
        variance = ((row - mean) ** 2).sum() / len(row)
        rows.append((row - mean) / torch.sqrt(variance + 1e-5) * weights[f"{at}.weight"] + weights[f"{at}.bias"])
    return torch.stack(rows)


def _linear(weights: Weights, at: str, x: Tensor) -> Tensor:
    return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]


def _attention(weights: Weights, settings: ModelSettings, at: str, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
    own = x is memory  # only attention to the own sentence knows places
    width, furthest = settings.dim // settings.heads, settings.max_distance
    queries = _linear(weights, f"{at}.query", x)
    keys = _linear(weights, f"{at}.key_value", memory)[:, : settings.dim]
    values = _linear(weights, f"{at}.key_value", memory)[:, settings.dim :]
    rows = []
    for t in range(len(x)):
        heads = []
        for head in range(settings.heads):
            part = slice(head * width, (head + 1) * width)
            seen = range(t + 1) if causal else range(len(memory))
            query, found = queries[t, part], {s: (keys[s, part], values[s, part]) for s in seen}
            if own and settings.positions == "rotary":
                query = rotated(query, t)
                found = {s: (rotated(key, s), value) for s, (key, value) in found.items()}
            if own and settings.positions == "relative":
                row = {s: max(-furthest, min(furthest, s - t)) + furthest for s in seen}
                a, b = weights[f"{at}.key_positions"], weights[f"{at}.value_positions"]
                found = {s: (key + a[row[s]], value + b[row[s]]) for s, (key, value) in found.items()}
            exponentials = [torch.exp(query @ key / math.sqrt(width)) for key, _ in found.values()]
            mixed = [e / sum(exponentials) * value for e, (_, value) in zip(exponentials, found.values(), strict=True)]
            heads.append(torch.stack(mixed).sum(0))
        rows.append(torch.cat(heads))
    return _linear(weights, f"{at}.output", torch.stack(rows))


def _feed_forward(weights: Weights, settings: ModelSettings, at: str, x: Tensor) -> Tensor:
    inner = _linear(weights, f"{at}.inner", x)
    if settings.activation == "relu":
        inner = torch.where(inner > 0, inner, 0.0)
    elif settings.activation == "gelu":
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
    else:  # SwiGLU (Shazeer 2020): Swish(x W) * (x V)
        gate, passed = inner[:, : settings.feed_forward], inner[:, settings.feed_forward :]
        inner = gate / (1 + torch.exp(-gate)) * passed
    return _linear(weights, f"{at}.outer", inner)
