"""The Transformer of docs/transformer.py with the weights of a model of `nmt`, and the variants that the page lacks.

The page is the oracle of `nmt.model`: both share only the weights. Here it gets them, under its own names, and what
came after the paper: other scores, activations, positions. Numbers have the type of the weights, in tests float64.

B sentences, S source length, T target length, D width, H heads, d = D/H, V vocabulary.
"""

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.model.transformer import Transformer


def load_page() -> ModuleType:
    """Return docs/transformer.py as a module."""
    file = Path(__file__).parents[2] / "docs" / "transformer.py"
    spec = importlib.util.spec_from_file_location("transformer_page", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page: Any = load_page()


class ReferenceTransformer:
    """The Transformer of the page with these settings and weights, one sentence at a time."""

    def __init__(self, settings: ModelSettings, weights: dict[str, Tensor]) -> None:
        sizes = page.Settings(
            settings.encoder_layers,
            settings.dim,
            settings.heads,
            settings.feed_forward,
            dropout=0.0,
            norm=settings.norm,
        )
        self.model = VariantTransformer(sizes, len(weights["output.weight"])).eval()
        self.model.decoder = nn.ModuleList(page.DecoderLayer(sizes) for _ in range(settings.decoder_layers))
        self.model.is_sinusoidal = settings.positions == "sinusoidal"
        for norm in self.model.modules():
            if isinstance(norm, nn.LayerNorm):
                norm.eps = settings.norm_epsilon
        for name, attention in [*self.model.named_modules()]:
            if isinstance(attention, page.MultiHeadAttention):
                positions = settings.positions if name.endswith("self_attention") else "none"
                self._replace(name, VariantAttention(sizes, settings, positions))
            elif isinstance(attention, page.FeedForward) and settings.activation != "relu":
                self._replace(name, VariantFeedForward(settings.activation))
        self._set_weights(weights)

    def encode(self, source: list[int]) -> Tensor:
        """Return the memory (S, D) of a source sentence."""
        memory: Tensor = self.model.encode(torch.tensor([source]))
        return memory[0]

    def decode(self, target: list[int], memory: Tensor) -> Tensor:
        """Return the logits (T, V) of the next token after each prefix of a target that begins with `<s>`."""
        mask = torch.ones(1, 1, 1, len(memory), dtype=torch.bool)
        logits: Tensor = self.model.decode(torch.tensor([target]), memory.unsqueeze(0), mask)
        return logits[0]

    def _replace(self, name: str, module: nn.Module) -> None:
        parent, _, child = name.rpartition(".")
        setattr(self.model.get_submodule(parent), child, module)

    def _set_weights(self, weights: dict[str, Tensor]) -> None:
        """Make the weights of a model of `nmt`, and slices of them, those of the page; gradients reach them."""
        self.model.source_matrix = weights["source_embedding.tokens.weight"]
        self.model.output_bias = weights.get("output_bias", torch.zeros(1))[: len(weights["output.weight"])]
        self.model.target_matrix = weights["target_embedding.tokens.weight"]
        self.model.source_positions = weights.get("source_embedding.learned.weight")
        self.model.target_positions = weights.get("target_embedding.learned.weight")
        _set(self.model.embedding, "weight", weights["output.weight"])
        for name, value in weights.items():
            stack, number, rest = [*name.split(".", 2), "", ""][:3]
            if name.endswith(("norm.weight", "norm.bias")) and not number.isdigit():
                _set(self.model.get_submodule(stack), number, value)
            elif number.isdigit():
                self._set_layer_weight(f"{stack}.{number}", rest, value)

    def _set_layer_weight(self, layer: str, name: str, value: Tensor) -> None:
        part, inner, leaf = [*name.split("."), ""][:3]
        order = ("self_attention_sublayer", "cross_attention_sublayer", "feed_forward_sublayer")
        if part.endswith("_sublayer"):
            place = order.index(part) if layer.startswith("decoder") else int(part == "feed_forward_sublayer")
            _set(self.model.get_submodule(f"{layer}.residuals.{place}.norm"), leaf, value)
            return
        attention = "self_attention" if part == "attention" else part
        module = self.model.get_submodule(f"{layer}.{attention}")
        if inner == "score":
            setattr(module, f"score_{leaf}", value)
            return
        names = {
            "query_key_value": ("W_Q", "W_K", "W_V"),
            "query": ("W_Q",),
            "key_value": ("W_K", "W_V"),
            "output": ("W_O",),
            "inner": ("W_1",),
            "outer": ("W_2",),
        }[inner]
        for of_page, one in zip(names, value.chunk(len(names)), strict=True):
            _set(module.get_submodule(of_page), leaf, one)


def reference_of(model: Transformer) -> ReferenceTransformer:
    """Return the reference Transformer with the weights of a model."""
    weights: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    weights["output.weight"] = weights["output.weight"][: model.output.out_features]  # without padding
    return ReferenceTransformer(model.settings, weights)


def _set(module: nn.Module, name: str, value: Tensor) -> None:
    """Replace a parameter by a tensor that may depend on others."""
    module._parameters.pop(name, None)
    setattr(module, name, value)


class VariantTransformer(page.Transformer):  # type: ignore[misc]
    """The Transformer of the page with embeddings of their own for each side; sinusoids may be left out."""

    def encode(self, source: Tensor) -> Any:
        self.matrix, self.positions = self.source_matrix, self.source_positions
        return super().encode(source)

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Any:
        self.matrix, self.positions = self.target_matrix, self.target_positions
        return super().decode(target, memory, source_mask) + self.output_bias

    def embed(self, ids: Tensor) -> Tensor:
        x = self.matrix[ids] * math.sqrt(self.settings.dim)
        if self.positions is not None:  # learned (Gehring et al. 2017)
            x = x + self.positions[: ids.size(1)]
        return x + page.positional_encoding(ids.size(1), x.size(-1)).to(x) if self.is_sinusoidal else x


class VariantAttention(page.MultiHeadAttention):  # type: ignore[misc]
    """Attention with other scores and positions; `weights` are those of the last call, (H, T, S)."""

    def __init__(self, sizes: Any, settings: ModelSettings, positions: str) -> None:
        super().__init__(sizes)
        self.score, self.positions, self.longest = settings.attention_score, positions, settings.max_distance

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        Q, K, V = self.split(self.W_Q(x)), self.split(self.W_K(memory)), self.split(self.W_V(memory))
        if self.positions == "rotary":  # Su et al. 2021
            Q, K = (torch.stack([rotate(row, t) for t, row in enumerate(y.unbind(2))], dim=2) for y in (Q, K))
        scores, added = self.scores(Q, K), 0.0
        if self.positions == "relative":  # Shaw et al. 2018, equations 3 and 4
            distance = torch.arange(K.size(2)) - torch.arange(Q.size(2)).unsqueeze(1)  # (T, S)
            clipped = distance.clamp(-self.longest, self.longest) + self.longest
            # the vectors of a decoder end at distance 0: later keys are masked
            a, b = (
                vectors[clipped.clamp(max=len(vectors) - 1)]
                for vectors in (self.score_key_vectors, self.score_value_vectors)
            )
            scores = ((K.unsqueeze(2) + a) @ Q.unsqueeze(-1)).squeeze(-1) / math.sqrt(Q.size(-1))
            added = b
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        self.weights = weights[0].detach()
        if self.score == "scaled_dot" and self.positions != "relative":
            heads = page.attention(Q, K, V, mask)
        else:
            heads = (weights.unsqueeze(-1) * (V.unsqueeze(2) + added)).sum(3)
        return self.W_O(heads.transpose(1, 2).flatten(2))

    def scores(self, Q: Tensor, K: Tensor) -> Tensor:
        """Return the scores (B, H, T, S) of queries (B, H, T, d) and keys (B, H, S, d)."""
        if self.score == "bilinear":  # Luong et al. 2015
            return torch.einsum("bhti,hij,bhsj->bhts", Q, self.score_weight, K)
        if self.score == "additive":  # Bahdanau et al. 2015
            return torch.einsum(
                "hi,bhtsi->bhts", self.score_vector.flatten(1), (Q.unsqueeze(3) + K.unsqueeze(2)).tanh()
            )
        return torch.einsum("bhti,bhsi->bhts", Q, K) / (math.sqrt(Q.size(-1)) if self.score == "scaled_dot" else 1)


class VariantFeedForward(nn.Module):
    """A feed-forward network with GELU, Swish or SwiGLU."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.W_1, self.W_2 = nn.Linear(1, 1), nn.Linear(1, 1)  # their weights are set later

    def forward(self, x: Tensor) -> Tensor:
        inner = self.W_1(x)
        if self.activation == "gelu":
            inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        elif self.activation == "swish":
            inner = inner / (1 + torch.exp(-inner))
        else:  # SwiGLU (Shazeer 2020): Swish(x W) * (x V)
            gate, linear = inner.chunk(2, dim=-1)
            inner = gate / (1 + torch.exp(-gate)) * linear
        return self.W_2(inner)


def rotate(x: Tensor, position: int) -> Tensor:
    """Return R x: the pair (x_i, x_{i+d/2}) rotated by position / 10000^(2i/d), as the paper's matrix does."""
    width, pairs = x.size(-1), x.size(-1) // 2
    matrix = torch.zeros(width, width, dtype=x.dtype)
    for i in range(pairs):
        angle = position / 10000 ** (2 * i / width)
        matrix[i, i] = matrix[i + pairs, i + pairs] = math.cos(angle)
        matrix[i, i + pairs], matrix[i + pairs, i] = -math.sin(angle), math.sin(angle)
    return x @ matrix.T
