"""The Transformer (Vaswani et al. 2017; pre-norm: Xiong et al. 2020), and its attention weights for figures.

B sentences, S source length, T target length, D width, H heads, L layers, V vocabulary; N target tokens and M source
tokens of all groups, packed. While decoding step by step: N rows, each the newest token of one hypothesis.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.batching.batch import Packing, pack, split_by_length
from nmt.config import ModelSettings
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.cache import DecoderCache
from nmt.model.cpu import ENCODER_TOKENS, Dropout, Linear, Precision, padded_rows, screened_product
from nmt.model.positions import sinusoids

Matrix = TypeVar("Matrix", nn.Embedding, Linear)


class Transformer(nn.Module):
    """Encoder and decoder over token ids."""

    def __init__(
        self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, initialized: bool = True
    ) -> None:
        """Build a model; with `initialized` False, its weights are meant to be read from a file."""
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
            nn.LayerNorm(settings.dim) if settings.norm == "pre" else nn.Identity() for _ in range(2)
        )
        self.output = with_padding(Linear(settings.dim, target_vocabulary, bias=False))
        if settings.tied_embeddings != "none":
            self.output.weight = target_tokens.weight
        self.prepacked = False
        self._precision: Precision = "fp32"  # of packed weights
        if initialized:
            initialize(self)

    def forward(
        self, sources: Sequence[Tensor], source_masks: Sequence[Tensor | None], targets: Sequence[Tensor]
    ) -> Tensor:
        """Return the decoder's hidden states of all target tokens (N, D), for training.

        Each length group has source ids (B, S), their mask (B, S), True at tokens, None if nothing is padded, and
        target ids (B, T), each of which attends to those up to itself (teacher forcing).
        """
        packing = Packing.of(sources, source_masks)
        return self._decode(targets, self._encode(sources, packing), packing)

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """Map one group's source ids (B, S) with their mask (B, S) to memory (B, S, D)."""
        if not self.prepacked or self.device.type != "cpu":
            return self._encode([source], Packing.of([source], [source_mask])).view(*source.shape, -1)
        # on CPUs without padding, and a few sentences at a time
        memory = self.output.weight.new_zeros(*source.shape, self.settings.dim)
        lengths = [source.size(1)] * len(source) if source_mask is None else source_mask.sum(1).tolist()
        for part in split_by_length(lengths, ENCODER_TOKENS):
            groups = [source[rows, : lengths[rows[0]]] for rows in part]
            count = sum(ids.numel() for ids in groups)
            if missing := padded_rows(count) - count:
                groups.append(source.new_zeros(1, missing))
            packing = Packing.of(groups)
            for rows, encoded in zip(part, packing.unpack(self._encode(groups, packing)), strict=False):
                memory[rows, : encoded.size(1)] = encoded
        return memory

    def decode(self, target_in: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Map one group's target ids (B, T) and memory (B, S, D) to hidden states (B, T, D) by teacher forcing."""
        packing = Packing.of([memory], [source_mask])
        return self._decode([target_in], memory.flatten(0, 1), packing).view(*target_in.shape, -1)

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Map the newest token of each row (N) to hidden states (N, D) and append it to the cache."""
        x = self.target_embedding([tokens.unsqueeze(1)], cache.length)
        cache.begin_step()
        for number, layer in enumerate(self.decoder):
            x = layer.step(x, number, cache)
        return cast(Tensor, self.decoder_norm(x))

    def logits(self, hidden: Tensor, screened: bool = False) -> Tensor:
        """Map hidden states (..., D) to unnormalised log-probabilities of the next token; -inf behind the V-th.

        If `screened`, only the largest are precise: see `nmt.kernels.native.screened_product`.
        """
        product = self._screened_output if screened and self.prepacked else None
        logits: Tensor = (product or self.output)(hidden)
        if self.output.out_features < logits.size(-1):
            logits[..., self.output.out_features :] = float("-inf")
        return logits

    def start(self, source: Tensor, source_mask: Tensor | None) -> "TransformerState":
        """Encode source ids (B, S) with their mask (B, S), to decode them step by step.

        The model must be in evaluation mode.
        """
        assert not self.training, "dropout would make the search random"
        memory = self.encode(source, source_mask)
        attentions = [layer.cross_attention for layer in self.decoder]
        keys_values = [attention.key_value(memory) for attention in attentions]
        by_row = self.decoder[0].self_attention.is_native(keys_values[0])
        if by_row and self._precision != "fp32":  # half of the memory that attention reads
            keys_values = [x.bfloat16() for x in keys_values]
        views = [attention.split_pair(x) for attention, x in zip(attentions, keys_values, strict=True)]
        return TransformerState(self, DecoderCache(views, source_mask, by_row))

    @torch.no_grad()
    def prepack(self, precision: Precision = "fp32") -> bool:
        """Lay out all weights, which must not change any more, for inference; return whether that makes it faster.

        In fp32 only rounding changes. In bf16 products are rounded to it; norms, sums and softmax are fp32. In int8
        weights have one scale for each output, inputs one for each row. In both, a search with `native.attend` keeps
        keys and values in bf16.
        """
        linear = [module for module in self.modules() if isinstance(module, Linear)]
        self.prepacked = all(module.pack(precision) for module in linear)
        self._precision = precision
        self.__dict__.pop("_screened_output", None)
        return self.prepacked

    @cached_property
    def _screened_output(self) -> Callable[[Tensor], Tensor] | None:
        # made when it is first needed: it takes longer than packing the weights, and beam search has no use for it
        return screened_product(self.output.weight, self.output.out_features, self._precision)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.output.weight.device

    def parameter_count(self) -> int:
        """Return the number of weights, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def _encode(self, sources: Sequence[Tensor], packing: Packing) -> Tensor:
        x = self.source_embedding(sources)
        for layer in self.encoder:
            x = layer(x, packing)
        return cast(Tensor, self.encoder_norm(x))  # (M, D)

    def _decode(self, targets: Sequence[Tensor], memory: Tensor, memory_packing: Packing) -> Tensor:
        packing = Packing.of(targets)
        x = self.target_embedding(targets)
        for layer in self.decoder:
            x = layer(x, packing, memory, memory_packing)
        return cast(Tensor, self.decoder_norm(x))  # (N, D)


class TransformerState:
    """A batch of sentences during decoding: `nmt.decoding.models.DecoderState`."""

    def __init__(self, model: Transformer, cache: DecoderCache) -> None:
        self._model, self._cache = model, cache
        self.screened = False  # whether only the largest logits need to be precise

    def step(self, tokens: Tensor) -> Tensor:
        """Append the newest token of each row (N); return the logits of the next, (N, V) and padding."""
        hidden = self._model.decode_step(self._cache.pad(tokens), self._cache)
        return self._model.logits(hidden, self.screened)[: len(tokens)]

    def select(self, rows: Tensor) -> None:
        """Continue row rows[i] as row i, for rows (N') of sentences in order."""
        self._cache.select(rows)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings, causal=False)
        self.feed_forward = FeedForward(settings)
        self.attention_sublayer = Sublayer(settings)
        self.feed_forward_sublayer = Sublayer(settings)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map (M, D) to (M, D)."""
        x = self.attention_sublayer(x, lambda x, residual: self.attention(x, packing, residual))
        return cast(Tensor, self.feed_forward_sublayer(x, self.feed_forward))


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

    def forward(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Map all target positions at once, (N, D) to (N, D); memory is (M, D)."""
        return self.attend_to_source(self.attend_to_target(x, packing), packing, memory, memory_packing)

    def attend_to_target(self, x: Tensor, packing: Packing) -> Tensor:
        """Apply the first sublayer of `forward`, (N, D) to (N, D)."""
        return cast(
            Tensor, self.self_attention_sublayer(x, lambda x, residual: self.self_attention(x, packing, residual))
        )

    def attend_to_source(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Apply the other two sublayers of `forward`, (N, D) to (N, D); memory is (M, D)."""
        x = self.cross_attention_sublayer(
            x, lambda x, residual: self.cross_attention(x, packing, memory, memory_packing, residual)
        )
        return cast(Tensor, self.feed_forward_sublayer(x, self.feed_forward))

    def step(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Map the newest position of each row, (N, D) to (N, D), and append it to the cache of this layer."""
        x = self.self_attention_sublayer(x, lambda x, residual: self.self_attention.step(x, layer, cache, residual))
        x = self.cross_attention_sublayer(x, lambda x, residual: self.cross_attention.step(x, layer, cache, residual))
        return cast(Tensor, self.feed_forward_sublayer(x, self.feed_forward))


class Sublayer(nn.Module):
    """Residual connection, norm and dropout around attention or feed-forward f, all (..., D)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.dim)
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Tensor, f: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
        """Return x + dropout(f(norm(x))) with pre-norm, norm(x + dropout(f(x))) with post-norm.

        f adds its second argument to its result: without dropout that is part of its last product.
        """
        before = self.normalized_before(x)
        output = x + self.dropout(f(before, None)) if self.training else f(before, x)
        return output if self.pre else cast(Tensor, self.norm(output))

    def normalized_before(self, x: Tensor) -> Tensor:
        """Return the input of f: norm(x) with pre-norm, x with post-norm."""
        return cast(Tensor, self.norm(x)) if self.pre else x


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between them; SwiGLU gates the inner one (Shazeer 2020)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.activation = settings.activation
        parts = 2 if self.activation == "swiglu" else 1
        self.inner = Linear(settings.dim, parts * settings.feed_forward, parts=parts)
        self.outer = Linear(settings.feed_forward, settings.dim)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Map (..., D) to (..., D), and add the residual."""
        inner = self.inner(x, relu=self.activation == "relu")
        if self.activation == "swiglu":
            gate, inner = inner.chunk(2, dim=-1)
            inner = F.silu(gate) * inner
        elif self.activation == "gelu":
            inner = F.gelu(inner)
        return cast(Tensor, self.outer(inner, residual))


class Embedding(nn.Module):
    """Token embeddings scaled by sqrt(D), plus sinusoids if positions are such, with dropout."""

    def __init__(self, settings: ModelSettings, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = settings.dim**0.5
        self.is_sinusoidal = settings.positions == "sinusoidal"
        self.dropout = Dropout(settings.dropout)

    def forward(self, groups: Sequence[Tensor], start: int = 0) -> Tensor:
        """Map groups of ids (B, T), the first of each at position `start`, to vectors of all their tokens (N, D)."""
        x = self.tokens(pack(groups)) * self.scale
        if self.is_sinusoidal:
            added = [sinusoids(start, start + ids.size(1), x).expand(*ids.shape, -1) for ids in groups]
            x = x + pack(added)
        return cast(Tensor, self.dropout(x))


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
    where they are tied to the output. Matrices that hold several, such as keys and values, are drawn part by part.
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
    for module in model.modules():  # again: so a seed gives the weights that it gave before matrices were joined
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
def attention_weights(model: Transformer, source: Tensor, target_in: Tensor) -> AttentionWeights:
    """Return all weights while a model reads source ids (S) and the target ids (T) behind `<s>` (teacher forcing).

    A forward pass does not return them, since its kernels never hold the whole matrices: here the sublayers of the same
    layers are applied one by one, and weights computed from the input of each attention. The model must be in
    evaluation mode.
    """
    assert not model.training, "dropout would change the weights"
    source, target_in = source.unsqueeze(0), target_in.unsqueeze(0)
    packing, target_packing = Packing.of([source]), Packing.of([target_in])
    x, encoder, decoder = model.source_embedding([source]), [], []
    for encoder_layer in model.encoder:
        encoder.append(encoder_layer.attention.weights(encoder_layer.attention_sublayer.normalized_before(x), packing))
        x = encoder_layer(x, packing)
    memory = model.encoder_norm(x).unsqueeze(0)
    x = model.target_embedding([target_in])
    for layer in model.decoder:
        decoder.append(layer.self_attention.weights(layer.self_attention_sublayer.normalized_before(x), target_packing))
        x = layer(x, target_packing, memory[0], packing)
    _, cross = decode_with_attention(model, target_in, memory, None, range(len(model.decoder)))
    return AttentionWeights(*(torch.cat(weights).float().cpu() for weights in (encoder, decoder, [*cross.values()])))


def decode_with_attention(
    model: Transformer, target_in: Tensor, memory: Tensor, source_mask: Tensor | None, layers: Collection[int]
) -> tuple[Tensor, dict[int, Tensor]]:
    """Return what `Transformer.decode` does, (B, T, D), and the weights (B, H, T, S) from target to source in `layers`.

    Target ids are (B, T), memory is (B, S, D), the mask (B, S).
    """
    packing, of_memory = Packing.of([target_in]), (memory.flatten(0, 1), Packing.of([memory], [source_mask]))
    x, weights = model.target_embedding([target_in]), {}
    for number, layer in enumerate(model.decoder):
        x = layer.attend_to_target(x, packing)
        if number in layers:
            sublayer_input = layer.cross_attention_sublayer.normalized_before(x)
            weights[number] = layer.cross_attention.weights(sublayer_input, packing, *of_memory)
        x = layer.attend_to_source(x, packing, *of_memory)
    return model.decoder_norm(x).view(*target_in.shape, -1), weights
