"""The whole recipe, and the checks that concern several sections."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from nmt.config.data_section import CorpusFile, Data, LanguagePair, Languages, TokenizerSettings
from nmt.config.model_sections import DecodeSettings, ModelSettings, RuntimeSettings, TrainSettings
from nmt.config.section import File, Section, SettingError

FURTHER_TOKENS = 3  # of a sentence, besides those that `data.filters.max_tokens` limits: two tags and the end symbol


class Recipe(Section):
    """All settings of a translator. Paths are relative to the recipe's folder."""

    languages: Languages
    data: Data
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    decode: DecodeSettings = DecodeSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of all random numbers of training."""
    run: Annotated[File, Field(examples=["../runs/demo-en-it"])]
    """Folder that training writes: checkpoints, metrics, and the recipe with all defaults."""
    prepared: Annotated[File | None, Field(examples=["../prepared/en-it"])] = None
    """Folder of the prepared corpus, to share it among runs; null puts it inside `run`."""

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        data, model, train = self.data, self.model, self.train
        if self.runtime.precision == "int8":
            raise SettingError("runtime.precision", "int8 is for translation only; set it to auto")
        if model.tied_embeddings == "all" and not self.tokenizer.shared and train.init_from is None:
            raise SettingError("tokenizer.shared", "false needs model.tied_embeddings: target or none")
        if train.schedule.falls and train.stop.steps is train.stop.epochs is train.stop.seconds is None:
            message = f"{train.schedule.name} needs train.stop.steps, epochs, minutes or hours, where the decay ends"
            raise SettingError("train.schedule", message)
        if self.prepared == self.run:
            raise SettingError("prepared", "is the folder of the run; name another one")
        if model.longest < (needed := data.filters.max_tokens + FURTHER_TOKENS):
            if train.init_from is not None:  # the positions are those of the model
                problem = f"but the model of train.init_from has {model.longest} positions"
                advice = f"set it to {model.longest - FURTHER_TOKENS} or less"
                found = f"found {data.filters.max_tokens}, {problem}; {advice}"
                raise SettingError("data.filters.max_tokens", found)
            problem = f"expected {needed} or more, for data.filters.max_tokens, tags and end symbol; change one of them"
            raise SettingError("model.max_positions", problem)
        if not data.valid and train.stop.patience is not None:
            raise SettingError("train.stop.patience", "needs data.valid, the text to validate on")
        return self

    @model_validator(mode="after")
    def _texts_agree(self) -> Self:
        data, languages = self.data, self.languages
        if not data.train:
            raise SettingError("data.train", "found no text, expected at least one")
        tags = {corpus.tag for corpus in data.train}
        for key, corpus in data.texts.items():
            languages.chosen_target(corpus.target_language, f"{key}.target_language")
            if corpus.tag is not None and corpus.tag not in tags:
                raise SettingError(f"{key}.tag", f"no training text has the tag {corpus.tag}, so it is not a token")
        symbols = [f"<{tag}>" for tag in ("pad", "unk", "s", *self.target_tags, *data.tags)]
        if repeated := {symbol for symbol, count in Counter((*symbols, *self.tokenizer.symbols)).items() if count > 1}:
            uses = "a tag, of data.train or of a target language, a special symbol or one of tokenizer.symbols"
            raise SettingError("data.train", f"{min(repeated)} has two meanings, each of which is {uses}; rename one")
        for key in ("valid", "test"):
            codes = [corpus.target_language for corpus in getattr(data, key)]
            if len(codes) > len(set(codes)):
                raise SettingError(f"data.{key}", "two texts have the same target language; expected one for each")
        untrained = [code for code in languages.target if all(self.target_of(text) != code for text in data.train)]
        if untrained and self.train.init_from is None:
            raise SettingError("languages.target", f"no text of data.train has the target language {untrained[0]}")
        return self

    @property
    def name(self) -> str:
        """The name of the run: that of its folder."""
        return self.run.name

    @property
    def target_tags(self) -> list[str]:
        """The tags of the target languages; none if there is only one."""
        return [tag for code in self.languages.target if (tag := self.languages.target_tag(code)) is not None]

    @property
    def tags(self) -> list[str]:
        """All tags that precede source sentences."""
        return [*self.target_tags, *self.data.tags]

    def target_of(self, corpus: CorpusFile) -> str:
        """Return the target language of a text."""
        return self.languages.chosen_target(corpus.target_language, "target_language")

    def languages_of(self, corpus: CorpusFile) -> LanguagePair:
        """Return the languages of a text."""
        return LanguagePair(self.languages.source, self.target_of(corpus))

    @property
    def prepared_directory(self) -> Path:
        """The folder of the prepared corpus."""
        return self.prepared if self.prepared is not None else self.run / "prepared"
