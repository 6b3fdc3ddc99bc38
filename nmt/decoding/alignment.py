"""Word alignments: links between source words and target words, from the attention of the decoder to the source.

S source tokens and T target tokens of a sentence, without `</s>`.
"""

from collections.abc import Sequence

import numpy as np

from nmt.decoding.engine import Engine
from nmt.kernels.constant_products import Floats
from nmt.model.stored import LoadedModel
from nmt.text.words import Links, is_punctuation, words_of_pieces

_TINY = 1e-9  # in place of 0


def align(
    engine: Engine, loaded: LoadedModel, pairs: Sequence[tuple[str, str]], budget: int, tags: Sequence[int] = ()
) -> list[Links]:
    """Return the links between the words of sentences and of given translations, by the first model of the engine.

    The words are those of `nmt.text.words`. `tags` are the ids that precede each sentence. The weights of a target
    token are those of the step that predicts it, the mean of all heads of all layers: in decoders of two or three
    layers, those of the step that reads it (Chen et al. 2020) point to the next word.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    encoded = [([*tags, *source.encode(line)], target.encode(text)) for line, text in pairs]
    tag_bytes = [b""] * len(tags)  # belong to no word
    return [
        word_links(forced.attention[:-1], [*tag_bytes, *source.spell_text(line)], target.spell_text(text))
        for forced, (line, text) in zip(engine.force(encoded, budget, with_attention=True), pairs, strict=True)
    ]


def word_links(weights: Floats, source: Sequence[bytes], target: Sequence[bytes]) -> Links:
    """Link each target word with the source word that its tokens, with weights (T, S + 1), attend to most.

    Source and target are the bytes of the tokens. The weights of a word's tokens are added, and balanced between the
    words. Those of `</s>` do not count, since heads that align nothing attend to it.

    Tokens of punctuation do not count either, neither as queries nor as keys: a word such as `Anna?` is aligned by
    `Anna` alone. A target word of punctuation only, such as `。`, is linked with the source word whose punctuation it
    attends to most. It has no link if the source has no punctuation, nor has a word if the source has no other words.
    """
    source_count, source_words = words_of_pieces(source)
    target_count, target_words = words_of_pieces(target)
    if not source_count:
        return []
    # marks are tokens of punctuation, True in these (S) and (T)
    source_marks, target_marks = (np.array([*map(is_punctuation, side)], bool) for side in (source, target))
    source_table, target_table = _membership(source_words, source_count), _membership(target_words, target_count)
    is_word = target_table[~target_marks].any(0)  # (words), False at words of punctuation only
    queries = target_table * (~target_marks[:, None] | ~is_word)  # (T, words)
    attention = queries.T @ weights[:, :-1]  # (words, S)
    to_words, to_marks = (attention @ (source_table * keys[:, None]) for keys in (~source_marks, source_marks))
    preferred = np.where(is_word[:, None], _balanced(to_words), to_marks)
    return [(int(by_word.argmax()), j) for j, by_word in enumerate(preferred) if by_word.any()]


def _balanced(weights: Floats) -> Floats:
    """Return weights of target words for source words in which those that attract many have less for each.

    Twice, a weight is divided by the root of the sum of its column, then by the sum of its row: half of the way of
    Sinkhorn and Knopp (1967), who divide by both sums until all are 1.
    """
    for _ in range(2):
        weights = weights / np.sqrt(weights.sum(0) + _TINY)
        weights = weights / (weights.sum(1, keepdims=True) + _TINY)
    return weights


def _membership(words: Sequence[range], count: int) -> Floats:
    """Return (tokens, words), 1 where a token is a part of a word."""
    table = np.zeros((len(words), count), np.float32)
    for token, word_range in enumerate(words):
        table[token, word_range.start : word_range.stop] = 1
    return table
