"""Characters without a piece: by text, and which ones they are where the tokenizer comes from another model."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from nmt.config import Recipe
from nmt.text.corpus import read_pairs
from nmt.text.manifest import Manifest
from nmt.text.tokenizer import Tokenizers

_MOST = 0.01
"""The share of characters without a piece from which a tokenizer does not fit a text."""
_PAIRS_READ = 20_000
_CHARACTERS_SHOWN = 20


def coverage_rows(recipe: Recipe, manifest: Manifest) -> list[list[str]]:
    """Return the share of characters without a piece on both sides of each training text; [] if there is only one."""
    sides_of = manifest.train.sides
    if len(sides_of) < 2:
        return []
    return [
        [f"data.train.{number} ({recipe.target_of(corpus)})", *(f"{side.missing_share:.3%}" for side in sides)]
        for number, (corpus, sides) in enumerate(zip(recipe.data.train, sides_of, strict=True))
    ]


def misfits(recipe: Recipe, manifest: Manifest, tokenizers: Tokenizers) -> Iterator[str]:
    """Yield a warning for each side that the tokenizer of the initial model does not fit, with missing characters."""
    train = manifest.train
    sides = (("source", train.source, tokenizers.source), ("target", train.target, tokenizers.target))
    for index, (name, counts, tokenizer) in enumerate(sides):
        if counts.missing_share <= _MOST:
            continue
        missing = Counter[str]()
        for corpus in recipe.data.train:
            pairs = read_pairs(corpus, recipe.languages_of(corpus))
            for pair in islice(pairs, _PAIRS_READ // len(recipe.data.train)):
                missing.update(tokenizer.missing_characters((pair.source, pair.target)[index]))
        shown = " ".join(character for character, _ in missing.most_common(_CHARACTERS_SHOWN))
        spelled = "bytes, which makes its sentences long" if tokenizer.table.bytes else "<unk>, and so lost"
        yield (
            f"train.init_from: its tokenizer has no piece for {counts.missing_share:.1%} of the characters of the "
            f"{name} text; they become {spelled}. {len(missing):,} different ones in the first pairs, most often "
            f"{shown}. Train a model of its own for this text, or start from one trained on such text"
        )
