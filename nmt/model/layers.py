"""The layers that a Transformer stacks (Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020).

N target tokens and M source tokens of all groups, packed; B sentences, D width, K beam, H heads, d = D/H.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import LayerCache
from nmt.model.dropout import Dropout
from nmt.model.packing import Packing


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between them; SwiGLU gates the inner one (Shazeer 2020)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.gated = settings.activation == "swiglu"
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swiglu": F.silu}
        self.activation = activations[settings.activation]
        self.inner = nn.Linear(settings.dim, settings.feed_forward * (2 if self.gated else 1))
        self.outer = nn.Linear(settings.feed_forward, settings.dim)
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


class Sublayer(nn.Module):
    """The frame around attention and feed-forward: normalise, apply, drop out, add to what came in."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.dim)
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Tensor, apply: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x + f(norm(x)) with pre-norm, norm(x + f(x)) with post-norm; all (..., D)."""
        if self.pre:
            return x + cast(Tensor, self.dropout(apply(self.norm(x))))
        return cast(Tensor, self.norm(x + self.dropout(apply(x))))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.feed_forward = FeedForward(settings)
        self.attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map (M, D) to (M, D)."""
        x = self.attention_sublayer(x, lambda y: self.attention.to_self(y, packing))
        x = self.feed_forward_sublayer(x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    """Causal self-attention over the target so far, attention to the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.cross_attention = MultiHeadAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.feed_forward = FeedForward(settings)
        self.self_attention_sublayer = Sublayer(settings)
        self.cross_attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Map all target positions at once, (N, D) to (N, D); memory is (M, D)."""
        x = self.self_attention_sublayer(x, lambda y: self.self_attention.to_self(y, packing, causal=True))
        x = self.cross_attention_sublayer(
            x, lambda y: self.cross_attention.to_memory(y, packing, memory, memory_packing)
        )
        x = self.feed_forward_sublayer(x, self.feed_forward)
        return x

    def step(self, x: Tensor, cache: LayerCache, memory_mask: Tensor | None) -> Tensor:
        """Map the newest position of each hypothesis, (B, K, D) to (B, K, D), and append it to the cache.

        The K hypotheses of a sentence stand side by side as K queries to the one source that they share.
        """

        def attend_to_target(y: Tensor) -> Tensor:
            rows = y.flatten(0, 1).unsqueeze(1)  # (B, K, D) -> (B·K, 1, D)
            keys, values = cache.append(*self.self_attention.project_memory(rows))
            return self.self_attention.attend(rows, keys, values).view_as(y)

        def attend_to_source(y: Tensor) -> Tensor:
            return self.cross_attention.attend(y, cache.source_keys, cache.source_values, memory_mask)

        x = self.self_attention_sublayer(x, attend_to_target)
        x = self.cross_attention_sublayer(x, attend_to_source)
        x = self.feed_forward_sublayer(x, self.feed_forward)
        return x
