"""Word alignments: which words of the source a translation's words come from, by where the decoder looks.

S source tokens and T target tokens of a sentence, without `</s>`; C chosen heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import ModelSettings
from nmt.decoding.forced_decoding import Head, Pair, force_all
from nmt.decoding.workers import Workers
from nmt.model.checkpoint import AlignmentHeads, LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.normalize import normalize
from nmt.text.words import words, words_of_pieces

Links = list[tuple[int, int]]
"""Pairs of a source word and a target word, both from 0, in the order of the target."""


@dataclass(frozen=True)
class Attention:
    """Where a decoder looks, in every layer and head, while it says a translation.

    `weights` is (layers, heads, T + 1, S + 1): row t says where it looks when it has read the first t target tokens and
    says the next, the last one `</s>`; the last column is the source's `</s>`. `source` and `target` are the pieces.
    """

    weights: Tensor
    source: list[str]
    target: list[str]


def attention(loaded: LoadedModel, source: str, target: str) -> Attention:
    """Return where a model looks while it says a given translation of a sentence."""
    tokenizers, model = loaded.tokenizers, loaded.model
    ids, said = tokenizers.source.encode(source), tokenizers.target.encode(target)
    (forced,) = force_all(model, [(ids, said)], 1, all_heads(model.settings))
    weights = forced.attention.view(model.settings.decoder_layers, model.settings.heads, len(said) + 1, len(ids) + 1)
    source_pieces, target_pieces = tokenizers.source.pieces, tokenizers.target.pieces
    return Attention(weights, [source_pieces[i] for i in ids], [target_pieces[i] for i in said])


def all_heads(settings: ModelSettings) -> list[Head]:
    """Return every head of the attention to the source, layer by layer."""
    return [(layer, head) for layer in range(settings.decoder_layers) for head in range(settings.heads)]


def usual_heads(settings: ModelSettings) -> AlignmentHeads:
    """Return what aligns well in most models: all heads of the last layer but one (Garg et al. 2019)."""
    layer = max(0, settings.decoder_layers - 2)
    return AlignmentHeads(heads=tuple((layer, head) for head in range(settings.heads)))


def with_heads(models: Sequence[LoadedModel]) -> list[tuple[Transformer, AlignmentHeads]]:
    """Return the models with the heads that align best, as far as that is known."""
    return [(one.model, one.alignment or usual_heads(one.model.settings)) for one in models]


def token_alignments(
    models: Sequence[tuple[Transformer, AlignmentHeads]],
    pairs: Sequence[Pair],
    budget: int,
    workers: Workers | None = None,
) -> list[Tensor]:
    """Return for each pair how much each target token looks at each source token and at `</s>`, (T, S + 1).

    It is the mean over each model's heads, and over the models.
    """
    sums = [torch.zeros(len(target), len(source) + 1) for source, target in pairs]
    for model, chosen in models:
        found = force_all(model, pairs, budget, chosen.heads, workers)
        for total, forced in zip(sums, found, strict=True):
            total += rows_of_tokens(forced.attention, chosen.at_input).mean(0)
    return sums


def rows_of_tokens(weights: Tensor, at_input: bool) -> Tensor:
    """Return the row of each target token, (C, T, S + 1), of weights (C, T + 1, S + 1)."""
    return weights[:, 1:] if at_input else weights[:, :-1]


def align(
    models: Sequence[LoadedModel], pairs: Sequence[tuple[str, str]], budget: int, workers: Workers | None = None
) -> list[Links]:
    """Return the links between the words of sentences and of given translations, as the models together see them.

    The words are those of `nmt.text.words`. What is longer than the models can read has no links at its end.
    """
    bounds = [model.model.longest for model in models if model.model.longest is not None]
    limit = min(bounds) - 1 if bounds else None
    source, target = models[0].tokenizers.source, models[0].tokenizers.target
    encoded = [(source.encode(line)[:limit], target.encode(text)[:limit]) for line, text in pairs]
    return [
        word_links(weights, source.spell_text(line)[:limit], target.spell_text(text)[:limit])
        for weights, (line, text) in zip(
            token_alignments(with_heads(models), encoded, budget, workers), pairs, strict=True
        )
    ]


def joined_links(parts: Sequence[tuple[str, str, Links]]) -> Links:
    """Return the links of a line that was translated in parts: source, translation, and the links between them.

    Words are counted part by part.
    """
    joined: Links = []
    sources = targets = 0
    for source, target, links in parts:
        joined += [(sources + i, targets + j) for i, j in links]
        sources += len(words(normalize(source)))
        targets += len(words(normalize(target)))
    return joined


def pharaoh(links: Links) -> str:
    """Return links as Pharaoh and its successors write them.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{i}-{j}" for i, j in links)


def word_links(weights: Tensor, source: Sequence[bytes], target: Sequence[bytes]) -> Links:
    """Link each target word with the source word that its tokens, weights (T, S + 1), look at most.

    Source and target are what the tokens write. The weights of a word's tokens count together; a target word that
    looks at `</s>` more than at any word has no link.
    """
    source_count, of_source = words_of_pieces(source)
    target_count, of_target = words_of_pieces(target)
    if not source_count:
        return []
    columns = torch.zeros(len(of_source) + 1, source_count + 1)  # (S + 1, words + 1)
    columns[:-1, :-1], columns[-1, -1] = _membership(of_source, source_count), 1
    by_word = _membership(of_target, target_count).T @ weights @ columns
    return [(i, j) for j, i in enumerate(by_word.argmax(1).tolist()) if i < source_count]


def _membership(words: Sequence[range], count: int) -> Tensor:
    """Return (tokens, words), 1 where a token writes a part of a word."""
    table = torch.zeros(len(words), count)
    for token, touched in enumerate(words):
        table[token, touched.start : touched.stop] = 1
    return table
