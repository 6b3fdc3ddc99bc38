"""The tokenizers of a corpus: trained on a sample of its text, or taken from an initial model."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import Recipe
from nmt.errors import ConfigError, ModelError
from nmt.system.console import Console
from nmt.text.languages import is_language
from nmt.text.passage_keys import mixed
from nmt.text.preparing.vocabulary import proposed_size, vocabulary_for
from nmt.text.tokenizer import Tokenizer, Tokenizers, VocabularySizeError

SAMPLED_CHARACTERS = 30_000_000
"""More text changes the pieces little. SentencePiece needs 24 bytes of RAM for each character."""
_SEED = 0x9E3779B97F4A7C15

Lines = Callable[[float], Iterator[tuple[str, str]]]
"""A function that returns the pairs of a sample with a given share of the text."""


def is_sampled(indices: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.bool_]:
    """Return which pairs are in a sample with a share of all pairs.

    It depends on the index of a pair alone: its hash, by splitmix64 (Steele et al. 2014).
    """
    bits = mixed((indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_SEED))
    return bits / 2.0**64 < share


def train_tokenizers(recipe: Recipe, characters: tuple[int, int], pairs: Lines, console: Console) -> Tokenizers:
    """Train the tokenizer(s) on a text of so many characters on the source and the target side.

    Raises ConfigError for a vocabulary that the text does not yield.
    """
    settings, tags = recipe.tokenizer, recipe.tags

    def trained(name: str, sides: Sequence[int], tags: Sequence[str]) -> Tokenizer:
        total = sum(characters[side] for side in sides)
        share = min(1.0, SAMPLED_CHARACTERS / max(1, total))

        def lines() -> Iterator[str]:
            return (pair[side] for pair in pairs(share) for side in sides)

        size = settings.vocab_size
        if size == "auto" and share == 1:
            size = vocabulary_for(lines(), settings, len(tags))
        elif size == "auto":
            counts = Counter[str]()
            for line in lines():
                counts.update(line)
            size = proposed_size(total, counts, settings, len(tags))
        sample = "" if share == 1 else f", a sample of {share:.1%}"
        console.info(f"training a tokenizer of {size:,} pieces on {name}{sample}")
        try:
            return Tokenizer.train(lines(), settings.model_copy(update={"vocab_size": size}), tags)
        except VocabularySizeError as error:
            if settings.vocab_size != "auto":
                raise
            console.info(f"this text is too small or too varied for it; training one of {error.bound:,} pieces")
            return Tokenizer.train(lines(), settings.model_copy(update={"vocab_size": error.bound}), tags)

    if settings.shared:
        shared = trained("both sides", (0, 1), tags)
        return Tokenizers(shared, shared)
    return Tokenizers(trained("the source side", (0,), tags), trained("the target side", (1,), ()))


def initial_tokenizers(recipe: Recipe, initial: Path) -> Tokenizers:
    """Return the tokenizers of the initial model. Raises ConfigError where the recipe states other ones."""
    tokenizers = Tokenizers.load(initial)
    found = {
        "vocab_size": len(tokenizers.source),
        "shared": tokenizers.shared,
        "type": "bpe" if tokenizers.source.merges else "unigram",
        "byte_fallback": "<0x00>" in tokenizers.source.pieces,
        "split_digits": tokenizers.source.splits_digits,
        "symbols": tuple(tokenizers.source.pieces[i] for i in sorted(tokenizers.source.table.protected)),
    }
    for key in sorted(found.keys() & recipe.tokenizer.model_fields_set):
        stated = getattr(recipe.tokenizer, key)
        if stated not in ("auto", found[key]):
            raise ConfigError(
                f"tokenizer.{key}: found {stated}, but the tokenizer of train.init_from has {found[key]}; "
                f"leave the section tokenizer out: it comes with {initial}"
            )
    for tag in recipe.tags:
        try:
            tokenizers.source.tag_id(tag)
        except ModelError:
            advice = "it has other target languages" if tag in recipe.target_tags else "use one of its tags, or none"
            raise ConfigError(
                f"data: tag {tag}: the tokenizer of train.init_from ({initial}) was trained without it; {advice}"
            ) from None
    languages = [tag.removeprefix("2") for tag in tokenizers.source.tags if re.fullmatch("2[a-zA-Z].*", tag)]
    languages = [code for code in languages if is_language(code)]
    if len(languages) > 1 and not recipe.target_tags:
        raise ConfigError(
            f"languages.target: found {recipe.languages.target[0]}, but the model of train.init_from ({initial}) has "
            f"several target languages; state them all: target: [{', '.join(languages)}]"
        )
    return tokenizers
