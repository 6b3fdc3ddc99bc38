"""A reference Transformer from the formulas of the papers: one sentence, one head, one position at a time.

It is slow and short, so that it can be checked by reading. Tests compare `nmt.model` with it; the two share only the
names of the weights. `encode` and `decode` are figure 1 of Vaswani et al. (2017); the other methods follow. All
numbers are float64; positions count from 0.

S source length, T target length, D width, H heads, d = D/H, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nmt.config import ModelSettings


@dataclass(frozen=True)
class ReferenceTransformer:
    """A Transformer with these settings and weights."""

    settings: ModelSettings
    weights: dict[str, Tensor]

    def encode(self, source: list[int]) -> Tensor:
        """Return the memory (S, D) of a source sentence."""
        x = self.embed("source", source)
        for n in range(self.settings.encoder_layers):
            attention = partial(self.self_attention, f"encoder.{n}.attention")
            feed_forward = partial(self.feed_forward, f"encoder.{n}.feed_forward")
            x = self.sublayer(f"encoder.{n}.attention_sublayer", x, attention)
            x = self.sublayer(f"encoder.{n}.feed_forward_sublayer", x, feed_forward)
        return self.normalize("encoder_norm", x) if self.settings.norm == "pre" else x

    def decode(self, target: list[int], memory: Tensor) -> Tensor:
        """Return the logits (T, V) of the next token after each prefix of a target that begins with `<s>`."""
        x = self.embed("target", target)
        for n in range(self.settings.decoder_layers):
            self_attention = partial(self.self_attention, f"decoder.{n}.self_attention", causal=True)
            cross_attention = partial(self.cross_attention, f"decoder.{n}.cross_attention", memory=memory)
            feed_forward = partial(self.feed_forward, f"decoder.{n}.feed_forward")
            x = self.sublayer(f"decoder.{n}.self_attention_sublayer", x, self_attention)
            x = self.sublayer(f"decoder.{n}.cross_attention_sublayer", x, cross_attention)
            x = self.sublayer(f"decoder.{n}.feed_forward_sublayer", x, feed_forward)
        x = self.normalize("decoder_norm", x) if self.settings.norm == "pre" else x
        return x @ self.weights["output.weight"].T

    def sublayer(self, name: str, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return norm(x + f(x)) with post-norm (section 3.1), x + f(norm(x)) with pre-norm (Xiong et al. 2020)."""
        if self.settings.norm == "post":
            return self.normalize(f"{name}.norm", x + function(x))
        return x + function(self.normalize(f"{name}.norm", x))

    def normalize(self, name: str, x: Tensor) -> Tensor:
        """Return the layer norm (Ba et al. 2016) of each row."""
        rows = []
        for row in x:
            mean = row.sum() / len(row)
            variance = ((row - mean) ** 2).sum() / len(row)
            standard = (row - mean) / torch.sqrt(variance + self.settings.norm_epsilon)
            rows.append(standard * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])
        return torch.stack(rows)

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def self_attention(self, name: str, x: Tensor, causal: bool = False) -> Tensor:
        """Attend from each position to all of the sentence, if `causal` up to itself only (section 3.2.3)."""
        visible = [range(t + 1) if causal else range(len(x)) for t in range(len(x))]
        return self.multi_head_attention(name, x, x, visible, self.settings.positions)

    def cross_attention(self, name: str, x: Tensor, memory: Tensor) -> Tensor:
        """Attend from each target position to the whole source."""
        return self.multi_head_attention(name, x, memory, [range(len(memory))] * len(x), "none")

    def multi_head_attention(
        self, name: str, x: Tensor, memory: Tensor, visible: list[range], positions: str
    ) -> Tensor:
        """Attend from x (T, D) to the `visible` rows of memory (S, D) in H heads, and project (section 3.2.2)."""
        dim, width = self.settings.dim, self.settings.dim // self.settings.heads
        if f"{name}.query.weight" in self.weights:
            queries, keys_values = self.linear(f"{name}.query", x), self.linear(f"{name}.key_value", memory)
        else:
            queries, keys_values = self.linear(f"{name}.query_key_value", x).split([dim, 2 * dim], dim=1)
        keys, values = keys_values[:, :dim], keys_values[:, dim:]
        rows = []
        for t in range(len(x)):
            heads = []
            for head in range(self.settings.heads):
                part = slice(head * width, (head + 1) * width)
                pairs = [
                    self.place(name, positions, (t, s), (queries[t, part], keys[s, part], values[s, part]))
                    for s in visible[t]
                ]
                weights = self.attention_weights(name, head, pairs)
                terms = [weight * value for weight, (_, _, value) in zip(weights, pairs, strict=True)]
                heads.append(torch.stack(terms).sum(0))
            rows.append(torch.cat(heads))
        return self.linear(f"{name}.output", torch.stack(rows))

    def attention_weights(self, name: str, head: int, pairs: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
        """Return the weights of one query over its visible keys: the softmax of the scores (section 3.2.1)."""
        exponentials = [torch.exp(self.score(name, head, query, key)) for query, key, _ in pairs]
        return [exponential / sum(exponentials) for exponential in exponentials]

    def score(self, name: str, head: int, query: Tensor, key: Tensor) -> Tensor:
        """Return the score of a query and a key, (d) each: before the softmax of section 3.2.1."""
        kind = self.settings.attention_score
        if kind == "bilinear":  # Luong et al. 2015
            return query @ self.weights[f"{name}.score.weight"][head] @ key
        if kind == "additive":  # Bahdanau et al. 2015
            return self.weights[f"{name}.score.vector"][head].flatten() @ torch.tanh(query + key)
        return query @ key / (math.sqrt(len(key)) if kind == "scaled_dot" else 1)

    def place(
        self, name: str, positions: str, at: tuple[int, int], vectors: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Encode the positions t and s of a query and of a key with its value, (d) each, where attention does that."""
        (t, s), (query, key, value) = at, vectors
        if positions == "rotary":  # Su et al. 2021
            return rotate(query, t), rotate(key, s), value
        if positions == "relative":  # Shaw et al. 2018, equations 3 and 4
            longest = self.settings.max_distance
            row = max(-longest, min(longest, s - t)) + longest
            a, b = self.weights[f"{name}.score.key_vectors"], self.weights[f"{name}.score.value_vectors"]
            return query, key + a[row], value + b[row]
        return query, key, value

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        """Return two linear maps with a non-linearity between them (section 3.3)."""
        inner = self.linear(f"{name}.inner", x)
        if self.settings.activation == "relu":
            inner = torch.where(inner > 0, inner, 0.0)
        elif self.settings.activation == "gelu":
            inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        else:  # SwiGLU (Shazeer 2020): Swish(x W) * (x V)
            gate, linear = inner[:, : self.settings.feed_forward], inner[:, self.settings.feed_forward :]
            inner = gate / (1 + torch.exp(-gate)) * linear
        return self.linear(f"{name}.outer", inner)

    def embed(self, side: str, ids: list[int]) -> Tensor:
        """Return the embeddings times sqrt(D) (section 3.4), plus the encoding of each position (section 3.5)."""
        rows = []
        for position, token in enumerate(ids):
            row = self.weights[f"{side}_embedding.tokens.weight"][token] * math.sqrt(self.settings.dim)
            if self.settings.positions == "sinusoidal":
                row = row + sinusoid(position, self.settings.dim)
            elif self.settings.positions == "learned":  # Gehring et al. 2017
                row = row + self.weights[f"{side}_embedding.learned.weight"][position]
            rows.append(row)
        return torch.stack(rows)


def sinusoid(position: int, dim: int) -> Tensor:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D))."""
    numbers = []
    for pair in range(dim // 2):
        angle = position / 10000 ** (2 * pair / dim)
        numbers += [math.sin(angle), math.cos(angle)]
    return torch.tensor(numbers, dtype=torch.float64)


def rotate(x: Tensor, position: int) -> Tensor:
    """Return R x: the pair (x_i, x_{i+d/2}) rotated by position / 10000^(2i/d), as the paper's matrix does."""
    pairs = len(x) // 2
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(pairs):
        angle = position / 10000 ** (2 * i / len(x))
        matrix[i, i] = matrix[i + pairs, i + pairs] = math.cos(angle)
        matrix[i, i + pairs], matrix[i + pairs, i] = -math.sin(angle), math.sin(angle)
    return matrix @ x
