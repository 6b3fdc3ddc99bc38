"""All sections of a recipe put together, and what they must agree on."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.data_section import Data, Languages, TokenizerSettings
from nmt.config.decode_section import DecodeSettings
from nmt.config.model_section import ModelSettings
from nmt.config.recipe_errors import Misfit
from nmt.config.schedules import Falling
from nmt.config.section import File, Section
from nmt.config.train_section import TrainSettings

_CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A language in ISO 639, with script or region where that matters; rules for a language go by it."""


class RuntimeSettings(Section):
    """The machine."""

    device: Literal["auto", "cuda", "mps", "cpu"] = "auto"
    """Where to compute; auto takes the first that is there."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """auto is bf16 on GPUs that have it, fp32 elsewhere. int8 is for translating on CPUs."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of a process; null takes one a core."""
    compile: bool = False
    """Compile the layers for training (torch.compile), for GPUs: minutes at the start, faster steps after it. The same
    to rounding, but a resumed run need not repeat the last bit, for what is compiled may depend on the first batch."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes, started by torchrun, share the work. ddp: each holds the whole model. fsdp: each holds a
    shard of the weights, gradients and optimizer state, for models that do not fit on one device."""


class Recipe(Section):
    """A translator from raw text to scores. Paths are relative to the recipe's own folder."""

    name: str = Field(min_length=1)
    """What to call it in logs."""
    languages: Languages
    """Which language is translated into which."""
    data: Data
    """The texts."""
    tokenizer: TokenizerSettings = TokenizerSettings()
    """How text is cut into pieces."""
    model: ModelSettings = ModelSettings()
    """The Transformer's size and variants."""
    train: TrainSettings = TrainSettings()
    """Batches, learning rate, and the end of training."""
    decode: DecodeSettings = DecodeSettings()
    """How translations are searched for."""
    runtime: RuntimeSettings = RuntimeSettings()
    """Where to compute, and how precisely."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Where all randomness comes from."""
    run: File
    """Folder that training writes: checkpoints, metrics, the recipe as it was."""
    prepared: File | None = None
    """Folder of the prepared corpus; null puts it inside `run`. Name one to share it among runs."""

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.runtime.precision == "int8":
            raise Misfit("runtime.precision", "int8 is for translating only; set it to auto")
        longest = self.data.filters.max_tokens + 1
        taken_over = self.train.init_from is not None
        if self.model.tied_embeddings == "all" and not self.tokenizer.shared and not taken_over:
            message = "all needs tokenizer.shared: true; set it to target or none"
            raise Misfit("model.tied_embeddings", message, other="tokenizer.shared")
        if self.model.positions == "learned" and self.model.max_positions < longest:
            raise Misfit(
                "model.max_positions",
                f"{self.model.max_positions} learned positions are too few for data.filters.max_tokens: "
                f"{longest - 1} and the end symbol; set it to {longest} or more",
                other="model.positions",
            )
        if self.tokenizer.type == "bpe" and (self.train.subword_sampling or 0) >= 1:
            raise Misfit(
                "train.subword_sampling",
                f"is the share of merges left out of a bpe tokenizer: less than 1, found {self.train.subword_sampling}",
                other="tokenizer.type",
            )
        model = self.model
        if self.train.r_drop and not (model.dropout or model.attention_dropout or model.feed_forward_dropout):
            raise Misfit("train.r_drop", "compares passes under dropout, but there is none; set model.dropout")
        if isinstance(self.train.schedule, Falling) and self.train.stop.steps is None:
            falls = f"{self.train.schedule.name} needs train.stop.steps, the step at which the rate has fallen"
            raise Misfit("train.schedule", falls)
        learnt = {corpus.tag for corpus in self.data.train}
        for name, corpus in (("valid", self.data.valid), ("test", self.data.test)):
            if corpus is not None and corpus.tag is not None and corpus.tag not in learnt:
                raise Misfit(
                    f"data.{name}.tag", f"no training text is marked {corpus.tag}; the model could not know it"
                )
        if self.data.valid is None and self.train.stop.patience is not None:
            raise Misfit("train.stop.patience", "needs data.valid, the text to validate on")
        return self

    @model_validator(mode="after")
    def _languages_are_codes(self) -> Self:
        for side, name in (("source", self.languages.source), ("target", self.languages.target)):
            if not _CODE.fullmatch(name):
                raise Misfit(f"languages.{side}", f"found '{name}', expected an ISO code such as zh, zh-Hant or pt_BR")
        return self

    @model_validator(mode="after")
    def _folders_are_apart(self) -> Self:
        if self.prepared is not None and self.run.resolve().is_relative_to(self.prepared.resolve()):
            message = "is the folder of the run, or holds it, and would be replaced whole; name a folder of its own"
            raise Misfit("prepared", message, other="run")
        return self

    @property
    def prepared_directory(self) -> Path:
        """Where the prepared corpus is, or will be."""
        return self.prepared if self.prepared is not None else self.run / "prepared"
