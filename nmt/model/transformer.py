"""The Transformer (Vaswani et al. 2017): an encoder of the source, a decoder that predicts the target.

B sentences, S source length, T target length, D width, H heads, K beam, V vocabulary; N target tokens and M source
tokens of all groups, packed. While decoding step by step: N rows, each the newest token of one hypothesis.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache
from nmt.model.kernels import Linear, Precision, kernels
from nmt.model.layers import DecoderLayer, Embedding, EncoderLayer, FeedForward, normalization
from nmt.model.packing import Packing, split_by_length


class Transformer(nn.Module):
    """Encoder and decoder over token ids."""

    def __init__(
        self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, initialized: bool = True
    ) -> None:
        """Build a model; with `initialized` False, its weights are meant to be read from a file."""
        super().__init__()
        self.settings = settings
        target_tokens = nn.Embedding(target_vocabulary, settings.dim)
        all_tied = settings.tied_embeddings == "all"
        source_tokens = target_tokens if all_tied else nn.Embedding(source_vocabulary, settings.dim)
        self.source_embedding = Embedding(settings, source_tokens)
        self.target_embedding = Embedding(settings, target_tokens)
        encoder = nn.ModuleList([EncoderLayer(settings) for _ in range(settings.encoder_layers)])
        decoder = nn.ModuleList([DecoderLayer(settings) for _ in range(settings.decoder_layers)])
        self.encoder, self.decoder = cast("Sequence[EncoderLayer]", encoder), cast("Sequence[DecoderLayer]", decoder)
        # post-norm layers end in a norm already
        self.encoder_norm, self.decoder_norm = (
            normalization(settings) if settings.norm == "pre" else nn.Identity() for _ in range(2)
        )
        self.output = Linear(settings.dim, target_vocabulary, bias=False)
        if settings.tied_embeddings != "none":
            self.output.weight = target_tokens.weight
        self.prepacked = False
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
        if not self.prepacked or kernels.encoder_tokens is None:
            return self._encode([source], Packing.of([source], [source_mask])).view(*source.shape, -1)
        memory = self.output.weight.new_zeros(*source.shape, self.settings.dim)
        lengths = [source.size(1)] * len(source) if source_mask is None else source_mask.sum(1).tolist()
        for part in split_by_length(lengths, kernels.encoder_tokens):
            groups = [source[rows, : lengths[rows[0]]] for rows in part]
            for rows, encoded in zip(part, self._encode_padded(groups), strict=True):
                memory[rows, : encoded.size(1)] = encoded
        return memory

    def decode(self, target_in: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Map one group's target ids (B, T) and memory (B, S, D) to hidden states (B, T, D) by teacher forcing."""
        packing = Packing.of([memory], [source_mask])
        return self._decode([target_in], memory.flatten(0, 1), packing).view(*target_in.shape, -1)

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Map the newest token of each row (N) to hidden states (N, D) and append it to the cache."""
        x = self.target_embedding.at(tokens, cache.target.length)
        cache.begin_step()
        for number, layer in enumerate(self.decoder):
            x = layer.step(x, number, cache)
        cache.end_step()
        return cast(Tensor, self.decoder_norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states (..., D) to unnormalised log-probabilities (..., V) of the next token."""
        return cast(Tensor, self.output(hidden))

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> "TransformerState":
        """Encode source ids (B, S) with their mask (B, S), to decode with up to K rows for each sentence.

        The model must be in evaluation mode.
        """
        assert not self.training, "dropout would make the search random"
        memory = self.encode(source, source_mask)
        keys_values = [layer.cross_attention.project_memory(memory) for layer in self.decoder]
        return TransformerState(self, DecoderCache(keys_values, source_mask, beam))

    @torch.no_grad()
    def prepack(self, precision: Precision = "fp32") -> bool:
        """Lay out all weights, which must not change any more, for fast inference; return whether there is a kernel.

        In fp32 only rounding changes; bf16 is for bf16 autocast and rounds as that does. In int8 weights have one scale
        for each output, inputs one for each row, so that the result for a row does not depend on the others.
        """
        joined: set[nn.Module] = set()
        of_decoder = (layer.self_attention for layer in self.decoder)
        for attention in (*(layer.attention for layer in self.encoder), *of_decoder):
            attention.prepack(precision)
            joined |= {attention.query, attention.key_value}
        for module in self.modules():
            if isinstance(module, Linear) and module not in joined:
                module.prepack(precision)
        self.prepacked = self.output.prepacked is not None
        return self.prepacked

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have: learned positions end."""
        return self.settings.longest

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

    def _encode_padded(self, groups: Sequence[Tensor]) -> list[Tensor]:
        """Return the memory (B, S, D) of each group; a sentence of padding makes their number one with a kernel."""
        count = sum(ids.numel() for ids in groups)
        missing = kernels.padded_rows(count) - count
        padded = [*groups, groups[0].new_zeros(1, missing)] if missing else groups
        packing = Packing.of(padded)
        return packing.unpack(self._encode(padded, packing))[: len(groups)]


class TransformerState:
    """A batch of sentences during decoding. Copies of the last row pad the rows to a number with a kernel."""

    def __init__(self, model: Transformer, cache: DecoderCache) -> None:
        self._model = model
        self._cache = cache
        self.select(cache.beams.sentences)

    def step(self, tokens: Tensor) -> Tensor:
        """Append the newest token of each row (N); return the logits of the next (N, V)."""
        return self._model.logits(self._model.decode_step(_pad_rows(tokens), self._cache))[: tokens.numel()]

    def select(self, rows: Tensor) -> None:
        """Continue row rows[i] as row i, for rows (N') of sentences in order, at most K of each."""
        self._cache.select(_pad_rows(rows))


def _pad_rows(numbers: Tensor) -> Tensor:
    """Return (N) numbers, followed by copies of the last one up to the number of rows that kernels require."""
    count = numbers.numel()
    return torch.cat([numbers, numbers[-1:].expand(kernels.padded_rows(count) - count)])


def initialize(model: Transformer) -> None:
    """Draw all weights: Xavier-uniform matrices (Glorot & Bengio 2010), zero biases, embeddings N(0, 1/D).

    Such embeddings have unit variance after the scaling by sqrt(D), as sinusoids have, and give logits of unit variance
    where they are tied to the output. Matrices that hold two, keys and values or SwiGLU's gate and inner layer, are
    drawn half by half. Norms (ones), position encodings and score functions are initialized where they are
    built.
    """
    dim = model.settings.dim
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=dim**-0.5)
        elif isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    for module in model.modules():
        double = None
        if isinstance(module, MultiHeadAttention):
            double = module.key_value
        elif isinstance(module, FeedForward) and module.gated:
            double = module.inner
        if double is not None:
            for half in double.weight.chunk(2):
                nn.init.xavier_uniform_(half)
    if model.settings.tied_embeddings == "none":
        nn.init.normal_(model.output.weight, std=dim**-0.5)
