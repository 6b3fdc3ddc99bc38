"""The position of a training: the part of a checkpoint that is neither weights nor moments."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nmt.config import TrainSettings
from nmt.config.loading import first_problem
from nmt.errors import ConfigError, DamagedError
from nmt.system.console import counted
from nmt.system.files import Marker, read_digested

# The file by which a folder is a run.
RUN = Marker("run.json", "nmt run", 6)
PROGRESS_FILE, PROGRESS_VERSION = "progress.json", 1
_BEST_KEPT = 1000  # validations; a much longer file would be refused when read
_LARGEST_EXPONENT = 700  # exp of more is not a float


def perplexity(nll: float) -> float:
    """Return exp of a mean negative log-likelihood in nats; always a finite number."""
    return math.exp(min(nll, _LARGEST_EXPONENT))


def perplexity_text(nll: float) -> str:
    """Return the perplexity with two decimals, or that it is large.

    >>> perplexity_text(1.5), perplexity_text(2345.6)
    ('4.48', '> 1,000,000')
    """
    return f"{perplexity(nll):.2f}" if nll < 13.8 else "> 1,000,000"


@dataclass
class IntervalSums:
    """Sums over the updates since the last line of the log."""

    loss: float = 0.0  # the objective that is optimized, with label smoothing; logged as `objective`
    nll: float = 0.0  # the negative log-likelihood, logged as `loss`
    gradient_norm: float = 0.0
    steps: int = 0
    target_tokens: int = 0
    padded_target_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0  # seconds in which no batch was ready

    def means(self) -> dict[str, float]:
        """Return `loss` (cross-entropy, as in a validation) and `objective` per target token, in nats, and the rest."""
        return {
            "loss": self.nll / self.target_tokens,
            "objective": self.loss / self.target_tokens,
            "perplexity": perplexity(self.nll / self.target_tokens),
            "gradient_norm": self.gradient_norm / self.steps,
            "padding": 1 - self.target_tokens / self.padded_target_tokens,
            "loader_wait": round(self.waited / self.seconds, 4),
            "target_tokens_per_second": round(self.target_tokens / self.seconds, 1),
        }


@dataclass
class Progress:
    """All that the next step depends on, besides weights and moments."""

    step: int = 0
    # the next length group to read: its number in the plan of a window of an epoch
    epoch: int = 0
    window: int = 0
    group: int = 0
    corpus: str = ""  # fingerprint of the prepared corpus
    target_tokens: int = 0
    seconds: float = 0.0
    interval: IntervalSums = field(default_factory=IntervalSums)
    skipped: int = 0  # steps that changed nothing, since their loss or gradient was not finite
    skipped_in_a_row: int = 0  # how many of the last steps were skipped
    best: list[tuple[float, float, int]] = field(default_factory=list)  # validations: metric, loss, step; best first
    validated_at: int = 0  # step of the last validation
    validations_without_gain: int = 0
    validation_seconds: float = 0.0  # of all validations
    last_validation: float = 0.0  # seconds of the last one
    time_limit: float = 0.0  # seconds for which `last_step` was computed
    last_step: int = 0  # the last one within the time limit

    def record_validation(self, metric: float, loss: float) -> bool:
        """Record the validation of this step; return whether it is the best.

        A lower loss decides between equal metrics: BLEU is 0 at the start of a training that makes progress.
        """
        validations = sorted([*self.best, (metric, loss, self.step)], key=lambda entry: (-entry[0], *entry[1:]))
        self.best = validations[:_BEST_KEPT]
        improved = self.best[0][2] == self.step
        self.validations_without_gain = 0 if improved else self.validations_without_gain + 1
        return improved

    def last_step_within(self, limit: float, validate_every: float) -> int:
        """Return the last step that ends, with the validations until then, within `limit` seconds of training.

        A step is predicted to take the mean of the steps so far, and a validation what the last one took. The last step
        is validated, too: on average half a validation more than one for each interval.
        """
        step_seconds = (self.seconds - self.validation_seconds) / self.step + self.last_validation / validate_every
        return self.step + int(max(0.0, limit - self.seconds - self.last_validation / 2) / max(step_seconds, 1e-9))

    def reached_limit(self, settings: TrainSettings) -> str | None:
        """Return in words the limit of `train.stop` that is reached, None if there is none."""
        limits = settings.stop
        # the limit in time is reached at the step that was computed from it, whatever the clock shows
        is_time_over = 0 < (limits.seconds or 0) <= self.time_limit and self.step >= self.last_step
        seconds = self.time_limit if is_time_over else 0.0
        done = (("steps", self.step, 1), ("epochs", self.epoch, 1), ("minutes", seconds, 60), ("hours", seconds, 3600))
        for name, value, unit in done:
            limit = getattr(limits, name)
            if limit is not None and value >= limit * unit:
                return f"train.stop.{name} is {limit:,.12g}"
        if limits.patience is not None and self.validations_without_gain >= limits.patience:
            return f"no better {settings.best_metric} in {counted(limits.patience, 'validation')}"
        return None

    def finished(self, settings: TrainSettings) -> str | None:
        """Return the limit and the best validation of a training that is complete, None if it continues."""
        reason = self.reached_limit(settings)
        if reason is None or self.validated_at < self.step:
            return None
        best = [f"best {settings.best_metric} {abs(metric):.2f} at step {step:,}" for metric, _, step in self.best[:1]]
        return "; ".join([reason, *best])


def check_format(run: Path) -> None:
    """Raise ConfigError for a run of another format version."""
    version = RUN.read(run).get("format_version")
    if version != RUN.version:
        raise ConfigError(
            f"{run}: the run has format version {version}, this nmt reads version {RUN.version}: finish it with the "
            "nmt that began it, or train again, with --restart or in another folder"
        )


def read_progress(directory: Path) -> Progress:
    """Read the progress in a checkpoint. Raises DamagedError."""
    file = directory / PROGRESS_FILE
    content = read_digested(file, PROGRESS_VERSION)
    try:
        return _PROGRESS.validate_python(content)
    except ValidationError as error:
        raise DamagedError(f"{file}: damaged: {first_problem(error)}; use another checkpoint") from None


_PROGRESS = TypeAdapter(Progress)
