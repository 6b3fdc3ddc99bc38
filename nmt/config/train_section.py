"""The section on training."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from nmt.config.schedules import Noam, Schedule
from nmt.config.section import File, PositiveInt, Probability, Rate, Section


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
    init_from: File | None = None
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
