"""Word alignments: links between source words and target words, from the attention of the decoder to the source.

`best_heads` measures which heads align words best, on a text without reference alignments. S source tokens and T target
tokens of a sentence, without `</s>`; A anchors, C heads.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config import ModelSettings
from nmt.decoding.engine import Engine
from nmt.decoding.results import Pair
from nmt.errors import ModelError
from nmt.kernels.constant_products import Floats
from nmt.model.stored import AlignmentHeads, LoadedModel
from nmt.text.words import Links, is_punctuation, words_of_pieces


def default_heads(settings: ModelSettings) -> AlignmentHeads:
    """Return the heads that align well in most models: those of the last layer but one (Garg et al. 2019)."""
    layer = max(0, settings.decoder_layers - 2)
    return AlignmentHeads(heads=tuple((layer, head) for head in range(settings.heads)))


def align(
    engine: Engine, loaded: LoadedModel, pairs: Sequence[tuple[str, str]], budget: int, tags: Sequence[int] = ()
) -> list[Links]:
    """Return the links between the words of sentences and of given translations, by the first model of the engine.

    The words are those of `nmt.text.words`. `tags` are the ids that precede each sentence. The weights of a target
    token are those of the step that predicts it, the mean over the alignment heads. Raises ModelError if the model
    does not have these heads.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    encoded = [([*tags, *source.encode(line)], target.encode(text)) for line, text in pairs]
    settings = loaded.settings
    heads = (loaded.alignment or default_heads(settings)).heads
    if any(not (0 <= layer < settings.decoder_layers and 0 <= head < settings.heads) for layer, head in heads):
        raise ModelError(
            f"config.json: alignment.heads: found {list(map(list, heads))}, expected layers from 0 to "
            f"{settings.decoder_layers - 1} and heads from 0 to {settings.heads - 1}; copy the model again, or remove "
            "the key alignment"
        )
    tag_bytes = [b""] * len(tags)  # belong to no word
    return [
        word_links(forced.attention[:, :-1].mean(0), [*tag_bytes, *source.spell_text(line)], target.spell_text(text))
        for forced, (line, text) in zip(engine.force(encoded, budget, heads), pairs, strict=True)
    ]


def word_links(weights: Floats, source: Sequence[bytes], target: Sequence[bytes]) -> Links:
    """Link each target word with the source word that its tokens, with weights (T, S + 1), attend to most.

    Source and target are the bytes of the tokens. The weights of a word's tokens are added; a target word that attends
    to `</s>` more than to any word has no link.

    Tokens of punctuation do not count, neither as queries nor as keys, because heads that align nothing attend to
    them: a word such as `Anna?` is aligned by `Anna` alone. A target word of punctuation only, such as `。`, is linked
    with the source word whose punctuation it attends to most.
    """
    source_count, source_words = words_of_pieces(source)
    target_count, target_words = words_of_pieces(target)
    if not source_count:
        return []
    marks_of_source, marks_of_target = (np.array([*map(is_punctuation, side)], bool) for side in (source, target))
    source_table, target_table = _membership(source_words, source_count), _membership(target_words, target_count)
    spelled = target_table[~marks_of_target].any(0)  # (words), True at words with more than punctuation
    rows = target_table * (~marks_of_target[:, None] | ~spelled)  # (T, words)
    lettered, marks = (source_table * kept[:, None] for kept in (~marks_of_source, marks_of_source))
    links: Links = []
    for j, attended in enumerate(rows.T @ weights):  # (S + 1)
        by_word = attended[:-1] @ (lettered if spelled[j] else marks)
        i = int(by_word.argmax())
        if by_word[i] > attended[-1]:
            links.append((i, j))
    return links


def _membership(words: Sequence[range], count: int) -> Floats:
    """Return (tokens, words), 1 where a token is a part of a word."""
    table = np.zeros((len(words), count), np.float32)
    for token, word_range in enumerate(words):
        table[token, word_range.start : word_range.stop] = 1
    return table


# More sentences hardly change the choice; longer ones need much RAM, which holds the weights of all heads.
_SENTENCES, _LONGEST = 2000, 100
# Tokens are partners if at least this many sentences contain both and their Dice coefficient is at least this.
_MIN_SENTENCES, _MIN_DICE = 3, 0.5
_MAX_OF_A_KIND = 10  # anchors of one kind, so that no single name decides
_MIN_KINDS = 10  # with fewer kinds of anchors no heads are chosen


class Anchor(NamedTuple):
    """A target token whose source token is almost certain."""

    kind: tuple[int, int]
    source: int
    target: int


def best_heads(
    engine: Engine, settings: ModelSettings, pairs: Sequence[Pair], budget: int, tags: int = 0
) -> AlignmentHeads | None:
    """Return the heads that point from anchors to their source most often; None with too few anchors, or if none does.

    Heads are added greedily, each time the one with which the mean of their weights is most accurate, until none helps.
    The weights are those of the step that predicts a token: in decoders of two or three layers those of the step that
    reads it (Chen et al. 2020) point to the next word. The first `tags` tokens of every source are tags, no anchors.
    """
    short = [pair for pair in pairs if max(map(len, pair)) < _LONGEST][:_SENTENCES]
    anchors_of_pairs = anchors([(source[tags:], target) for source, target in short])
    kinds = Counter(anchor.kind for pair_anchors in anchors_of_pairs for anchor in pair_anchors)
    if len(kinds) < _MIN_KINDS:
        return None
    heads = [(layer, head) for layer in range(settings.decoder_layers) for head in range(settings.heads)]
    chosen = [(pair, of_pair) for pair, of_pair in zip(short, anchors_of_pairs, strict=True) if of_pair]
    forced = engine.force([pair for pair, _ in chosen], budget, heads)
    rows, places, shares = [], [], []
    for result, (_, of_pair) in zip(forced, chosen, strict=True):
        for anchor in of_pair:
            rows.append(result.attention[:, anchor.target])  # (C, S + 1)
            places.append(tags + anchor.source)
            shares.append(1 / kinds[anchor.kind] / len(kinds))
    padded = np.zeros((len(rows), len(heads), max(row.shape[1] for row in rows)), np.float32)  # (A, C, S + 1)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[:, : row.shape[1]] = row
    best = _choose_heads(padded, np.array(places), np.array(shares))
    return AlignmentHeads(heads=tuple(heads[i] for i in sorted(best))) if best else None


def anchors(pairs: Sequence[Pair]) -> list[list[Anchor]]:
    """Return the anchors of each sentence pair, a few of each kind.

    A kind is a source and a target token that are each other's best partner by the Dice coefficient of the sentences
    that contain them, 2·|both| / (|one| + |other|), as in Melamed 2000. They are an anchor where each occurs once in
    its sentence: names, numbers, punctuation, and words with one translation.
    """
    of_source = Counter(token for source, _ in pairs for token in set(source))
    of_target = Counter(token for _, target in pairs for token in set(target))
    cooccurrences = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    dice = {(a, b): 2 * n / (of_source[a] + of_target[b]) for (a, b), n in cooccurrences.items() if n >= _MIN_SENTENCES}
    best: dict[tuple[str, int], float] = defaultdict(float)
    for (a, b), value in dice.items():
        best["source", a], best["target", b] = max(best["source", a], value), max(best["target", b], value)
    partner = {
        a: b for (a, b), value in dice.items() if value >= _MIN_DICE and value == best["source", a] == best["target", b]
    }
    remaining = dict.fromkeys(partner, _MAX_OF_A_KIND)
    return [list(_anchors_of(pair, partner, remaining)) for pair in pairs]


def _anchors_of(pair: Pair, partner: dict[int, int], remaining: dict[int, int]) -> Iterator[Anchor]:
    source, target = list(pair[0]), list(pair[1])
    for place, token in enumerate(source):
        other = partner.get(token)
        if other is not None and source.count(token) == target.count(other) == 1 and remaining[token]:
            remaining[token] -= 1
            yield Anchor((token, other), place, target.index(other))


def _choose_heads(rows: Floats, places: NDArray[np.int64], shares: NDArray[np.float64]) -> list[int]:
    """Return the most accurate heads, for rows (A, C, S + 1), the right places in them (A), and anchor weights."""
    chosen: list[int] = []
    best, total = 0.0, np.zeros_like(rows[:, :1])
    while True:
        correct = (total + rows).argmax(-1) == places[:, None]  # (A, C)
        accuracy = shares @ correct
        accuracy[chosen] = 0.0
        head = int(accuracy.argmax())
        if accuracy[head] <= best:
            return chosen
        best = float(accuracy[head])
        chosen.append(head)
        total = total + rows[:, [head]]
