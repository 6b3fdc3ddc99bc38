"""The section on training."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.schedules import Schedule
from nmt.config.section import File, PositiveInt, Probability, Section

DEFAULT_PATIENCE = 10
"""Validations without a better score after which a training ends that has a validation text, but neither `stop` nor a
falling schedule."""


class Stop(Section):
    """The limits of training; the first one that is reached ends it."""

    steps: PositiveInt | None = 100_000
    """Number of updates."""
    epochs: Annotated[PositiveInt | None, Field(examples=[30])] = None
    """Number of passes over the training text."""
    hours: Annotated[float | None, Field(gt=0, le=1e6, examples=[1.5])] = None
    """Wall-clock time of training, summed over interruptions."""
    patience: Annotated[PositiveInt | None, Field(examples=[8])] = None
    """Successive validations without a better `best_metric`. Without the section `stop` it is 10, if there is a
    validation text and the schedule does not fall until a last step."""

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        if self.steps is self.epochs is self.hours is self.patience is None:
            raise ValueError("training would never end; give steps, epochs, hours or patience")
        return self


class TrainSettings(Section):
    """Training of a model from a prepared corpus."""

    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] | Literal["auto"] = 4096  # more fit on no device
    """Padded target tokens in a batch (sentences × longest, in each length group), divided among all processes. auto
    tries on CUDA how many fit in the device memory when a run begins, at most 32,768 for each process; elsewhere it
    is 4,096 for each. It stays constant."""
    length_groups: Annotated[int, Field(ge=1, le=1000)] = 4
    """Length groups in a batch. Sentences in a group have similar lengths, so little is padded; several groups mix
    lengths in each update, which speeds up convergence (measured in benchmarks/RESULTS.md)."""
    accumulate: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of batches whose gradients are summed for one update."""
    schedule: Schedule = Schedule()
    """The learning rate as a function of the step."""
    label_smoothing: Probability = 0.1
    """Probability distributed over the wrong tokens (Szegedy et al. 2016)."""
    clip_norm: Annotated[float | None, Field(gt=0, le=1e6)] = 1.0
    """Largest norm of the gradient of all parameters together; null for no clipping."""
    init_from: Annotated[File | None, Field(examples=["../runs/base"])] = None
    """Model directory or run whose weights and tokenizer initialize the model, for fine-tuning; null for random
    weights."""
    freeze: Annotated[tuple[str, ...], Field(strict=False, examples=[["encoder.*"]])] = ()
    """Names of weights that are not trained; `*` matches any text. `encoder.*` is the whole encoder, `encoder.0.*` its
    first layer."""
    stop: Stop = Stop()
    """The limits of training."""
    log_every: PositiveInt = 50
    """Steps between two lines of the log."""
    validate_every: PositiveInt = 1000
    """Steps between two validations; each writes a checkpoint."""
    best_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """Metric on the validation text that selects the best checkpoint."""
    keep_best: PositiveInt = 3
    """Number of best checkpoints that stay on disk, besides the newest."""
    tensorboard: bool = False
    """Also write the log for TensorBoard, into the folder `tensorboard` of the run."""

    @property
    def budget(self) -> int:
        """Return batch_tokens, which is a number once a run has begun."""
        assert self.batch_tokens != "auto"
        return self.batch_tokens

    @property
    def group_budget(self) -> int:
        """Return the largest number of padded target tokens in a length group."""
        return max(1, self.budget // self.length_groups)
