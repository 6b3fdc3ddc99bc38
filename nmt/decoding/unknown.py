"""Replace `<unk>` in translations by the source word that it attends to most (Luong et al. 2015).

S source tokens of a sentence, without `</s>`; U tokens of its translation that are `<unk>`.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, pairwise

from torch import Tensor

from nmt.decoding.alignment import alignment_heads_of, token_alignments
from nmt.decoding.models import BatchRunner
from nmt.model.checkpoint import LoadedModel
from nmt.text.languages import UNSPACED
from nmt.text.tokenizer import UNK, Tokenizer

_INSIDE = rf"[^\s!-/:-@\[-`{{-~¡«·»¿\u2010-\u2029\u2030-\u205e\u3001-\u3004\u3008-\u3020\uff01-\uff0f{UNSPACED}]"
"""A character of a word in a script with spaces: anything but spaces and punctuation, for the sake of names."""
_WORD = re.compile(f"{_INSIDE}+")
_PLACE = "\ufdd1"  # placeholder for `<unk>`, a code point that no normalized text contains
_PLACE_IN_WORD = re.compile(f"{_INSIDE}*{_PLACE}{_INSIDE}*")


def words_for_unknown(
    runner: BatchRunner,
    models: Sequence[LoadedModel],
    pairs: Sequence[tuple[str, Sequence[int]]],
    budget: int,
    tags: Sequence[int] = (),
) -> list[list[str] | None]:
    """Return the source word for each `<unk>` in translations, for pairs of sentence and target ids.

    None for a translation without any. `tags` are the ids that precede each sentence.
    """
    source = models[0].tokenizers.source
    encoded = [([*tags, *source.encode(line)], ids) for line, ids in pairs if UNK in ids]
    weights_of = iter(token_alignments(runner, alignment_heads_of(models), encoded, budget))
    words_of: list[list[str] | None] = []
    for line, ids in pairs:
        places = [place for place, token in enumerate(ids) if token == UNK]
        words = words_attended(next(weights_of)[places, len(tags) :], source.spell_text(line)) if places else None
        words_of.append(words)
    return words_of


def words_attended(weights: Tensor, source: Sequence[bytes]) -> list[str]:
    """Return the word with the highest sum of weights (U, S + 1) for each `<unk>`, without punctuation around it.

    Source holds the bytes of its tokens. In scripts without spaces, and for punctuation, each token is a word.
    """
    text = b"".join(source).decode("utf-8", "replace")
    span_of = [(place, place + 1) for place in range(len(text))]  # the span of the word that a character belongs to
    for word in _WORD.finditer(text):
        span_of[slice(*word.span())] = [word.span()] * len(word[0])
    words = []
    # the bounds of the tokens in characters; the bytes of a character may be several tokens
    bounds = [0, *(len(beginning.decode("utf-8", "ignore")) for beginning in accumulate(source))]
    for start, end in pairwise(bounds):
        start += text.startswith(" ", start)  # a token that only begins a word counts for that word
        last = min(max(start, end - 1), len(text) - 1)
        words.append(text[span_of[start][0] : span_of[last][1]] if start < len(text) else "")
    return [_heaviest(words, row) for row in weights[:, :-1].tolist()]


def text_with_words(tokenizer: Tokenizer, ids: Sequence[int], words: Sequence[str]) -> str:
    """Return the text of target ids; the next of the words replaces each `<unk>` with the letters adjacent to it."""
    following = iter(words)

    def word(match: re.Match[str]) -> str:
        return " ".join(dict.fromkeys(next(following, "") for _ in range(match[0].count(_PLACE))))

    pieces = [_PLACE.encode() if i == UNK else piece for i, piece in zip(ids, tokenizer.spell(ids), strict=True)]
    return _PLACE_IN_WORD.sub(word, b"".join(pieces).decode("utf-8", "replace"))


def _heaviest(words: Sequence[str], weights: Sequence[float]) -> str:
    """Return the word with the greatest sum of weights, "" if there is none."""
    sums: dict[str, float] = defaultdict(float)
    for word, weight in zip(words, weights, strict=True):
        sums[word] += weight
    sums.pop("", None)
    return max(sums, key=lambda word: sums[word], default="")
