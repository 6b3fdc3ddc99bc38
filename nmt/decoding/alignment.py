"""Word alignments: links between source words and target words, from the attention of the decoder to the source.

S source tokens and T target tokens of a sentence, without `</s>`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import ModelSettings
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.models import BatchRunner
from nmt.model.checkpoint import AlignmentHeads, LoadedModel
from nmt.text.normalize import normalize
from nmt.text.segment import is_punctuation, words, words_of_pieces

Links = list[tuple[int, int]]
"""Pairs of a source word and a target word, both counted from 0, in the order of the target."""


def default_heads(settings: ModelSettings) -> AlignmentHeads:
    """Return the heads that align well in most models: those of the last layer but one (Garg et al. 2019)."""
    layer = max(0, settings.decoder_layers - 2)
    return AlignmentHeads(heads=tuple((layer, head) for head in range(settings.heads)))


def align(
    runner: BatchRunner, loaded: LoadedModel, pairs: Sequence[tuple[str, str]], budget: int, tags: Sequence[int] = ()
) -> list[Links]:
    """Return the links between the words of sentences and of given translations, by the first model of the runner.

    The words are those of `nmt.text.segment`. `tags` are the ids that precede each sentence. The weights of a target
    token are those of the step that predicts it, the mean over the alignment heads.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    encoded = [([*tags, *source.encode(line)], target.encode(text)) for line, text in pairs]
    heads = (loaded.alignment or default_heads(loaded.model.settings)).heads
    tag_bytes = [b""] * len(tags)  # belong to no word
    return [
        word_links(forced.attention[:, :-1].mean(0), [*tag_bytes, *source.spell_text(line)], target.spell_text(text))
        for forced, (line, text) in zip(force_all(runner, encoded, budget, heads), pairs, strict=True)
    ]


def joined_links(segments: Sequence[tuple[str, str, Links]]) -> Links:
    """Return the links of a line from those of its segments: source, translation, and the links between them."""
    joined: Links = []
    sources = targets = 0
    for source, target, links in segments:
        joined += [(sources + i, targets + j) for i, j in links]
        sources += len(words(normalize(source)))
        targets += len(words(normalize(target)))
    return joined


def pharaoh(links: Links) -> str:
    """Return links in the Pharaoh format.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{i}-{j}" for i, j in links)


def word_links(weights: Tensor, source: Sequence[bytes], target: Sequence[bytes]) -> Links:
    """Link each target word with the source word that its tokens, with weights (T, S + 1), attend to most.

    Source and target are the bytes of the tokens. The weights of a word's tokens are added; a target word that attends
    to `</s>` more than to any word has no link.

    Tokens of punctuation do not count, neither as queries nor as keys, because heads that align nothing attend to
    them: a word such as `Anna?` is aligned by `Anna` alone. A target word of punctuation only, such as `。`, is linked
    with the source word whose punctuation it attends to most.
    """
    source_count, of_source = words_of_pieces(source)
    target_count, of_target = words_of_pieces(target)
    if not source_count:
        return []
    marks_of_source, marks_of_target = (
        torch.tensor([is_punctuation(one) for one in side], dtype=torch.bool) for side in (source, target)
    )
    source_table, target_table = _membership(of_source, source_count), _membership(of_target, target_count)
    spelled = target_table[~marks_of_target].any(0)  # (words), True at words with more than punctuation
    rows = target_table * (~marks_of_target.unsqueeze(1) | ~spelled)  # (T, words)
    lettered, marks = (source_table * kept.unsqueeze(1) for kept in (~marks_of_source, marks_of_source))
    links: Links = []
    for j, attended in enumerate((rows.T @ weights).unbind()):  # (S + 1)
        by_word = attended[:-1] @ (lettered if spelled[j] else marks)
        i = int(by_word.argmax())
        if by_word[i] > attended[-1]:
            links.append((i, j))
    return links


def _membership(words: Sequence[range], count: int) -> Tensor:
    """Return (tokens, words), 1 where a token is a part of a word."""
    table = torch.zeros(len(words), count)
    for token, of_token in enumerate(words):
        table[token, of_token.start : of_token.stop] = 1
    return table
