"""The recipe: one YAML file that says everything about a translator, read strictly.

Each section is a frozen class; its defaults live here and nowhere else. An unknown key, a wrong type or an
impossible value is a `ConfigError` that names file, line and ``section.key`` — all of them at once, not one a try.

>>> recipe = load_recipe(Path("recipes/demo-en-it.yaml"), ["train.batch_tokens=2048"])
>>> recipe.train.batch_tokens
2048
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from nmt import strict_yaml
from nmt.errors import ConfigError
from nmt.recipe_errors import Misfit, explain, explained
from nmt.schedules import Falling, Noam, Schedule
from nmt.sections import File, PositiveInt, Probability, Rate, Section

_OWN_SYMBOL = re.compile("pad|unk|s|0x[0-9]{2}")
SectionType = TypeVar("SectionType", bound=Section)


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
    weight: float = Field(default=1.0, gt=0)
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
    duplicates: bool = False
    """Keep pairs that occur again, word for word."""
    copies: bool = False
    """Keep pairs whose target is the source untranslated."""
    any_script: bool = False
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

    size: Annotated[int, Field(ge=32, lt=2**31)] = 8000
    """Pieces in the vocabulary, special symbols and bytes included."""
    shared: bool = True
    """One vocabulary for both languages, or one each."""
    type: Literal["unigram", "bpe"] = "unigram"
    """How pieces are chosen: unigram language model (Kudo 2018) or byte-pair encoding (Sennrich et al. 2016)."""
    coverage: float = Field(default=0.9999, gt=0.9, le=1)
    """Share of the characters in the text that get a piece; rarer ones are spelled in bytes."""
    byte_fallback: bool = True
    """Spell unknown characters in bytes, so that nothing is ever lost (costs 256 pieces)."""


class ModelSettings(Section):
    """The Transformer: its size and its variants."""

    encoder_layers: PositiveInt = 6
    """Depth of the encoder."""
    decoder_layers: PositiveInt = 6
    """Depth of the decoder."""
    dim: PositiveInt = 512
    """Width D of the model."""
    feed_forward: PositiveInt = 2048
    """Inner width of the feed-forward layers."""
    heads: PositiveInt = 8
    """Attention heads; must divide dim."""
    dropout: Probability = 0.1
    """Dropout on embeddings and on each sublayer's output."""
    attention_dropout: Probability = 0.0
    """Dropout on attention weights."""
    feed_forward_dropout: Probability = 0.0
    """Dropout inside the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Normalise before each sublayer (trains easily) or after it (as in the paper)."""
    normalization: Literal["layer", "rms"] = "layer"
    """What normalising is: to mean zero and variance one (Ba et al. 2016), or to a mean square of one (Zhang & Sennrich
    2019)."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward layers."""
    positions: Literal["sinusoidal", "learned", "relative", "rotary"] = "sinusoidal"
    """How the model knows the order of words: from vectors added to the embeddings, fixed or learned, or in
    self-attention, from learned vectors for distances (Shaw et al. 2018) or by rotation (Su et al. 2021)."""
    max_positions: PositiveInt = 1024
    """Longest sequence that learned positions can tell apart."""
    max_distance: PositiveInt = 16
    """Longest distance that relative positions can tell apart; all longer ones look like it."""
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """Share one matrix among source, target and output; between target and output; or not at all."""

    @property
    def longest(self) -> int | None:
        """Return how many tokens, `</s>` included, a sequence may have; None for any number."""
        return self.max_positions if self.positions == "learned" else None

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.dim % self.heads or self.dim % 2:
            raise Misfit(
                "dim", f"must be even and a multiple of heads, found dim {self.dim} and heads {self.heads}", "heads"
            )
        if self.positions == "rotary" and self.dim // self.heads % 2:
            raise Misfit(
                "positions",
                f"rotary turns pairs of numbers, so dim / heads must be even, found {self.dim} / {self.heads}",
                "heads",
            )
        return self


class Stop(Section):
    """When training is over: whichever limit is met first."""

    steps: PositiveInt | None = 100_000
    """Optimizer updates."""
    epochs: PositiveInt | None = None
    """Passes over the training text."""
    hours: Rate | None = None
    """Wall-clock time of training, all sessions of the run together."""
    patience: PositiveInt | None = None
    """Validations in a row without a better `best_metric`."""

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        if self.steps is self.epochs is self.hours is self.patience is None:
            raise ValueError("training would never end; give steps, epochs, hours or patience")
        return self


NumberOrAuto = Annotated[
    Annotated[int, Field(ge=16, lt=2**31), Tag("number")] | Annotated[Literal["auto"], Tag("auto")],
    # told apart first, so that a wrong number is one mistake and not two
    Discriminator(lambda value: "auto" if value == "auto" else "number"),
]


class TrainSettings(Section):
    """How the model learns."""

    batch_tokens: NumberOrAuto = 4096
    """Padded target tokens in a batch (sentences × longest, in each of its length groups), shared out if there are
    several processes; auto finds by trial how many fit in the memory when a run begins, and keeps to that."""
    length_groups: PositiveInt = 4
    """Groups in a batch. Within a group all sentences are of like length, so little is padded; several groups mix
    lengths in each update, from which a model learns faster (measured in benchmarks/RESULTS.md)."""
    accumulate: PositiveInt = 1
    """Batches that make one update, as if they were one."""
    schedule: Schedule = Noam()
    """The learning rate as a function of the step."""
    subword_sampling: Annotated[float, Field(gt=0, le=10)] | None = None
    """Cut each training sentence into other pieces each time it is read: with a unigram tokenizer the exponent α of
    their probability (Kudo 2018; 0.2 to 0.5, less varies more), with bpe the share of merges left out (Provilkov et al.
    2020; 0.1)."""
    label_smoothing: Probability = 0.1
    """Probability given to the wrong symbols (Szegedy et al. 2016)."""
    r_drop: float = Field(default=0.0, ge=0)
    """Read each batch twice and weigh with this how far the predictions differ under dropout (R-Drop, Liang et al.
    2021; 5 for small data); costs a second pass."""
    adam_betas: Annotated[tuple[Probability, Probability], Field(strict=False)] = (0.9, 0.98)
    """Decay of Adam's two moments."""
    adam_epsilon: Rate = 1e-9
    """Adam's guard against division by zero."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Share of the learning rate by which matrices shrink each step, apart from the gradient (AdamW, Loshchilov &
    Hutter 2019); norms, biases and learned positions do not."""
    clip_norm: Rate | None = 1.0
    """Longest gradient, all parameters together; null for none."""
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Validate and keep an exponential moving average of the weights, with this decay a step, such as 0.999."""
    start_from: File | None = None
    """Begin with the weights and the tokenizer of this model or run, to fine-tune it; null begins at random."""
    freeze: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Weights that stay as they are, by name; `*` stands for anything, as in `encoder.*`."""
    stop: Stop = Stop()
    """When training is over."""
    log_every: PositiveInt = 50
    """Steps between two lines of the log."""
    validate_every: PositiveInt = 1000
    """Steps between two validations; each writes a checkpoint."""
    best_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What makes a checkpoint the best."""
    keep_best: PositiveInt = 3
    """How many of the best checkpoints stay on disk, beside the newest."""
    keep_last: PositiveInt = 1
    """How many of the newest checkpoints that were validated stay on disk."""
    tensorboard: bool = False
    """Write the log for TensorBoard too, into the run's folder `tensorboard`."""

    @property
    def budget(self) -> int:
        """Return batch_tokens, which is a number once a run has begun."""
        assert self.batch_tokens != "auto"
        return self.batch_tokens

    @property
    def group_budget(self) -> int:
        """Return how many padded target tokens a length group may hold."""
        return max(1, self.budget // self.length_groups)


class MaxLength(Section):
    """The longest translation: factor × source tokens + extra, in tokens, both sentence ends counted."""

    factor: float = Field(default=2.0, ge=0)
    """Target tokens per source token."""
    extra: PositiveInt = 10
    """Target tokens beside these."""


class Sampling(Section):
    """How translations are drawn at random."""

    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Divides what the model computes: below 1 the probable becomes more so, above 1 less."""
    top_k: PositiveInt | None = None
    """Draw from so many of the most probable tokens only; null from all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the fewest tokens that together are so probable (Holtzman et al. 2020)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Where the randomness comes from: the same sentence and seed give the same samples in any company."""


class DecodeSettings(Section):
    """How translations are searched for, unless the command line says otherwise."""

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    """Hypotheses kept a sentence; 1 is greedy search."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """The exponent α: 0 favours short output."""
    length_normalization: Literal["gnmt", "average"] = "gnmt"
    """Divide log-probabilities by ((5+L)/6)^α (Wu et al. 2016) or by L^α."""
    coverage_penalty: float = Field(default=0.0, ge=0, le=10)
    """The weight β of source tokens that get less than their share of attention, when what the beam found is ranked (Wu
    et al. 2016, eq. 15); 0 for none."""
    max_length: MaxLength | None = None
    """The longest translation; null takes what preparing learnt from the training text."""
    min_length: float = Field(default=0.0, ge=0)
    """The shortest translation, in target tokens per source token, both sentence ends counted."""
    no_repeat_ngram: PositiveInt | None = None
    """Say no run of so many tokens twice; null allows it."""
    repetition_penalty: float = Field(default=1.0, ge=1, le=100)
    """Divides what the model computes for tokens already said, or multiplies it where negative (Keskar et al. 2019,
    section 4.1); 1 for none."""
    sampling: Sampling | None = None
    """Draw translations at random instead of searching for the best; `{}` draws from the model as it is."""
    mbr: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Draw so many samples of each translation and take the one that is most like all others (minimum Bayes risk); null
    for none. It is for `nmt translate`."""
    unknown: Literal["forbid", "copy"] = "forbid"
    """Whether `<unk>` may be said, by models whose vocabulary has no bytes to spell with: copy puts in its place the
    source word that it most attends to. It is for `nmt translate`."""
    protect: bool = True
    """Let URLs, e-mail addresses, placeholders and tags through unchanged: a translation that loses one is searched for
    again."""
    typography: bool = True
    """Set Chinese punctuation full width, Italian accents and apostrophes as they are printed."""
    batch_tokens: PositiveInt = 4096
    """Padded source tokens times beam in a batch."""


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
    parallel: Literal["replicate", "shard"] = "replicate"
    """What several processes, which torchrun starts, hold: the whole model each, or a shard of it each, for models that
    do not fit on one device."""


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
        taken_over = self.train.start_from is not None
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

    @property
    def prepared_directory(self) -> Path:
        """Where the prepared corpus is, or will be."""
        return self.prepared if self.prepared is not None else self.run / "prepared"


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and check all of it.

    Relative paths become absolute: those in the file from the file's folder, those in overrides from the current one.
    Raises ConfigError that lists every problem with its place.
    """
    document = strict_yaml.read(path)
    for override in overrides:
        document.override(override)
    try:
        recipe = Recipe.model_validate(document.data)
    except ValidationError as error:
        raise ConfigError(explain(error, document, Recipe)) from None
    recipe = _absolute_paths(recipe, document, ())
    return recipe if recipe.train.start_from is None else _shaped_like_its_start(recipe, document)


def override_decode(settings: DecodeSettings, overrides: Sequence[str]) -> DecodeSettings:
    """Apply `decode.key=value` overrides to a model's settings. Raises ConfigError that lists every problem."""
    document = strict_yaml.Document("--set", {"decode": settings.model_dump()})
    for override in overrides:
        document.override(override)
    try:
        return _OfModel.model_validate(document.data).decode if overrides else settings
    except ValidationError as error:
        raise ConfigError("\n".join(explained(error, document, _OfModel))) from None


class _OfModel(Section):
    """What of a recipe can be changed when the model is trained."""

    decode: DecodeSettings


def recipe_to_yaml(recipe: Recipe) -> str:
    """Write a recipe as YAML that `load_recipe` reads back to an equal recipe."""
    content = recipe.model_dump(mode="json")
    if recipe.train.start_from is not None:  # what was not said of the tokenizer is as the model has it
        content["tokenizer"] = recipe.tokenizer.model_dump(mode="json", exclude_unset=True)
    return strict_yaml.write(content)


def recipe_schema() -> str:
    """Return the recipe's JSON schema, for editors that complete and check YAML."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _shaped_like_its_start(recipe: Recipe, document: strict_yaml.Document) -> Recipe:
    """Return a fine-tuning recipe with the model's directory found and its settings taken over.

    Raises ConfigError if there is no model, or the recipe states settings that would make it another one.
    """
    assert recipe.train.start_from is not None
    directory = _model_directory(recipe.train.start_from)
    try:
        content = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        start = ModelSettings.model_validate(content["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"train.start_from: {directory / 'config.json'}: cannot read it: {error}") from None
    stated = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set}
    other = sorted(key for key in stated if not key.endswith("dropout") and stated[key] != getattr(start, key))
    if other:
        problems = [
            f"{document.place(('model', key))}: model.{key}: found {stated[key]}, but the model of train.start_from "
            f"has {getattr(start, key)}; leave it out, for it comes with {directory}"
            for key in other
        ]
        raise ConfigError("\n".join(problems))
    train = recipe.train.model_copy(update={"start_from": directory})
    recipe = recipe.model_copy(update={"model": start.model_copy(update=stated), "train": train})
    try:
        return Recipe.model_validate(recipe.model_dump(exclude_unset=True))
    except ValidationError as error:
        raise ConfigError(explain(error, document, Recipe)) from None


def _model_directory(path: Path) -> Path:
    """Return the model directory that a path means: itself, or a run's `best`, else its `last`."""
    for directory in (path, path / "best", path / "last"):
        if (directory / "config.json").is_file():
            return directory
    raise ConfigError(f"train.start_from: {path}: no model here; expected a model directory or a run with a checkpoint")


def _absolute_paths(section: SectionType, document: strict_yaml.Document, at: strict_yaml.Location) -> SectionType:
    """Return the section with every relative path in it, at any depth, made absolute."""

    def absolute(value: Any, location: strict_yaml.Location) -> Any:
        if isinstance(value, Path):
            return Path(os.path.abspath(document.folder(location) / os.path.expanduser(value)))
        if isinstance(value, Section):
            return _absolute_paths(value, document, location)
        if isinstance(value, tuple):
            return tuple(absolute(item, (*location, i)) for i, item in enumerate(value))
        return value

    changed = {name: absolute(getattr(section, name), (*at, name)) for name in section.model_fields_set}
    return section.model_copy(update=changed)
