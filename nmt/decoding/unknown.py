"""What `<unk>` stands for in a translation: the source word that it most attends to (Luong et al. 2015).

S source tokens of a sentence, without `</s>`; U tokens of its translation that are `<unk>`.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from torch import Tensor

from nmt.decoding.alignment import token_alignments, with_heads
from nmt.decoding.workers import Workers
from nmt.model.checkpoint import LoadedModel
from nmt.text.languages import UNSPACED
from nmt.text.tokenizer import UNK, Tokenizer

_INSIDE = rf"[^\s!-/:-@\[-`{{-~¡«·»¿\u2010-\u2029\u2030-\u205e\u3001-\u3004\u3008-\u3020\uff01-\uff0f{UNSPACED}]"
"""What a word of a script with spaces is made of; whatever is no space and no punctuation may belong to a name."""
_WORD = re.compile(f"{_INSIDE}+")
_PLACE = "\ufdd1"
"""Stands in a text for `<unk>`: no normalized text holds it."""
_PLACE_IN_WORD = re.compile(f"{_INSIDE}*{_PLACE}{_INSIDE}*")


def words_for_unknown(
    models: Sequence[LoadedModel],
    pairs: Sequence[tuple[str, Sequence[int]]],
    budget: int,
    workers: Workers | None = None,
) -> list[list[str]]:
    """Return the source word for each `<unk>` in translations, for sentences and target ids."""
    source = models[0].tokenizers.source
    encoded = [(source.encode(line), ids) for line, ids in pairs]
    weights = token_alignments(with_heads(models), encoded, budget, workers)
    return [
        words_attended(of_one[[place for place, token in enumerate(ids) if token == UNK]], source.spell_text(line))
        for of_one, (line, ids) in zip(weights, pairs, strict=True)
    ]


def words_attended(weights: Tensor, source: Sequence[bytes]) -> list[str]:
    """Return what weights (U, S + 1) are highest on, in all: a word without the punctuation around it.

    Source is what its tokens write. Where words have no spaces between them, and of marks, a token is a word by itself.
    """
    text = b"".join(source).decode("utf-8", "replace")
    begins, ends = list(range(len(text))), list(range(1, len(text) + 1))
    for word in _WORD.finditer(text):
        for place in range(word.start(), word.end()):
            begins[place], ends[place] = word.start(), word.end()
    words = []
    for start, end in pairwise([0, *(len(part.decode("utf-8", "ignore")) for part in accumulate(source))]):
        start += text.startswith(" ", start)  # a mark of a new word that stands alone counts for that word
        last = min(max(start, end - 1), len(text) - 1)
        words.append(text[begins[start] : ends[last]] if start < len(text) else "")
    return [_heaviest(words, row) for row in weights[:, :-1].tolist()]


def text_with_words(tokenizer: Tokenizer, ids: Sequence[int], words: Sequence[str]) -> str:
    """Return what target ids write, with the next of the words for each `<unk>` and the letters that run into it.

    The spaces around it stay.
    """
    following = iter(words)

    def word(match: re.Match[str]) -> str:
        return " ".join(dict.fromkeys(next(following, "") for _ in range(match[0].count(_PLACE))))

    pieces = [_PLACE.encode() if i == UNK else piece for i, piece in zip(ids, tokenizer.spell(ids), strict=True)]
    return _PLACE_IN_WORD.sub(word, b"".join(pieces).decode("utf-8", "replace"))


def _heaviest(words: Sequence[str], weights: Sequence[float]) -> str:
    """Return the word with the greatest sum of weights, "" if there is none."""
    sums: dict[str, float] = {}
    for word, weight in zip(words, weights, strict=True):
        if word:
            sums[word] = sums.get(word, 0.0) + weight
    return max(sums, key=lambda word: sums[word], default="")
