"""The tokenizers of a corpus: trained on a sample of its text, or taken from an initial model; how well they fit it.

With `tokenizer.vocab_size: auto`, the pieces that are no single characters grow with the square root of the text. This
agrees with what was found best for 5,000 sentence pairs (2,000 pieces; Sennrich & Zhang 2019), for 165,000 (over
10,000; Araabi & Monz 2020) and for 4.5 million (32,000; Gowda & May 2020), and with our recipes: 5,000 for 24,000 short
pairs of English and Chinese, 8,000 for 306,000 of English and Italian.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import Recipe, TokenizerSettings
from nmt.config.data_section import LARGEST_PROPOSED_VOCABULARY
from nmt.errors import ConfigError, ModelError
from nmt.system.console import Console
from nmt.text.corpus import read_pairs
from nmt.text.languages import is_language
from nmt.text.manifest import Manifest
from nmt.text.passage_keys import mixed
from nmt.text.prepared import PreparedCorpus
from nmt.text.tokenizer import COVERAGE, Tokenizer, Tokenizers, VocabularySizeError

SAMPLED_CHARACTERS = 30_000_000
"""More text changes the pieces little. SentencePiece needs 24 bytes of RAM for each character."""
_SEED = 0x9E3779B97F4A7C15
_PIECES_PER_ROOT = 1.8  # pieces of several characters, for the square root of the characters of the text
_SYMBOLS = 4  # <pad>, <unk>, <s>, </s>
_ALPHABET_CHARACTERS = 10_000_000  # characters of a text that is no sample among which different ones are counted
_MULTIPLE = 64
"""Larger vocabularies are a multiple of this, with which GPUs compute products of matrices several times as fast."""
_MOST_MISSING = 0.01
"""The share of characters without a piece from which a tokenizer does not fit a text."""
_PAIRS_READ = 20_000
_CHARACTERS_SHOWN = 20

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
        if size == "auto":
            read, counts = 0, Counter[str]()
            for line in lines():
                if share < 1 or read < _ALPHABET_CHARACTERS:
                    counts.update(line)
                read += len(line)
            size = proposed_size(total if share < 1 else read, counts, settings, len(tags))
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
    """Return the tokenizers of the initial model. Raises ConfigError where the recipe states other ones."""
    tokenizers = Tokenizers.load(initial)
    found = {
        "vocab_size": len(tokenizers.source),
        "shared": tokenizers.shared,
        "type": "bpe" if tokenizers.source.merges else "unigram",
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


def coverage_rows(recipe: Recipe, manifest: Manifest) -> list[list[str]]:
    """Return the share of characters without a piece on both sides of each training text; [] if there is only one."""
    sides_of = manifest.train.sides
    if len(sides_of) < 2:
        return []
    return [
        [f"data.train.{number} ({recipe.target_of(corpus)})", *(f"{side.missing_share:.3%}" for side in sides)]
        for number, (corpus, sides) in enumerate(zip(recipe.data.train, sides_of, strict=True))
    ]


def misfits(recipe: Recipe, corpus: PreparedCorpus) -> Iterator[str]:
    """Yield a warning for each side that the tokenizer of the initial model does not fit, with missing characters."""
    train, tokenizers = corpus.manifest.train, corpus.tokenizers
    sides = (("source", train.source, tokenizers.source), ("target", train.target, tokenizers.target))
    for index, (name, counts, tokenizer) in enumerate(sides):
        if counts.missing_share <= _MOST_MISSING:
            continue
        missing = Counter[str]()
        for text in recipe.data.train:
            pairs = read_pairs(text, recipe.languages_of(text))
            for pair in islice(pairs, _PAIRS_READ // len(recipe.data.train)):
                missing.update(tokenizer.missing_characters((pair.source, pair.target)[index]))
        shown = " ".join(character for character, _ in missing.most_common(_CHARACTERS_SHOWN))
        spelled = "bytes, which makes its sentences long" if tokenizer.table.bytes else "<unk>, and so lost"
        yield (
            f"train.init_from: its tokenizer has no piece for {counts.missing_share:.1%} of the characters of the "
            f"{name} text; they become {spelled}. {len(missing):,} different ones in the first pairs, most often "
            f"{shown}. Train a model of its own for this text, or start from one trained on such text"
        )
