"""The Transformer (Vaswani et al. 2017): an encoder that reads the source, a decoder that writes the target.

B sentences, S source length, T target length, D width, H heads, K beam, V vocabulary; N target tokens and M source
tokens of all groups, packed. Decoding step by step reads N rows, the newest token of each hypothesis.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache, LayerCache
from nmt.model.cpu.linear import Linear, filled_up
from nmt.model.embedding import Embedding
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward, normalization
from nmt.model.packing import Alike, Packing, parts_alike

_CPU_BLOCK, _CPU_TOKENS = 64, 1024
"""Rows whose logits, and source tokens whose inner layers, fit in a processor's own memory, more or less."""


class Transformer(nn.Module):
    """Encoder and decoder over token ids; knows no files and no text."""

    def __init__(
        self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, drawn: bool = True
    ) -> None:
        """Make a model, with weights drawn at random unless they are going to be read from a file."""
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
        self.output = Linear(settings.dim, target_vocabulary, bias=False)
        if settings.tied_embeddings != "none":
            self.output.weight = target_tokens.weight
        self.packed = False
        """Whether `pack_weights` has been here."""
        if drawn:
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
        if not self.packed:
            return self._encode([source], Packing.of([source], [source_mask])).view(*source.shape, -1)
        memory = self.output.weight.new_zeros(*source.shape, self.settings.dim)
        for part in parts_alike(source, source_mask, _CPU_TOKENS):
            for (rows, ids, _), found in zip(part, self._encode_filled_up(part), strict=True):
                memory[rows, : ids.size(1)] = found
        return memory

    def _encode_filled_up(self, part: Sequence[Alike]) -> list[Tensor]:
        """Return memory of each group, with one more sentence that nobody asks about: products like round numbers."""
        groups, masks = [alike.ids for alike in part], [alike.mask for alike in part]
        count = sum(ids.numel() for ids in groups)
        missing = filled_up(count) - count
        if missing:
            groups, masks = [*groups, groups[0].new_zeros(1, missing)], [*masks, None]
        packing = Packing.of(groups, masks)
        return packing.unpack(self._encode(groups, packing))[: len(part)]

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
        unnormalized: Tensor = self.output(hidden)
        return unnormalized

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have: learned positions end."""
        return self.settings.longest

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output.weight.device

    def start(self, source: Tensor, source_mask: Tensor | None, beam: int) -> "TransformerState":
        """Read source ids (B, S) with their mask, to decode step by step with up to K rows for each sentence.

        The model must be in eval mode.
        """
        assert not self.training, "dropout would make the search random"
        return TransformerState(self, self.start_cache(self.encode(source, source_mask), source_mask, beam))

    def start_cache(self, memory: Tensor, source_mask: Tensor | None, beam: int) -> DecoderCache:
        """Prepare decoding step by step, at first one row for each sentence of memory (B, S, D)."""
        sentences = torch.arange(memory.size(0), device=memory.device)
        layers = [
            LayerCache(*layer.cross_attention.project_memory(memory))
            for layer in self.decoder
            if isinstance(layer, DecoderLayer)
        ]
        mask = None if source_mask is None else source_mask[:, None, None, :]  # over heads and queries
        return DecoderCache(layers, mask, beam, sentences)

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Read the newest token of each row (N), append it to the cache; return hidden states (N, D)."""
        x = self.target_embedding.at(tokens, cache.length)
        cache.begin_step()
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            x = layer.step(x, layer_cache, cache)
        cache.end_step()
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def parameter_count(self) -> int:
        """Return the number of weights, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


class TransformerState:
    """A batch of sentences that is being translated, with what is remembered of it.

    Rows are filled up with copies of the last one to a number that products like.
    """

    def __init__(self, model: Transformer, cache: DecoderCache) -> None:
        self._model = model
        self._cache = cache
        self.select(cache.sentences)

    def step(self, tokens: Tensor) -> Iterator[Tensor]:
        """Read the newest token of each row (N); yield logits of the next, (n, V) for n rows at a time."""
        hidden = self._model.decode_step(_filled_up(tokens), self._cache)[: tokens.numel()]
        size = _CPU_BLOCK if hidden.device.type == "cpu" else len(hidden)
        for block in torch.split(hidden, size):
            yield self._model.logits(block)

    def select(self, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, for rows (N') of sentences in order, K a sentence at most."""
        self._cache.select(_filled_up(rows))


def _filled_up(numbers: Tensor) -> Tensor:
    """Repeat the last of (N) numbers."""
    count = numbers.numel()
    return torch.cat([numbers, numbers[-1:].expand(filled_up(count) - count)])


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
