"""The sections on text: languages, files, filters, tokenizer."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from nmt.config.section import File, Section, SettingError, number_or_auto

_TOKENIZER_SYMBOL = re.compile("pad|unk|s|0x[0-9]{2}")
_LANGUAGE_CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""ISO 639, with script or region; tokenization, typography and metrics depend on it."""


def _is_code(name: str) -> str:
    if not _LANGUAGE_CODE.fullmatch(name):
        raise ValueError(f"found {name!r}, expected an ISO code such as zh, zh-Hant or pt_BR")
    return name


Language = Annotated[str, AfterValidator(_is_code)]


class Languages(Section):
    """The direction of translation, as ISO 639 codes with optional script or region."""

    source: Annotated[Language, Field(examples=["en"])]
    """Language of the input."""
    target: Annotated[Language, Field(examples=["it"])]
    """Language of the translations."""


FileFormat = Literal["tsv", "csv", "tmx", "xliff", "po", "jsonl"]


def _is_column(value: object) -> int | str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return value
    raise ValueError(f"found {value!r}, expected the number of a column, from 1, or its name")


Column = Annotated[
    int | str,
    PlainValidator(_is_column),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}),
]


class CorpusFile(Section):
    """One parallel text: a file with both languages, or two files with corresponding lines.

    Files may be compressed (.gz, .bz2, .xz, .zst) or in a zip archive: `corpus.zip`, or `corpus.zip/NAME` for one of
    several texts in it. `*` in a path stands for any name.
    """

    file: Annotated[File | None, Field(examples=["corpora/*.tmx"])] = None
    """File with both languages."""
    format: FileFormat | None = None
    """Format of `file`; by default that of its name: .tsv or .txt, .csv, .tmx, .xlf or .xliff, .po, .jsonl."""
    columns: Annotated[tuple[Column, Column], Field(strict=False)] = (1, 2)
    """Columns of source and target, counted from 1 or by their names in the first line; for jsonl the keys, as in
    [translation.en, translation.it]. [2, 1] reverses the direction."""
    tsv: Annotated[File | None, Field(examples=["train.tsv.gz"])] = None
    """Short for `file` with `format: tsv`: one sentence pair in each line, in columns separated by tabs."""
    source: Annotated[File | None, Field(examples=["train.en"])] = None
    """File with one source sentence in each line."""
    target: Annotated[File | None, Field(examples=["train.it"])] = None
    """File with the translations, line by line."""
    oversample: float = Field(default=1.0, ge=0.001, le=1000)
    """How often each pair occurs in an epoch: 2 is twice, 0.5 is in every other epoch on average."""
    tag: Annotated[str | None, Field(pattern=r"^[a-z0-9-]+$", max_length=100, examples=["bt"])] = None
    """Put `<tag>` before each source sentence, for example to mark back-translated or out-of-domain text."""

    @property
    def files(self) -> dict[str, Path]:
        """The files as they are written in the recipe, by key."""
        named = {"file": self.file, "tsv": self.tsv, "source": self.source, "target": self.target}
        return {key: path for key, path in named.items() if path is not None}

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sorted(self.files) not in (["file"], ["tsv"], ["source", "target"]):
            found = " and ".join(self.files) or "none of them"
            raise ValueError(f"give either file: FILE, or both source: FILE and target: FILE; found {found}")
        if self.format is not None and self.file is None:
            raise SettingError("format", "belongs to `file`")
        if self.source is not None and self.columns != (1, 2):
            raise SettingError("columns", "belongs to a file with both languages, not to a pair of files")
        if self.columns[0] == self.columns[1]:
            raise SettingError("columns", f"must name two different columns, found {self.columns[0]} twice")
        if isinstance(self.columns[0], str) != isinstance(self.columns[1], str):
            raise SettingError("columns", "give the numbers of both columns, or the names of both")
        if self.tag is not None and _TOKENIZER_SYMBOL.fullmatch(self.tag):
            raise SettingError("tag", f"<{self.tag}> is a special symbol of the tokenizer; choose another name")
        return self


RuleName = Literal["copy", "script", "duplicate"]
"""Rules that can be turned off."""


def _in_one_order(rules: tuple[RuleName, ...]) -> tuple[RuleName, ...]:
    return tuple(sorted(set(rules)))  # another order is no other setting


class Filters(Section):
    """Rules that exclude training pairs. The manifest of the prepared corpus counts the pairs excluded by each."""

    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Longest source or target in tokens. The memory of attention grows with its square."""
    max_ratio: float = Field(default=9.0, gt=1, le=1e9)
    """Largest ratio of the longer to the shorter side, in tokens; the first ten tokens of difference are ignored."""
    keep: Annotated[tuple[RuleName, ...], Field(strict=False), AfterValidator(_in_one_order)] = ()
    """Rules that are not applied, as in [copy, duplicate]: the pairs that they would exclude are kept. docs/data.md
    describes each rule."""


class Data(Section):
    """The texts for training, validation and test."""

    train: Annotated[tuple[CorpusFile, ...], Field(strict=False, min_length=1, examples=[[{"tsv": "train.tsv.gz"}]])]
    """Texts to train on."""
    valid: Annotated[CorpusFile | None, Field(examples=[{"tsv": "valid.tsv"}])] = None
    """Text that selects the best checkpoint; not trained on."""
    test: Annotated[CorpusFile | None, Field(examples=[{"tsv": "test.tsv"}])] = None
    """Text for the score at the end of training; not used before."""
    filters: Filters = Filters()
    """Rules that exclude training pairs."""

    @property
    def prepared_texts(self) -> dict[str, CorpusFile]:
        """The texts of a prepared corpus by key: `data.train.0`, …, `data.valid`."""
        texts = {f"data.train.{number}": corpus for number, corpus in enumerate(self.train)}
        return texts if self.valid is None else texts | {"data.valid": self.valid}

    @property
    def tags(self) -> list[str]:
        """The tags in those texts, sorted."""
        return sorted({corpus.tag for corpus in self.prepared_texts.values() if corpus.tag is not None})


LARGEST_PROPOSED_VOCABULARY = 32_000
"""Pieces that `vocab_size: auto` chooses at most."""

NumberOrAuto = Annotated[
    Annotated[int, Field(ge=32, le=1_000_000), Tag("number")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(number_or_auto),
]


class TokenizerSettings(Section):
    """The SentencePiece model that splits text into pieces."""

    vocab_size: Annotated[NumberOrAuto, Field(examples=[8000])] = "auto"
    """Number of pieces, with special symbols and bytes. auto chooses it from the amount of training text when the
    corpus is prepared: about 1,000 for 2,000 short sentence pairs, at most 32,000."""
    shared: bool = True
    """Use one vocabulary for both languages rather than one for each."""
    type: Literal["unigram", "bpe"] = "unigram"
    """Algorithm: unigram language model (Kudo 2018) or byte-pair encoding (Sennrich et al. 2016)."""
    coverage: float = Field(default=0.9999, gt=0.9, le=1)
    """Fraction of the characters in the text that are pieces; rarer ones are written in bytes."""
    byte_fallback: bool = True
    """Write unknown characters in bytes, so that every text can be encoded (256 of the pieces are bytes)."""

    @property
    def largest_vocabulary(self) -> int:
        """Return the number of pieces; for auto, the largest number that it may choose."""
        return LARGEST_PROPOSED_VOCABULARY if self.vocab_size == "auto" else self.vocab_size
