"""The Transformer (Vaswani et al. 2017; pre-norm: Xiong et al. 2020), and its attention weights for figures.

B sentences, S source length, T target length, D width, H heads, L layers, V vocabulary; N target rows and M source rows
of a batch, one a token (`nmt.batching.batch.Rows`). While decoding step by step: N rows, each the newest token of one
hypothesis.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.batching.batch import Batch, Rows, same_tiles
from nmt.config import ModelSettings
from nmt.kernels.reference import Kernels, Residual
from nmt.model.attention import Computing, CrossAttention, Linear, SelfAttention
from nmt.model.cache import DecoderCache
from nmt.model.positions import sinusoids
from nmt.model.scores import Score
from nmt.text.tokenizer import PAD

Matrix = TypeVar("Matrix", nn.Embedding, Linear)
LayerWeights = tuple[list[Tensor] | None, list[Tensor] | None]


class Transformer(Computing):
    """Encoder and decoder over token ids."""

    def __init__(
        self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, initialized: bool = True
    ) -> None:
        """Build a model; with `initialized` False, its weights must be read from a file."""
        super().__init__()
        self.settings = settings
        target_tokens = with_padding(nn.Embedding(target_vocabulary, settings.dim))
        all_tied = settings.tied_embeddings == "all"
        source_tokens = target_tokens if all_tied else with_padding(nn.Embedding(source_vocabulary, settings.dim))
        self.source_embedding = Embedding(settings, source_tokens)
        self.target_embedding = Embedding(settings, target_tokens)
        encoder = nn.ModuleList([EncoderLayer(settings) for _ in range(settings.encoder_layers)])
        decoder = nn.ModuleList([DecoderLayer(settings) for _ in range(settings.decoder_layers)])
        self.encoder, self.decoder = cast("Sequence[EncoderLayer]", encoder), cast("Sequence[DecoderLayer]", decoder)
        # post-norm layers end in a norm already
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(settings.dim, settings.norm_epsilon) if settings.norm == "pre" else None for _ in range(2)
        )
        self.output = with_padding(Linear(settings.dim, target_vocabulary, bias=False))
        # separate from the linear map: a bf16 product with a bias has a bf16 result on GPUs, but logits must be fp32
        self.output_bias = nn.Parameter(torch.zeros(len(self.output.weight))) if settings.output_bias else None
        if settings.tied_embeddings != "none":
            self.output.weight = target_tokens.weight
        if initialized:
            initialize(self)

    def compute_with(self, kernels: Kernels) -> None:
        """Set the kernels of all layers; they must be for the device of the weights."""
        for module in self.modules():
            if isinstance(module, Computing):
                module.kernels = kernels

    def forward(self, source: Tensor, source_mask: Tensor | None, target: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each prefix of a target, for padded ids (B, S) and (B, T).

        For notebooks and tests: training calls `loss`, a search `encode` and `decode_step`. The mask (B, S) is True at
        tokens; if None, all ids except padding are tokens. Targets are padded at their ends, where logits are 0.
        """
        is_token = source != PAD if source_mask is None else source_mask.bool()
        sides = (
            Rows.of([row[is_kept].tolist() for row, is_kept in zip(ids, mask, strict=True)]).to(ids.device)
            for ids, mask in ((source, is_token), (target, target != PAD))
        )
        sources, rows = same_tiles(*sides)
        logits = self.logits(self.decode(rows, self.encode(sources), sources))[:, : self.output.out_features]
        return F.pad(rows.grid(logits), (0, 0, 0, target.size(1) - rows.longest))

    def hidden_states(self, batch: Batch) -> Tensor:
        """Return the decoder's hidden states of all target rows of a batch (N, D), for training.

        Each target token attends to those up to itself (teacher forcing).
        """
        return self.decode(batch.target, self.encode(batch.source), batch.source)

    def encode(self, rows: Rows, weights: list[Tensor] | None = None) -> Tensor:
        """Map source rows to memory (M, D)."""
        residual: Residual = (self.source_embedding(rows), None)
        for layer in self.encoder:
            residual = layer(residual, rows, weights)
        return self.last_norm(residual, self.encoder_norm)

    def decode(self, rows: Rows, memory: Tensor, memory_rows: Rows, weights: Sequence[LayerWeights] = ()) -> Tensor:
        """Map target rows and memory (M, D) of the same sentences to hidden states (N, D) by teacher forcing.

        `weights` has two lists for each layer, to which (B, H, T, T) and (B, H, T, S) are appended; None: no weights.
        """
        residual: Residual = (self.target_embedding(rows), None)
        for layer, layer_weights in zip(self.decoder, weights or [(None, None)] * len(self.decoder), strict=True):
            residual = layer(residual, memory, (rows, memory_rows), layer_weights)
        return self.last_norm(residual, self.decoder_norm)

    def last_norm(self, residual: Residual, norm: nn.LayerNorm | None) -> Tensor:
        """Return the output (..., D) of a stack of layers."""
        if norm is None:
            return residual[0]
        return self.kernels.add_norm(residual, self.settings.dropout if self.training else 0.0, norm)[1]

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Map the newest token of hypotheses to hidden states (N, D) and append it to the cache.

        `tokens` (B, K) are those in all places, N of which are computed. Sets the positions of the cache and the rows
        of its source, which the layers read.
        """
        places = cache.places
        cache.source_places.rows = places.rows
        cache.positions = places.lengths[places.rows // places.beam] - 1
        x = self.target_embedding.at(tokens.flatten()[places.rows], cache.positions, places.longest)
        residual: Residual = (x, None)
        for number, layer in enumerate(self.decoder):
            residual = layer.step(residual, number, cache)
        return self.last_norm(residual, self.decoder_norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states (..., D) to unnormalised log-probabilities of the next token; -inf from column V on."""
        logits: Tensor = self.output(hidden)
        logits = logits if self.output_bias is None else logits + self.output_bias
        if self.output.out_features < logits.size(-1):
            logits[..., self.output.out_features :] = float("-inf")
        return logits

    def loss(self, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return the sums of the losses (differentiable) and of the negative log-likelihoods, see `Kernels.loss`."""
        hidden, output = self.hidden_states(batch), self.output
        return self.kernels.loss(hidden, output.weight, batch.labels, smoothing, output.out_features, self.output_bias)

    @torch.no_grad()
    def for_inference(self, kernels: Kernels) -> "Transformer":
        """Return a copy in evaluation mode, in which the operands of products are rounded once.

        It shares all other weights with this model, and no weight may change afterwards.
        """
        copied = copy.deepcopy(self, {id(weight): weight for weight in self.parameters()} | {id(self.kernels): kernels})
        copied.compute_with(kernels)
        for linear in copied.modules():
            if isinstance(linear, Linear):
                for name, weight in list(linear.named_parameters()):
                    setattr(linear, name, nn.Parameter(kernels.rounded(weight.detach()), requires_grad=False))
        return copied.eval()

    def encode_keys_values(self, rows: Rows) -> list[Tensor]:
        """Return the keys and values (M, 2D) of each decoder layer for source rows, in evaluation mode."""
        assert not self.training, "dropout would make the search random"
        memory = self.encode(rows)
        return [layer.cross_attention.key_value(memory) for layer in self.decoder]

    @cached_property
    def attends_by_kernels(self) -> bool:
        """Whether all attention has the score of the paper, which kernels compute."""
        return all(module.has_kernels for module in self.modules() if isinstance(module, Score))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.output.weight.device

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The names and shapes of the weights, a tied matrix under its first name only."""
        return {name: tuple(parameter.shape) for name, parameter in self.named_parameters()}

    def parameter_count(self) -> int:
        """Return the number of weights, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings, causal=False)
        self.feed_forward = FeedForward(settings)
        self.attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, residual: Residual, rows: Rows, weights: list[Tensor] | None = None) -> Residual:
        """Map a residual (M, D) to a residual."""
        residual = self.attention_sublayer(residual, lambda x: self.attention(x, rows, weights))
        return cast(Residual, self.feed_forward_sublayer(residual, self.feed_forward))


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, attention to the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings, causal=True)
        self.cross_attention = CrossAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.self_attention_sublayer = Sublayer(settings)
        self.cross_attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(
        self, residual: Residual, memory: Tensor, rows: tuple[Rows, Rows], weights: LayerWeights = (None, None)
    ) -> Residual:
        """Map a residual of all target positions at once, (N, D); memory is (M, D), rows are those of both."""
        residual = self.self_attention_sublayer(residual, lambda x: self.self_attention(x, rows[0], weights[0]))
        residual = self.cross_attention_sublayer(residual, lambda x: self.cross_attention(x, memory, rows, weights[1]))
        return cast(Residual, self.feed_forward_sublayer(residual, self.feed_forward))

    def step(self, residual: Residual, layer: int, cache: DecoderCache) -> Residual:
        """Map a residual of the newest position of each row, (N, D), and append its key and value to the cache."""
        residual = self.self_attention_sublayer(residual, lambda x: self.self_attention.step(x, layer, cache))
        residual = self.cross_attention_sublayer(residual, lambda x: self.cross_attention.step(x, layer, cache))
        return cast(Residual, self.feed_forward_sublayer(residual, self.feed_forward))


class Sublayer(Computing):
    """Residual connection, norm and dropout around attention or feed-forward f, all (..., D).

    With pre-norm, x + dropout(f(norm(x))); with post-norm, norm(x + dropout(f(x))). With pre-norm, the next sublayer
    adds the output of f, in the same pass over the rows as its norm.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre, self.dropout = settings.norm == "pre", settings.dropout
        self.norm = nn.LayerNorm(settings.dim, settings.norm_epsilon)

    def forward(self, residual: Residual, f: Callable[[Tensor], Tensor]) -> Residual:
        """Return the residual of the next sublayer: z = x + dropout(y) and f(norm(z)), which is not added yet.

        With post-norm, norm(x + dropout(f(x))) and None.
        """
        dropout = self.dropout if self.training else 0.0
        if self.pre:
            x, normalized = self.kernels.add_norm(residual, dropout, self.norm)
            return x, f(normalized)
        x, _ = residual
        return self.norm(self.kernels.add((x, f(x)), dropout)), None

    def normalized_before(self, residual: Residual) -> Tensor:
        """Return the input of f, in evaluation mode."""
        x = self.kernels.add(residual, 0.0)
        return cast(Tensor, self.norm(x)) if self.pre else x


class FeedForward(Computing):
    """Two linear maps with a non-linearity between them; SwiGLU gates the inner one (Shazeer 2020)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.activation, self.dropout = settings.activation, settings.activation_dropout
        parts = 2 if self.activation == "swiglu" else 1
        self.inner = Linear(settings.dim, parts * settings.feed_forward, parts=parts)
        self.outer = Linear(settings.feed_forward, settings.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        inner = self.inner(x, relu=self.activation == "relu")
        if self.activation == "swiglu":
            gate, inner = inner.chunk(2, dim=-1)
            inner = F.silu(gate) * inner
        elif self.activation != "relu":
            inner = F.gelu(inner) if self.activation == "gelu" else F.silu(inner)
        if self.training and self.dropout:
            inner = self.kernels.dropout(inner, self.dropout)
        return cast(Tensor, self.outer(inner))


class Embedding(Computing):
    """Token embeddings scaled by sqrt(D), plus sinusoids or learned positions if these are chosen, with dropout."""

    def __init__(self, settings: ModelSettings, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = settings.dim**0.5
        self.is_sinusoidal = settings.positions == "sinusoidal"
        is_learned = settings.positions == "learned"
        self.learned = nn.Embedding(settings.max_positions, settings.dim) if is_learned else None
        self.dropout = settings.dropout

    def forward(self, rows: Rows) -> Tensor:
        """Map all tokens of a side to vectors (N, D)."""
        return self.at(rows.ids, rows.positions, rows.longest)

    def at(self, ids: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Map ids (N) at positions (N) below `longest` to vectors (N, D)."""
        x = self.tokens(ids)
        x = torch.add(sinusoids(positions, longest, x), x, alpha=self.scale) if self.is_sinusoidal else x * self.scale
        if self.learned is not None:  # in forced decoding, texts may be longer: all later tokens have the last position
            x = x + self.learned(positions.clamp(max=self.learned.num_embeddings - 1))
        return self.kernels.dropout(x, self.dropout) if self.training else x


def with_padding(matrix: Matrix) -> Matrix:
    """Add rows of zeros, which belong to no token, to the matrix of a vocabulary.

    A GPU multiplies matrices several times as slowly if their sizes are not a multiple of 8.
    """
    rows = ModelSettings.padded_vocabulary(len(matrix.weight))
    matrix.weight = nn.Parameter(F.pad(matrix.weight.detach(), (0, 0, 0, rows - len(matrix.weight))))
    return matrix


@torch.no_grad()
def initialize(model: Transformer) -> None:
    """Draw all weights: Xavier-uniform matrices (Glorot & Bengio 2010), zero biases, embeddings N(0, 1/D).

    Such embeddings have unit variance after the scaling by sqrt(D), as sinusoids have, and give logits of unit variance
    where they are tied to the output. Matrices of several maps, such as keys and values, are drawn part by part.
    Norms (ones), relative positions and score functions are initialized where they are built.
    """
    dim = model.settings.dim
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight[: module.num_embeddings], std=dim**-0.5)
        elif isinstance(module, Linear) and module.bias is not None:
            for part in module.weight.chunk(module.parts):
                nn.init.xavier_uniform_(part)
            nn.init.zeros_(module.bias)
    # the last two parts are drawn twice, only so that a seed still gives the weights of the published results
    for module in model.modules():
        if isinstance(module, Linear) and module.parts > 1:
            for part in module.weight.chunk(module.parts)[-2:]:
                nn.init.xavier_uniform_(part)
    if model.settings.tied_embeddings == "none":
        nn.init.normal_(model.output.weight[: model.output.out_features], std=dim**-0.5)


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one sentence pair; each row of a head sums to 1, a row is a query, a column a key."""

    encoder: Tensor  # (L, H, S, S) from source to source
    decoder: Tensor  # (L, H, T, T) from target to target, 0 to the right of the diagonal
    cross: Tensor  # (L, H, T, S) from target to source


@torch.inference_mode()
def attention_weights(model: Transformer, source: Sequence[int], target_in: Sequence[int]) -> AttentionWeights:
    """Return all attention weights for source ids (S) and target ids (T), which begin with `<s>` (teacher forcing).

    The kernels of a forward pass do not return weights, since they never hold a whole matrix of them. Here, each
    attention sublayer also computes its weights by their definition, from the same input. The model must be in
    evaluation mode.
    """
    assert not model.training, "dropout would change the weights"
    source_rows, target_rows = same_tiles(*(Rows.of([ids]).to(model.device) for ids in (source, target_in)))
    encoder, decoder, cross = list[Tensor](), list[Tensor](), list[Tensor]()
    memory = model.encode(source_rows, encoder)
    model.decode(target_rows, memory, source_rows, [(decoder, cross)] * len(model.decoder))
    return AttentionWeights(*(torch.cat(weights).float().cpu() for weights in (encoder, decoder, cross)))
