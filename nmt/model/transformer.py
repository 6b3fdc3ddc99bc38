"""The Transformer (Vaswani et al. 2017): an encoder that reads the source, a decoder that writes the target.

B sentences, S source length, T target length, D width, H heads, K beam, V vocabulary; N target tokens and M source
tokens of all groups, packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache, empty_layer_cache
from nmt.model.embedding import Embedding
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward, normalization
from nmt.model.linear import linear
from nmt.model.packing import Packing


class Transformer(nn.Module):
    """Encoder and decoder over token ids; knows no files and no text."""

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        target_tokens = nn.Embedding(target_vocabulary, settings.dim)
        all_tied = settings.tied_embeddings == "all"
        source_tokens = target_tokens if all_tied else nn.Embedding(source_vocabulary, settings.dim)
        self.source_embedding = Embedding(settings, source_tokens)
        self.target_embedding = Embedding(settings, target_tokens)
        self.encoder = nn.ModuleList([EncoderLayer(settings) for _ in range(settings.encoder_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(settings) for _ in range(settings.decoder_layers)])
        # post-norm layers end in a norm already
        pre = settings.norm == "pre"
        self.encoder_norm = normalization(settings) if pre else nn.Identity()
        self.decoder_norm = normalization(settings) if pre else nn.Identity()
        self.output = nn.Linear(settings.dim, target_vocabulary, bias=False)
        if settings.tied_embeddings != "none":
            self.output.weight = target_tokens.weight
        initialize(self)

    def forward(
        self, sources: Sequence[Tensor], source_masks: Sequence[Tensor | None], targets: Sequence[Tensor]
    ) -> Tensor:
        """Return the decoder's hidden states of all target tokens (N, D), as training needs them.

        Each group of sentences has source ids (B, S), their mask (B, S), True at tokens, None if nothing is padded, and
        target ids (B, T), where each position sees those up to itself (teacher forcing).
        """
        packing = Packing.of(sources, source_masks)
        return self._decode(targets, self._encode(sources, packing), packing)

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """Read one group's source ids (B, S) with their mask; return memory (B, S, D)."""
        return self._encode([source], Packing.of([source], [source_mask])).view(*source.shape, -1)

    def decode(self, target_in: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Read one group's target ids (B, T) beside memory (B, S, D); return hidden states (B, T, D)."""
        packing = Packing.of([memory], [source_mask])
        return self._decode([target_in], memory.flatten(0, 1), packing).view(*target_in.shape, -1)

    def _encode(self, sources: Sequence[Tensor], packing: Packing) -> Tensor:
        x = self.source_embedding(sources)
        for layer in self.encoder:
            x = layer(x, packing)
        memory: Tensor = self.encoder_norm(x)
        return memory  # (M, D)

    def _decode(self, targets: Sequence[Tensor], memory: Tensor, memory_packing: Packing) -> Tensor:
        packing = Packing.of(targets)
        x = self.target_embedding(targets)
        for layer in self.decoder:
            x = layer(x, packing, memory, memory_packing)
        hidden: Tensor = self.decoder_norm(x)
        return hidden  # (N, D)

    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states (..., D) to unnormalised log-probabilities (..., V) of the next token."""
        return linear(hidden, self.output.weight)

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have: learned positions end."""
        return self.settings.longest

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output.weight.device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> "Decoding":
        """Read source ids (B, S) with their mask, to decode step by step with K hypotheses for each sentence.

        The model must be in eval mode.
        """
        assert not self.training, "dropout would make the search random"
        return Decoding(self, self.start_cache(self.encode(source, source_mask), source_mask, beam))

    def start_cache(self, memory: Tensor, source_mask: Tensor | None, beam: int) -> DecoderCache:
        """Prepare decoding step by step with K hypotheses for each sentence of memory (B, S, D)."""
        layers = [
            empty_layer_cache(*layer.cross_attention.project_memory(memory), beam)
            for layer in self.decoder
            if isinstance(layer, DecoderLayer)
        ]
        mask = None if source_mask is None else source_mask[:, None, None, :]  # over heads and queries
        return DecoderCache(layers, mask, beam)

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Read the newest token of each hypothesis (B, K), append it to the cache; return logits (B, K, V)."""
        x = self.target_embedding.at(tokens, cache.length)
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            x = layer.step(x, layer_cache, cache.source_mask)
        return self.logits(self.decoder_norm(x))

    def parameter_count(self) -> int:
        """Return the number of weights, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


@dataclass(frozen=True)
class Decoding:
    """A batch of sentences that is being translated, with what is remembered of it."""

    model: Transformer
    cache: DecoderCache

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest token of each hypothesis (B, K); return logits of the next (B, K, V)."""
        return self.model.decode_step(tokens, self.cache)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of each sentence continue its hypothesis parents[b, k]; parents (B, K)."""
        self.cache.reorder(parents)

    def keep(self, sentences: Tensor) -> None:
        """Let go of all sentences but these, (B') in the order that they shall have."""
        self.cache.keep(sentences)


def initialize(model: Transformer) -> None:
    """Draw all weights: Xavier-uniform matrices (Glorot & Bengio 2010), zero biases, embeddings N(0, 1/D).

    Embeddings so drawn have unit variance after the scaling by sqrt(D), as the positions have, and give logits of unit
    variance where they are tied to the output. Matrices that stand for two, keys and values or SwiGLU's gate and inner
    layer, are drawn a half at a time. Norms (ones) and what is learned of places and distances (vectors of
    about length one) are drawn where they are made.

    The names say what is what: `*positions` stand for places or distances; of all other weights, those of one dimension
    are norms and biases, those of two are matrices, which weight decay may shrink.
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
