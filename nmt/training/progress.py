"""The position of a training: the part of a checkpoint that is neither weights nor moments."""

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path

from nmt.errors import ConfigError, DamagedError
from nmt.system.files import Marker

RUN = Marker("run.json", "nmt run", 2)
"""The file by which a folder is a run."""
PROGRESS_FILE = "progress.json"
_LARGEST_EXPONENT = 700  # exp of more is not a float


def perplexity(likelihood: float) -> float:
    """Return exp of a mean negative log-likelihood in nats; always a finite number."""
    return math.exp(min(likelihood, _LARGEST_EXPONENT))


@dataclass
class IntervalSums:
    """Sums over the updates since the last line of the log."""

    loss: float = 0.0  # the objective that is optimized, with label smoothing; logged as `objective`
    likelihood: float = 0.0  # the negative log-likelihood, logged as `loss`
    gradient_norm: float = 0.0
    steps: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    padded_target_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0  # seconds in which no batch was ready

    def means(self) -> dict[str, float]:
        """Return `loss` (cross-entropy, as in a validation) and `objective` per target token, in nats, and the rest."""
        return {
            "loss": self.likelihood / self.target_tokens,
            "objective": self.loss / self.target_tokens,
            "perplexity": perplexity(self.likelihood / self.target_tokens),
            "gradient_norm": self.gradient_norm / self.steps,
            "padding": 1 - self.target_tokens / self.padded_target_tokens,
            "loader_wait": round(self.waited / self.seconds, 4),
            "target_tokens_per_second": round(self.target_tokens / self.seconds, 1),
        }


@dataclass(frozen=True)
class Adjustments:
    """Deviations from the recipe: a lower rate after divergence, smaller batches after an out-of-memory error."""

    rate: float = 1.0  # factor on the schedule's learning rate
    largest_batch: int | None = None  # padded source and target tokens above which a batch is cut; None cuts nothing


@dataclass
class Progress:
    """All that the next step depends on, besides weights and moments."""

    step: int = 0
    epoch: int = 0
    group: int = 0  # of the epoch's plan, the next length group to read
    target_tokens: int = 0
    seconds: float = 0.0
    validated_at: int = 0  # step of the last validation
    validations_without_gain: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)  # (metric, step), best first
    interval: IntervalSums = field(default_factory=IntervalSums)
    corpus: str = ""  # fingerprint of the prepared corpus
    adjustments: Adjustments = Adjustments()
    skipped: int = 0  # steps that changed nothing, since their loss or gradient was not finite
    skipped_in_a_row: int = 0  # the last steps, if they were skipped
    rollbacks: int = 0  # rollbacks to the checkpoint of step `rolled_back_to` since it was written
    rolled_back_to: int = 0
    best_loss: float | None = None  # validation loss of the best step; None before the first validation
    schedule_end: int | None = None  # train.stop.steps, if the schedule falls until then
    best_since: float | None = None  # best metric since `schedule_end` was set; patience counts from it

    def record_validation(self, metric: float, loss: float, keep: int) -> bool:
        """Record the validation of this step among the `keep` best; return whether it is the best.

        A lower loss decides between equal metrics: BLEU is 0 at the start of a training that makes progress.
        """
        first = self.best[0][0] if self.best else -math.inf
        improved = metric > first or (metric == first and (self.best_loss is None or loss < self.best_loss))
        place = 0 if improved else max(1, sum(other >= metric for other, _ in self.best))
        self.best = [*self.best[:place], (metric, self.step), *self.best[place:]][:keep]
        self.best_loss = loss if improved else self.best_loss
        gained = improved or self.best_since is None or metric > self.best_since
        self.best_since = metric if gained else self.best_since
        self.validations_without_gain = 0 if gained else self.validations_without_gain + 1
        return improved

    def end_schedule_at(self, step: int | None) -> bool:
        """Set the last step of the schedule, unless it is reached already; return whether it was another one.

        The rate of the next steps is then higher or lower than before, so patience begins again.
        """
        if step is not None and step <= self.step:
            return False
        changed = self.step > 0 and self.schedule_end is not None and step != self.schedule_end
        if changed:
            self.best_since, self.validations_without_gain = None, 0
        self.schedule_end = step
        return changed


def check_format(run: Path) -> None:
    """Raise ConfigError for a run of another format version."""
    version = RUN.read(run).get("format_version")
    if version != RUN.version:
        raise ConfigError(
            f"{run}: the run has format version {version}, this nmt reads version {RUN.version}: finish it with the "
            "nmt that began it, or train again, with --restart or in another folder; its checkpoints are still models"
        )


def read_progress(directory: Path) -> Progress:
    """Read the progress in a checkpoint of any version; entries that this version does not have are ignored.

    Whether a training may resume from it is decided by the format version of its run. Raises DamagedError.
    """
    file = directory / PROGRESS_FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        known = {one.name: content[one.name] for one in fields(Progress) if one.name in content}
        known["best"] = [(value, step) for value, step in content["best"]]
        known["interval"] = IntervalSums(**content.get("interval", {}))
        known["adjustments"] = Adjustments(**content.get("adjustments", {}))
        return Progress(**known)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(f"{file}: damaged: {error}") from None
