"""The layers that a Transformer stacks (Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020).

N target tokens and M source tokens of all groups, packed, or N rows, the newest token of each hypothesis; D width.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache, LayerCache
from nmt.model.cpu.dropout import Dropout
from nmt.model.cpu.linear import Linear
from nmt.model.packing import Packing
from nmt.model.relative import RelativeAttention
from nmt.model.rotary import RotaryAttention


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between them; SwiGLU gates the inner one (Shazeer 2020)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.gated = settings.activation == "swiglu"
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "gelu": F.gelu, "swiglu": F.silu}
        self.activation = activations[settings.activation]
        self.inner = Linear(settings.dim, settings.feed_forward * (2 if self.gated else 1))
        self.outer = Linear(settings.feed_forward, settings.dim)
        self.dropout = Dropout(settings.feed_forward_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        inner = self.inner(x)
        if self.gated:
            gate, inner = inner.chunk(2, dim=-1)
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        outer: Tensor = self.outer(self.dropout(inner))
        return outer


def normalization(settings: ModelSettings) -> nn.Module:
    """Return a layer norm (Ba et al. 2016) or x / sqrt(mean(x²) + ε) times a weight (Zhang & Sennrich 2019)."""
    return nn.LayerNorm(settings.dim) if settings.normalization == "layer" else nn.RMSNorm(settings.dim, eps=1e-5)


def self_attention(settings: ModelSettings, causal: bool) -> MultiHeadAttention:
    """Return attention to the own sentence, which knows positions if the embeddings do not."""
    shape = (settings.dim, settings.heads, settings.attention_dropout)
    if settings.positions == "relative":
        return RelativeAttention(*shape, settings.max_distance, causal)
    return RotaryAttention(*shape) if settings.positions == "rotary" else MultiHeadAttention(*shape)


class Sublayer(nn.Module):
    """The frame around attention and feed-forward f: x + f(norm(x)) with pre-norm, norm(x + f(x)) with post-norm.

    So f reads `enter(x)`, and `leave(x, f(…))` is what comes out, dropout on f's part included; all (..., D).
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = normalization(settings)
        self.dropout = Dropout(settings.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """Return what f reads of x."""
        return cast(Tensor, self.norm(x)) if self.pre else x

    def leave(self, x: Tensor, found: Tensor) -> Tensor:
        """Return x together with what f found."""
        x = x + self.dropout(found)
        return x if self.pre else cast(Tensor, self.norm(x))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = self_attention(settings, causal=False)
        self.feed_forward = FeedForward(settings)
        self.attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map (M, D) to (M, D)."""
        found = self.attention.to_self(self.attention_sublayer.enter(x), packing)
        x = self.attention_sublayer.leave(x, found)
        found = self.feed_forward(self.feed_forward_sublayer.enter(x))
        return self.feed_forward_sublayer.leave(x, found)


class DecoderLayer(nn.Module):
    """Causal self-attention over the target so far, attention to the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = self_attention(settings, causal=True)
        self.cross_attention = MultiHeadAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.feed_forward = FeedForward(settings)
        self.self_attention_sublayer = Sublayer(settings)
        self.cross_attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Map all target positions at once, (N, D) to (N, D); memory is (M, D)."""
        found = self.self_attention.to_self(self.self_attention_sublayer.enter(x), packing, causal=True)
        x = self.self_attention_sublayer.leave(x, found)
        sought = self.cross_attention_sublayer.enter(x)
        found = self.cross_attention.to_memory(sought, packing, memory, memory_packing)
        x = self.cross_attention_sublayer.leave(x, found)
        found = self.feed_forward(self.feed_forward_sublayer.enter(x))
        return self.feed_forward_sublayer.leave(x, found)

    def step(self, x: Tensor, layer: LayerCache, cache: DecoderCache) -> Tensor:
        """Map the newest position of each row, (N, D) to (N, D), and append it to the layer's own cache."""
        found = self.self_attention.to_newest(self.self_attention_sublayer.enter(x), layer, cache)
        x = self.self_attention_sublayer.leave(x, found)
        found = self.cross_attention.to_source(self.cross_attention_sublayer.enter(x), layer, cache)
        x = self.cross_attention_sublayer.leave(x, found)
        found = self.feed_forward(self.feed_forward_sublayer.enter(x))
        return self.feed_forward_sublayer.leave(x, found)
