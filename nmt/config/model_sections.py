"""The sections on the model, its training with the learning rate, the search for translations, and the machine."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from nmt.config.section import File, PositiveInt, Probability, Section, SettingError

Layers = Annotated[int, Field(ge=1, le=1000)]  # deep models of the literature have up to 1,000 (Wang et al. 2022)


class ModelSettings(Section):
    """The Transformer: its size and its variants."""

    encoder_layers: Layers = 6
    """Depth of the encoder."""
    decoder_layers: Layers = 6
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
    """Dropout on the weights of attention, after the softmax. The fast kernels of attention have none, so a training
    with it takes longer and needs more memory; translation does not."""
    activation_dropout: Probability = 0.0
    """Dropout inside the feed-forward layers, after the activation."""
    norm: Literal["pre", "post"] = "pre"
    """Normalise before each sublayer (trains easily) or after it (as in the paper)."""
    norm_epsilon: Annotated[float, Field(gt=0, le=1e-2)] = 1e-5
    """Number added to the variance in each layer norm (Ba et al. 2016)."""
    activation: Literal["relu", "gelu", "swish", "swiglu"] = "relu"
    """Non-linearity of the feed-forward layers."""
    positions: Literal["sinusoidal", "learned", "relative", "rotary"] = "sinusoidal"
    """Encoding of the order of tokens: sinusoids or learned vectors added to the embeddings (Vaswani et al. 2017,
    Gehring et al. 2017), or in self-attention, learned vectors for distances (Shaw et al. 2018) or rotation (Su et al.
    2021)."""
    max_positions: Annotated[int, Field(ge=8, le=100_000)] = 1024
    """Number of learned positions of each side: the longest sentence in tokens, with tags and end symbol. Longer lines
    are divided before translation, and translations are not longer. For positions: learned."""
    max_distance: Annotated[int, Field(ge=1, le=1000)] = 16
    """Longest distance with vectors of its own; quality is the same from 4 to 256 (Shaw et al. 2018). For positions:
    relative."""
    attention_score: Literal["scaled_dot", "dot", "bilinear", "additive"] = "scaled_dot"
    """Score of a query and a key: q · k / √d (Vaswani et al. 2017), q · k or q W k (Luong et al. 2015), or
    v · tanh(q + k) (Bahdanau et al. 2015). All but the first are for study: slow, and not for `nmt export`."""
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """Share one matrix among source, target and output; between target and output; or not at all."""
    output_bias: bool = False
    """Add a bias to the logits, as Marian does."""

    @property
    def longest(self) -> int:
        """Return the most tokens of a sentence, with tags and end symbol: a large number if positions have no limit."""
        return self.max_positions if self.positions == "learned" else 2**31

    @staticmethod
    def padded_vocabulary(vocabulary: int) -> int:
        """Return the number of rows in the matrices of a vocabulary: a multiple of 64."""
        return vocabulary + -vocabulary % 64

    @property
    def layer_weights(self) -> tuple[int, int]:
        """Return the number of weights of all encoder layers, and of all decoder layers."""
        dim, gates = self.dim, 2 if self.activation == "swiglu" else 1
        attention = 4 * dim * dim + 4 * dim
        attention += {"bilinear": dim * dim // self.heads, "additive": dim}.get(self.attention_score, 0)
        feed_forward = (gates + 1) * self.feed_forward * dim + gates * self.feed_forward + dim
        norm = 2 * dim
        encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
        if self.positions == "relative":  # keys and values of the distances -k … k, or -k … 0
            encoder += 2 * (2 * self.max_distance + 1) * (dim // self.heads)
            decoder += 2 * (self.max_distance + 1) * (dim // self.heads)
        return self.encoder_layers * encoder, self.decoder_layers * decoder

    def weight_count(self, source_vocabulary: int, target_vocabulary: int) -> int:
        """Return the number of weights of a model, tied ones counted once."""
        source, target = map(self.padded_vocabulary, (source_vocabulary, target_vocabulary))
        rows = {"all": target, "target": source + target, "none": source + 2 * target}[self.tied_embeddings]
        rows += 2 * self.max_positions if self.positions == "learned" else 0
        others = (4 * self.dim if self.norm == "pre" else 0) + (target if self.output_bias else 0)
        return sum(self.layer_weights) + rows * self.dim + others

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        dim, heads, positions, score = self.dim, self.heads, self.positions, self.attention_score
        if dim % heads or dim % 2:
            raise SettingError("dim", f"must be even and a multiple of heads, found dim {dim} and heads {heads}")
        if positions == "rotary" and dim // heads % 2:
            problem = f"rotary rotates pairs of numbers, so dim / heads must be even, found {dim} / {heads}"
            raise SettingError("positions", problem)
        if score != "scaled_dot" and positions in ("relative", "rotary"):
            problem = f"{positions} positions are defined for scaled_dot only, found {score}"
            raise SettingError("attention_score", problem)
        return self


# A learning rate; the bound is that of single precision. Training ends with an error if one is too high.
Rate = Annotated[float, Field(gt=0, le=1e30)]

# The keys of each schedule.
_DEFAULTS: dict[str, dict[str, float]] = {
    "noam": {"factor": 2.0, "warmup": 4000},
    "inverse_sqrt": {"rate": 7e-4, "warmup": 4000},
    "constant": {"rate": 1e-4, "warmup": 0},
    "linear": {"rate": 1e-3, "warmup": 1000, "floor": 0.0},
    "cosine": {"rate": 1e-3, "warmup": 1000, "floor": 0.0},
    "wsd": {"rate": 1e-3, "warmup": 1000, "floor": 0.0, "decay": 0.2},
}


class Schedule(Section):
    """The learning rate as a function of the step.

    noam: factor · dim^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017). The others rise linearly to
    `rate` in `warmup` steps. Then inverse_sqrt is rate · sqrt(warmup / step), constant stays; and until the last step,
    linear falls linearly, cosine as half a cosine (Loshchilov & Hutter 2017), and wsd is constant, then falls linearly
    (Hu et al. 2024).
    """

    name: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"] = "noam"
    """The schedule."""
    rate: Rate = 1e-3
    """The highest learning rate, not of noam. By default 7e-4 for inverse_sqrt and 1e-4 for constant."""
    factor: Rate = 2.0
    """Factor on the whole curve of noam; the highest rate is factor · (dim · warmup)^-0.5."""
    warmup: Annotated[int, Field(ge=0, lt=2**31)] = 4000
    """Steps until the rate is highest. By default 0 for constant, 1,000 for linear, cosine and wsd."""
    floor: Probability = 0.0
    """Rate at the last step, as a fraction of the highest; for linear, cosine and wsd."""
    decay: float = Field(default=0.2, gt=0, le=1)
    """Length of the decay of wsd, as a fraction of all steps."""

    @property
    def falls(self) -> bool:
        """Whether the rate falls until the last step."""
        return self.name in ("linear", "cosine", "wsd")

    @property
    def steady_share(self) -> float:
        """The share of the steps, from the first, in which the rate does not depend on the number of steps."""
        return 1 - self.decay if self.name == "wsd" else float(not self.falls)

    @model_validator(mode="before")
    @classmethod
    def _add_defaults(cls, data: Any) -> Any:
        """Add the defaults of the schedule. Raises SettingError for a key of another schedule."""
        given = {} if data is None else data
        name = given.get("name", "noam") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in _DEFAULTS:
            return data
        others = cls.model_fields.keys() - {"name", *_DEFAULTS[name]}
        if key := next((key for key in given if key in others), None):
            raise SettingError(key, f"the schedule {name} has no such key; it has {' and '.join(_DEFAULTS[name])}")
        return {**_DEFAULTS[name], **given}

    @model_serializer(mode="wrap")
    def _own_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in serialize(self).items() if key == "name" or key in _DEFAULTS[self.name]}


# Training ends after this many validations without a better score if it has a validation text, but neither the section
# `stop` nor a falling schedule.
DEFAULT_PATIENCE = 10


class Stop(Section):
    """The limits of training; the first one that is reached ends it."""

    steps: PositiveInt | None = 100_000
    """Number of updates. With a limit of epochs or time, there is none by default."""
    epochs: Annotated[PositiveInt | None, Field(examples=[30])] = None
    """Number of passes over the training text."""
    minutes: Annotated[float | None, Field(gt=0, le=1e8, examples=[10])] = None
    """Wall-clock time of training with its validations, summed over interruptions. Once the speed is known, it becomes
    a number of steps, which the run records: there the schedule ends."""
    hours: Annotated[float | None, Field(gt=0, le=1e6, examples=[1.5])] = None
    """The same in hours."""
    patience: Annotated[PositiveInt | None, Field(examples=[8])] = None
    """Successive validations without a better `best_metric`. Without the section `stop` it is 10, if there is a
    validation text and the schedule does not fall until a last step."""

    @property
    def seconds(self) -> float | None:
        """The limit in time, None if there is none."""
        limits = [limit * unit for limit, unit in ((self.minutes, 60), (self.hours, 3600)) if limit is not None]
        return min(limits, default=None)

    @model_validator(mode="before")
    @classmethod
    def _other_limit(cls, data: Any) -> Any:
        has_other = isinstance(data, dict) and any(data.get(key) is not None for key in ("epochs", "minutes", "hours"))
        return {"steps": None, **data} if has_other else data

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        if self.steps is self.epochs is self.seconds is self.patience is None:
            raise ValueError("training would never end; give steps, epochs, minutes, hours or patience")
        return self


class TrainSettings(Section):
    """Training of a model from a prepared corpus."""

    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] | Literal["auto"] = 4096  # more fit on no device
    """Target tokens in a batch, counted as sentences × longest in each length group, divided among all processes. auto
    tries on CUDA how many fit in the device memory when a run begins, at most 32,768 for each process; elsewhere it
    is 4,096 for each. It stays constant."""
    length_groups: Annotated[int, Field(ge=1, le=1000)] = 4
    """Length groups in a batch. Sentences in a group have similar lengths, so a batch has nearly `batch_tokens` tokens;
    several groups mix lengths in each update, which speeds up convergence (measured in benchmarks/RESULTS.md)."""
    accumulate: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of batches whose gradients are summed for one update."""
    schedule: Schedule = Schedule()
    label_smoothing: Probability = 0.1
    """Probability distributed over the wrong tokens (Szegedy et al. 2016)."""
    clip_norm: Annotated[float | None, Field(gt=0, le=1e6)] = 1.0
    """Largest norm of the gradient of all parameters together; null for no clipping."""
    adam_beta1: Probability = 0.9
    """β₁ of Adam (Kingma & Ba 2015), the decay of the mean of gradients; the defaults of all three are those of Vaswani
    et al. 2017."""
    adam_beta2: Probability = 0.98
    """β₂ of Adam, the decay of the mean of squared gradients."""
    adam_epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-9
    """ε of Adam, added to the root of that mean."""
    init_from: Annotated[File | None, Field(examples=["../runs/base"])] = None
    """Model directory or run whose weights and tokenizer initialize the model, for fine-tuning; null for random
    weights."""
    freeze: Annotated[tuple[str, ...], Field(strict=False, examples=[["encoder.*"]])] = ()
    """Names of weights that are not trained; `*` matches any text. `encoder.*` is the whole encoder, `encoder.0.*` its
    first layer."""
    stop: Stop = Stop()
    log_every: PositiveInt = 50
    """Steps between two lines of the log."""
    validate_every: PositiveInt | Literal["epoch"] = 1000
    """Steps between two validations; each writes a checkpoint. epoch validates after the update that ends a pass over
    the training text."""
    best_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """Metric on the validation text that selects the best checkpoint."""
    keep_best: PositiveInt | Literal["all"] = 3
    """Number of best checkpoints that stay on disk, besides the newest. With all, every checkpoint stays."""
    tensorboard: bool | Literal["all"] = False
    """Also write the log for TensorBoard, into the folder `tensorboard` of the run, with a sample translation of each
    validation. all adds histograms of weights and gradients, and the attention of the sample as an image."""

    @property
    def budget(self) -> int:
        """Return batch_tokens, which is a number once a run has begun."""
        assert self.batch_tokens != "auto"
        return self.batch_tokens

    @property
    def group_budget(self) -> int:
        """Return the largest number of padded target tokens in a length group."""
        return max(1, self.budget // self.length_groups)


class MaxLength(Section):
    """The longest translation: factor × source tokens + extra, in tokens, with the end symbol on both sides."""

    factor: float = Field(default=2.0, ge=0, le=100)
    """Target tokens per source token."""
    extra: Annotated[int, Field(ge=1, le=1000)] = 10
    """Target tokens in addition."""


class Sampling(Section):
    """Random translations drawn from the model's distribution. A sentence has the same ones in any text."""

    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Divisor of the logits: below 1 the distribution is sharper, above 1 flatter."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the fewest tokens whose total probability is at least this (Holtzman et al. 2020)."""


class DecodeSettings(Section):
    """The search for translations, by `nmt translate` and of the test text; validations search greedily.

    `nmt translate --set decode.key=value` changes it for one command.
    """

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """Exponent α of the length normalization: log-probabilities are divided by ((5+L)/6)^α (Wu et al. 2016); 0 favours
    short translations."""
    exact: bool = False
    """Search until no other hypothesis of the beam can become the best; `false` also drops those that hardly ever do,
    which takes less time for the same quality."""
    max_length: Annotated[MaxLength | None, Field(examples=[{"factor": 1.5, "extra": 10}])] = None
    """The longest translation; null uses the limit that `nmt prepare` measures on the training text."""
    no_repeat_ngram: Annotated[PositiveInt | None, Field(examples=[3])] = None
    """Exclude translations in which a sequence of this many tokens occurs twice; null allows them."""
    sampling: Annotated[Sampling | None, Field(examples=[{"temperature": 0.7}])] = None
    """Draw random translations instead of searching for the best; `{}` draws from the unchanged distribution."""
    protect: bool = True
    """Copy URLs, e-mail addresses, placeholders, tags, emoji and code unchanged: the model translates the texts between
    them, and pairs of tags are placed by the word alignment."""
    typography: bool = True
    """Set full-width punctuation in Chinese, narrow in other languages but Japanese; begin and end translations as
    their sources, and translate lines in capitals and English titles in the case of sentences."""
    batch_tokens: Annotated[PositiveInt | None, Field(examples=[8192])] = None
    """Longest source × sentences × beam that are searched at a time; null for 8,192 on a CPU, where a batch also has at
    most a few hundred hypotheses, and for 32,768 to 524,288 on a GPU, by its memory."""


class RuntimeSettings(Section):
    """The machine."""

    device: Literal["auto", "cuda", "mps", "cpu"] = "auto"
    """Device to compute on; auto takes the first of cuda, mps and cpu that is present."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """Type of the numbers in matrix products. auto is bf16 on GPUs that support it, and for models of width 128 or
    more on CPUs with instructions for it (the training of a run keeps its choice); else fp32. int8 is for translation
    on CPUs only."""
    threads: Annotated[int | None, Field(ge=1, le=1024, examples=[4])] = None
    """CPU threads of each process; null takes OMP_NUM_THREADS if that is set, else one for each core."""
