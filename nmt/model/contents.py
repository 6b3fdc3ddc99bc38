"""What a model contains: parameters by part, bytes to decode, nearest pieces.

H heads, D width, L decoder layers, S source and T target tokens of a line, K beam, V target vocabulary.
"""

from collections import Counter

import torch

from nmt.config import ModelSettings
from nmt.model.cache import SPARE_STEPS
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import UNK, Tokenizer

_PARTS = {
    "source_embedding": "embedding",
    "target_embedding": "embedding",
    "encoder_norm": "encoder",
    "decoder_norm": "decoder",
}


def parameters_by_part(model: Transformer) -> dict[str, int]:
    """Return the number of weights of the embedding, encoder, decoder and output; a tied matrix is in the embedding."""
    counts = Counter({"embedding": 0, "encoder": 0, "decoder": 0, "output": 0})
    for name, weight in model.named_parameters():
        part = name.partition(".")[0]
        counts[_PARTS.get(part, part)] += weight.numel()
    return dict(counts)


def bytes_to_decode(settings: ModelSettings, vocabulary: int, source: int, target: int, beam: int) -> int:
    """Return the most bytes that a line of S and T tokens takes in a beam search in fp32, besides the weights.

    Each decoder layer has a key and a value of width D for every source token, once, and for every target token of each
    hypothesis, with space for 16 more; each hypothesis has V logits: 4 · (2 L D (S + K (T + 16)) + K V).
    """
    cached = source + beam * (target + SPARE_STEPS)
    return 4 * (2 * settings.decoder_layers * settings.dim * cached + beam * vocabulary)


def nearest_pieces(weights: torch.Tensor, tokenizer: Tokenizer, piece: int, count: int) -> list[tuple[str, float]]:
    """Return the pieces whose embeddings (V, D) have the highest cosine similarity with that of a piece, with it.

    Symbols and bytes are left out.
    """
    normalized = torch.nn.functional.normalize(weights.detach().float(), dim=1)
    similarity = normalized @ normalized[piece]
    similarity[[piece, UNK, *tokenizer.table.controls, *tokenizer.table.bytes]] = -2.0
    values, found = similarity.topk(min(count, len(tokenizer) - 1))
    names = tokenizer.pieces
    return [(names[i], round(float(v), 4)) for v, i in zip(values, found.tolist(), strict=True) if v > -2.0]
