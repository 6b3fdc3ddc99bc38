"""The tokenizers of a corpus: trained on a sample of its text, or taken from an initial model; how well they fit it.

With `tokenizer.vocab_size: auto`, the pieces that are no single characters grow with the square root of the text. This
agrees with what was found best for 5,000 sentence pairs (2,000 pieces; Sennrich & Zhang 2019), for 165,000 (over
10,000; Araabi & Monz 2020) and for 4.5 million (32,000; Gowda & May 2020), and with our recipes: 5,000 for 24,000 short
pairs of English and Chinese, 8,000 for 306,000 of English and Italian.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nmt.config import Recipe, TokenizerSettings
from nmt.config.data_section import LARGEST_PROPOSED_VOCABULARY
from nmt.errors import ConfigError, ModelError
from nmt.text.languages import is_language
from nmt.text.tokenizer import COVERAGE, Tokenizer, Tokenizers, VocabularySizeError

SAMPLED_BYTES = 24_000_000
"""More text changes the pieces little. SentencePiece needs about 22 bytes of RAM for each byte of text."""
_PIECES_PER_ROOT = 1.8  # pieces of several characters, for the square root of the characters of the text
_SYMBOLS = 4  # <pad>, <unk>, <s>, </s>
_MULTIPLE = 64
"""Larger vocabularies are a multiple of this, with which GPUs compute products of matrices several times as fast."""


def train_tokenizers(recipe: Recipe, size: int, sample: Callable[[float], Iterator[Sequence[str]]]) -> Tokenizers:
    """Train the tokenizer(s) on a text of so many bytes on both sides.

    `sample` returns an evenly spread share of its lines, whose last two cells are source and target. Raises ConfigError
    for a vocabulary that the text does not yield.
    """
    settings, tags = recipe.tokenizer, recipe.tags

    def trained(sides: Sequence[int], tags: Sequence[str]) -> Tokenizer:
        share = min(1.0, SAMPLED_BYTES / (size * len(sides) / 2))

        def lines() -> Iterator[str]:
            return (pair[side] for pair in sample(share) for side in sides)

        def of_size(pieces: int) -> Tokenizer:
            return Tokenizer.train(lines(), settings.model_copy(update={"vocab_size": pieces}), tags)

        if settings.vocab_size != "auto":
            return of_size(settings.vocab_size)
        counts = Counter[str]()
        for line in lines():
            counts.update(line)
        try:
            return of_size(proposed_size(round(counts.total() / share), counts, settings, len(tags)))
        except VocabularySizeError as error:  # this text is too small or too varied for it
            return of_size(error.bound)

    if settings.shared:
        shared = trained((-2, -1), tags)
        return Tokenizers(shared, shared)
    return Tokenizers(trained((-2,), tags), trained((-1,), ()))


def proposed_size(characters: int, counts: Counter[str], settings: TokenizerSettings, tags: int = 0) -> int:
    """Return a number of pieces for a text of so many characters, with the counts of those in a sample of it."""
    symbols = _SYMBOLS + tags + len(settings.symbols) + 256
    pieces = symbols + _alphabet(counts, COVERAGE) + round(_PIECES_PER_ROOT * math.sqrt(characters))
    if pieces > 8 * _MULTIPLE:
        pieces = math.ceil(pieces / _MULTIPLE) * _MULTIPLE
    return min(pieces, LARGEST_PROPOSED_VOCABULARY)


def _alphabet(counts: Counter[str], coverage: float) -> int:
    """Return how many characters, the most frequent first, make up the share `coverage` of a text."""
    missing = coverage * counts.total()
    for size, (_, count) in enumerate(counts.most_common(), start=1):
        missing -= count
        if missing <= 0:
            return size
    return len(counts)


def initial_tokenizers(recipe: Recipe, initial: Path) -> Tokenizers:
    """Return the tokenizers of an initial model. Raises ConfigError where they do not fit the recipe."""
    if recipe.tokenizer != TokenizerSettings():
        raise ConfigError(
            f"tokenizer: the tokenizer comes with train.init_from ({initial}); leave this section out, or empty"
        )
    tokenizers = Tokenizers.load(initial)
    try:
        tokenizers.source.tag_ids(recipe.tags)
    except ModelError as error:
        known = ", ".join(tokenizers.source.tags) or "none"
        raise ConfigError(f"train.init_from ({initial}): {error}; its tags are {known}") from None
    languages = [tag[1:] for tag in tokenizers.source.tags if tag.startswith("2") and is_language(tag[1:])]
    if len(languages) > 1 and not recipe.target_tags:
        raise ConfigError(
            f"languages.target: found {recipe.languages.target[0]}, but the model of train.init_from ({initial}) has "
            f"several target languages; state them all: target: [{', '.join(languages)}]"
        )
    return tokenizers
