"""The sections on text: languages, files, filters, tokenizer."""

import re
import unicodedata
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, field_serializer, model_validator

from nmt.config.section import File, OneOrMore, PositiveInt, Section, SettingError

# ISO 639, with script or region; tokenization, typography and metrics depend on it.
_LANGUAGE_CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


def _is_code(name: str) -> str:
    if not _LANGUAGE_CODE.fullmatch(name):
        raise ValueError(f"found {name!r}, expected an ISO code such as zh, zh-Hant or pt_BR")
    return name


def spelling(code: str) -> str:
    """Return a code in the spelling by which codes are compared."""
    return code.casefold().replace("_", "-")


Language = Annotated[str, AfterValidator(_is_code)]


class LanguagePair(NamedTuple):
    """The languages of one text."""

    source: str
    target: str


class Languages(Section):
    """The direction of translation, as ISO 639 codes with optional script or region."""

    source: Annotated[Language, Field(examples=["en"])]
    """Language of the input."""
    target: Annotated[OneOrMore[Language], Field(examples=["it", ["it", "zh"]])]
    """Language of the translations, or a list of them: one model for several target languages."""

    @field_serializer("target")
    def _alone_or_list(self, target: tuple[str, ...]) -> str | list[str]:
        return target[0] if len(target) == 1 else list(target)

    @model_validator(mode="after")
    def _targets_differ(self) -> Self:
        if not self.target:
            raise SettingError("target", "found nothing, expected a language, or a list of languages")
        spellings = [*map(spelling, self.target)]
        if twice := next((code for code in self.target if spellings.count(spelling(code)) > 1), None):
            raise SettingError("target", f"{twice} is in the list twice")
        return self

    @property
    def names(self) -> str:
        """The direction as text: `en → it`, `en → it, zh`."""
        return f"{self.source} → {', '.join(self.target)}"

    def chosen_target(self, code: str | None, key: str) -> str:
        """Return the target language that `code` names, as in `pt_BR` for `pt-br`; the only one for None.

        Raises SettingError about `key`, an option or a setting, for another language, and for None with several.
        """
        matching = [target for target in self.target if code is None or spelling(code) == spelling(target)]
        if len(matching) == 1:
            return matching[0]
        given = "is not set" if code is None else f"found {code}"
        raise SettingError(key, f"{given}, expected {' or '.join(self.target)}, the target language")

    def target_tag(self, code: str) -> str | None:
        """Return the tag that requests a translation into a language: `2zh`; None if there is only one language."""
        return f"2{code}" if len(self.target) > 1 else None


Column = PositiveInt | Annotated[str, Field(min_length=1)]


class CorpusFile(Section):
    """One parallel text: a file with both languages, or two files with corresponding lines.

    Files may be compressed (.gz, .bz2, .xz, .zst) or in a zip archive: `corpus.zip`, or `corpus.zip/NAME` for one of
    several texts in it.
    """

    file: Annotated[File | None, Field(examples=["train.tsv.gz"])] = None
    """File with both languages, in the format of its name: .csv, .jsonl, .tmx, .xlf, .po; all others are tsv."""
    columns: Annotated[tuple[Column, Column], Field(strict=False)] = (1, 2)
    """Columns of source and target, counted from 1 or by their names in the first line; for jsonl the keys, as in
    [translation.en, translation.it]. [2, 1] reverses the direction."""
    source: Annotated[File | None, Field(examples=["train.en"])] = None
    """File with one source sentence in each line."""
    target: Annotated[File | None, Field(examples=["train.it"])] = None
    """File with the translations, line by line."""
    oversample: float = Field(default=1.0, ge=0.001, le=1000)
    """How often each pair occurs in an epoch: 2 is twice, 0.5 is in every other epoch on average."""
    tag: Annotated[str | None, Field(pattern=r"^[a-z0-9-]+$", max_length=100, examples=["bt"])] = None
    """Put `<tag>`, of small letters, digits and hyphens, before each source sentence, to mark back-translated text."""
    target_language: Annotated[Language | None, Field(examples=["zh"])] = None
    """Language of the target, one of `languages.target`; required if that has several."""

    @property
    def files(self) -> dict[str, Path]:
        """The files as they are written in the recipe, by key."""
        named = {"file": self.file, "source": self.source, "target": self.target}
        return {key: path for key, path in named.items() if path is not None}

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sorted(self.files) not in (["file"], ["source", "target"]):
            given = " and ".join(self.files) or "none of them"
            raise ValueError(f"give either file: FILE, or both source: FILE and target: FILE; found {given}")
        if self.source is not None and self.columns != (1, 2):
            raise SettingError("columns", "belongs to a file with both languages, not to a pair of files")
        if self.columns[0] == self.columns[1]:
            raise SettingError("columns", f"must name two different columns, found {self.columns[0]} twice")
        if isinstance(self.columns[0], str) != isinstance(self.columns[1], str):
            raise SettingError("columns", "give the numbers of both columns, or the names of both")
        return self


# Rules that can be turned off.
RuleName = Literal["damaged", "copy", "symbols", "script", "length", "leak", "language", "duplicate"]


class Filters(Section):
    """Rules that exclude training pairs. `audit.json` of the prepared corpus counts the pairs excluded by each."""

    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Longest source or target in tokens. The RAM or device memory of attention grows with its square."""
    han_variants: Literal["keep", "convert"] = "keep"
    """Chinese lines that are Traditional in a Simplified text, or the reverse: keep them, or convert them with OpenCC
    (`pip install opencc`). zh-Hans or zh-Hant as the language states which one the text is in."""
    language: bool = False
    """Remove pairs with a line that is certainly in another language, as web crawls have; reads every line with
    py3langid, some 50 µs each."""
    scored_by: Annotated[File | None, Field(examples=["../runs/base"])] = None
    """Model or run by which pairs are removed (rule improbable) whose target is as improbable as that of another
    sentence: pairs that are not above the best 5 % of shuffled ones. It is not needed in training. After a change of a
    model under the same name, prepare with --force. null for no such rule."""
    keep: Annotated[tuple[RuleName, ...], Field(strict=False)] = ()
    """Rules that are not applied, as in [copy, duplicate]: the pairs that they would exclude are kept. docs/data.md
    describes each rule. [language] also permits text that is certainly not in the languages of the recipe, which is an
    error otherwise."""

    @model_validator(mode="after")
    def _one_use_of_language(self) -> Self:
        if self.language and "language" in self.keep:
            raise SettingError("language", "true removes what keep: [language] permits; use one of them")
        return self


class Data(Section):
    """The texts for training, validation and test."""

    train: Annotated[tuple[CorpusFile, ...], Field(strict=False, examples=[[{"file": "train.tsv.gz"}]])]
    """Texts to train on."""
    valid: Annotated[OneOrMore[CorpusFile], Field(examples=[{"file": "valid.tsv"}])] = ()
    """Text that selects the best checkpoint; not trained on. A list for several target languages, one text for each."""
    test: Annotated[OneOrMore[CorpusFile], Field(examples=[{"file": "test.tsv"}])] = ()
    """Text for the score at the end of training; before, only its sentences are removed from the training text (rule
    leak). A list for several target languages, as `valid`."""
    filters: Filters = Filters()
    temperature: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Temperature T that balances the training texts: a text of n pairs has a share of an epoch in proportion to
    n^(1/T), times its `oversample` (Arivazhagan et al. 2019). 1 keeps the texts as they are, 5 is common for texts of
    very different size. Needs no new preparation."""

    @property
    def train_texts(self) -> dict[str, CorpusFile]:
        """The training texts by key: `data.train.0`, `data.train.1`, and so on."""
        return {f"data.train.{number}": corpus for number, corpus in enumerate(self.train)}

    @property
    def valid_texts(self) -> dict[str, CorpusFile]:
        """The validation texts by key: `data.valid`, or `data.valid.0`, `data.valid.1`, and so on."""
        return _by_key("data.valid", self.valid)

    @property
    def test_texts(self) -> dict[str, CorpusFile]:
        """The test texts by key, as those for validation."""
        return _by_key("data.test", self.test)

    @property
    def texts(self) -> dict[str, CorpusFile]:
        """All texts by key."""
        return self.train_texts | self.valid_texts | self.test_texts

    @property
    def tags(self) -> list[str]:
        """The tags of the training texts, sorted; the other texts have no further ones."""
        return sorted({corpus.tag for corpus in self.train if corpus.tag is not None})


def _by_key(key: str, texts: tuple[CorpusFile, ...]) -> dict[str, CorpusFile]:
    """Return texts by key; the only one is not numbered."""
    return {key if len(texts) == 1 else f"{key}.{number}": corpus for number, corpus in enumerate(texts)}


LARGEST_PROPOSED_VOCABULARY = 32_000  # pieces that `vocab_size: auto` chooses at most


def _is_symbol(text: str) -> str:
    plain = all(unicodedata.category(character)[0] not in "CZ" for character in text)
    if not text or not plain or "▁" in text or not unicodedata.is_normalized("NFC", text):
        raise ValueError(f"found {text!r}, expected characters in form NFC without spaces and control characters")
    if re.fullmatch("</?s>|<pad>|<unk>|<0x[0-9A-Fa-f]{2}>", text):
        raise ValueError(f"found {text!r}, which is a special symbol of the tokenizer")
    return text


class TokenizerSettings(Section):
    """The SentencePiece model that splits text into pieces."""

    vocab_size: Annotated[Annotated[int, Field(ge=32, le=1_000_000)] | Literal["auto"], Field(examples=[8000])] = "auto"
    """Number of pieces, with special symbols. auto chooses it from the amount of training text when the corpus is
    prepared: about 1,000 for 2,000 short sentence pairs, at most 32,000."""
    shared: bool = True
    """Use one vocabulary for both languages rather than one for each."""
    type: Literal["unigram", "bpe", "word", "char"] = "unigram"
    """Algorithm: unigram language model (Kudo 2018), byte-pair encoding (Sennrich et al. 2016), or for comparison, the
    most frequent words, separated by spaces only, or all frequent characters. A word or character without a piece is
    spelled in bytes, so no text is lost."""
    min_frequency: PositiveInt = 1
    """Occurrences in the training text (in the part that the tokenizer reads) that make a word a piece; rarer ones are
    spelled in bytes. For type: word."""
    lowercase: bool = False
    """Read and write small letters only: source, target and the input of `nmt translate`. Scores compare such
    translations with references as they are."""
    symbols: Annotated[
        tuple[Annotated[str, AfterValidator(_is_symbol)], ...],
        Field(strict=False, max_length=1000, examples=[["{0}", "<b>", "</b>"]]),
    ] = ()
    """Character sequences that are always one piece, such as placeholders and markup. They must occur in the training
    text for their translation to be learned."""

    @model_validator(mode="after")
    def _fits_type(self) -> Self:
        if self.type == "word" and self.symbols:
            raise SettingError("symbols", "type: word has no pieces inside words; leave them out, or use another type")
        if self.type != "word" and self.min_frequency > 1:
            raise SettingError("min_frequency", f"it counts words, and type is {self.type}; set type: word")
        return self

    @property
    def largest_vocabulary(self) -> int:
        """Return the number of pieces; for auto, the largest number that it may choose."""
        return LARGEST_PROPOSED_VOCABULARY if self.vocab_size == "auto" else self.vocab_size
