"""The sections on text: which languages, which files, what is left out of them, and how they are cut into pieces."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.recipe_errors import Misfit
from nmt.config.section import File, PositiveInt, Section

_OWN_SYMBOL = re.compile("pad|unk|s|0x[0-9]{2}")


class Languages(Section):
    """Which language is translated into which, as ISO codes (`en`, `it`, `zh`)."""

    source: str = Field(min_length=2)
    """Language of the text that goes in."""
    target: str = Field(min_length=2)
    """Language of the text that comes out."""


class CorpusFile(Section):
    """One parallel text: a tab-separated file, or two files whose lines pair up; `.gz` is read as it is."""

    tsv: File | None = None
    """A file with one pair a line, its columns separated by tabs."""
    columns: Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)] = (1, 2)
    """Which columns of the tsv hold source and target, counted from 1; [2, 1] reads it the other way."""
    source: File | None = None
    """The source side, one sentence a line."""
    target: File | None = None
    """The target side, line by line beside the source."""
    oversample: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch shows each pair: 2 is twice, 0.5 is every other epoch on average."""
    tag: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    """Mark each source sentence with `<tag>`, as for back-translated or out-of-domain text."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        pair = (self.source is not None, self.target is not None)
        if self.tsv is not None and any(pair):
            raise ValueError("give either tsv, or source and target, not both")
        if self.tsv is None and not all(pair):
            raise ValueError("give either tsv: FILE, or both source: FILE and target: FILE")
        if self.tsv is None and self.columns != (1, 2):
            raise Misfit("columns", "belongs to a tsv, not to a pair of files")
        if self.columns[0] == self.columns[1]:
            raise Misfit("columns", f"must name two different columns, found {self.columns[0]} twice")
        if self.tag is not None and _OWN_SYMBOL.fullmatch(self.tag):
            raise Misfit("tag", f"<{self.tag}> is a symbol of the tokenizer's own; choose another name")
        return self


class Filters(Section):
    """Which training pairs are left out; the counts a rule are kept in the manifest."""

    max_tokens: PositiveInt = 256
    """Longest source or target kept, in tokens."""
    max_ratio: float = Field(default=9.0, gt=1)
    """Longest side over shortest side, in tokens; the first ten tokens of difference are free."""
    keep_duplicates: bool = False
    """Keep pairs that occur again, word for word."""
    keep_copies: bool = False
    """Keep pairs whose target is the source untranslated."""
    keep_any_script: bool = False
    """Keep pairs whose target holds no letter of the target language's script (zh: Han)."""


class Data(Section):
    """The texts: what to learn from, what to watch while learning, and what to report at the end."""

    train: Annotated[tuple[CorpusFile, ...], Field(strict=False, min_length=1)]
    """Texts to learn from."""
    valid: CorpusFile | None = None
    """Text that chooses the best checkpoint; never trained on."""
    test: CorpusFile | None = None
    """Text for the final score; never looked at by training."""
    filters: Filters = Filters()
    """Which training pairs are left out."""


class TokenizerSettings(Section):
    """SentencePiece: how text is cut into pieces."""

    vocab_size: Annotated[int, Field(ge=32, lt=2**31)] = 8000
    """Pieces in the vocabulary, special symbols and bytes included."""
    shared: bool = True
    """One vocabulary for both languages, or one each."""
    type: Literal["unigram", "bpe"] = "unigram"
    """How pieces are chosen: unigram language model (Kudo 2018) or byte-pair encoding (Sennrich et al. 2016)."""
    coverage: float = Field(default=0.9999, gt=0.9, le=1)
    """Share of the characters in the text that get a piece; rarer ones are spelled in bytes."""
    byte_fallback: bool = True
    """Spell unknown characters in bytes, so that nothing is ever lost (costs 256 pieces)."""
