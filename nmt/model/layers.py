"""The layers of the Transformer (Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020).

B sentences, T length, D width; N target tokens and M source tokens of all groups, packed. While decoding step by step:
N rows, each the newest token of one hypothesis.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache
from nmt.model.kernels import Dropout, Linear
from nmt.model.packing import Packing, pack
from nmt.model.positions import position_encoding


class Embedding(nn.Module):
    """Token embeddings scaled by sqrt(D), plus positions if they are absolute, with dropout."""

    def __init__(self, settings: ModelSettings, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = settings.dim**0.5
        self.dropout = Dropout(settings.dropout)
        self.positions = position_encoding(settings, "embedding")

    def forward(self, groups: Sequence[Tensor]) -> Tensor:
        """Map groups of ids (B, T) to vectors of all their tokens (N, D)."""
        embedded = self.tokens(pack(groups)) * self.scale
        added = [(self.positions.embed(0, ids.size(1)), ids.shape) for ids in groups]
        positions = [vectors.expand(*shape, -1) for vectors, shape in added if vectors is not None]
        return cast(Tensor, self.dropout(embedded + pack(positions) if positions else embedded))

    def at(self, ids: Tensor, position: int) -> Tensor:
        """Map ids (N), all at one position, to (N, D)."""
        embedded: Tensor = self.tokens(ids) * self.scale
        vector = self.positions.embed(position, position + 1)
        return embedded if vector is None else embedded + vector


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between them; SwiGLU gates the inner one (Shazeer 2020)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.gated = settings.activation == "swiglu"
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "gelu": F.gelu, "swiglu": F.silu}
        self.activation = activations[settings.activation]
        self.inner = Linear(settings.dim, settings.feed_forward * (2 if self.gated else 1))
        self.outer = Linear(settings.feed_forward, settings.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        inner = self.inner(x)
        if self.gated:
            gate, inner = inner.chunk(2, dim=-1)
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        return cast(Tensor, self.outer(inner))


def normalization(settings: ModelSettings) -> nn.Module:
    """Return a layer norm (Ba et al. 2016) or x / sqrt(mean(x²) + ε) times a weight (Zhang & Sennrich 2019)."""
    return nn.LayerNorm(settings.dim) if settings.normalization == "layer" else nn.RMSNorm(settings.dim, eps=1e-5)


class Sublayer(nn.Module):
    """Residual connection, norm and dropout around attention or feed-forward f, all (..., D)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = normalization(settings)
        self.dropout = Dropout(settings.dropout)

    def normalized_before(self, x: Tensor) -> Tensor:
        """Return the input of f: norm(x) with pre-norm, x with post-norm."""
        return cast(Tensor, self.norm(x)) if self.pre else x

    def around(self, f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return x + dropout(f(norm(x))) with pre-norm, norm(x + dropout(f(x))) with post-norm."""
        output = x + self.dropout(f(self.normalized_before(x)))
        return output if self.pre else cast(Tensor, self.norm(output))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(settings, "encoder")
        self.feed_forward = FeedForward(settings)
        self.attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map (M, D) to (M, D)."""
        x = self.attention_sublayer.around(partial(self.attention.self_attend, packing=packing), x)
        return self.feed_forward_sublayer.around(self.feed_forward, x)


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, attention to the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings, "decoder")
        self.cross_attention = MultiHeadAttention(settings, "cross")
        self.feed_forward = FeedForward(settings)
        self.self_attention_sublayer = Sublayer(settings)
        self.cross_attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Map all target positions at once, (N, D) to (N, D); memory is (M, D)."""
        return self.attend_to_source(self.attend_to_target(x, packing), packing, memory, memory_packing)

    def attend_to_target(self, x: Tensor, packing: Packing) -> Tensor:
        """Apply the first sublayer of `forward`, (N, D) to (N, D)."""
        attend = partial(self.self_attention.self_attend, packing=packing, causal=True)
        return self.self_attention_sublayer.around(attend, x)

    def attend_to_source(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Apply the other two sublayers of `forward`, (N, D) to (N, D); memory is (M, D)."""
        attend = self.cross_attention.cross_attend
        x = self.cross_attention_sublayer.around(lambda x: attend(x, packing, memory, memory_packing), x)
        return self.feed_forward_sublayer.around(self.feed_forward, x)

    def step(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Map the newest position of each row, (N, D) to (N, D), and append it to the cache of this layer."""
        x = self.self_attention_sublayer.around(partial(self.self_attention.step_self, layer=layer, cache=cache), x)
        x = self.cross_attention_sublayer.around(partial(self.cross_attention.step_cross, layer=layer, cache=cache), x)
        return self.feed_forward_sublayer.around(self.feed_forward, x)
