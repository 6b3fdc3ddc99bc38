"""Significance of the difference between two systems on one test set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from nmt.evaluation.metrics import RESAMPLES, Measurement, is_error_rate

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Signature


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a system and of its baseline."""

    name: str
    value: float
    baseline: float
    p_value: float
    """Probability of a difference at least as large between equally good systems (paired bootstrap, Koehn 2004)."""
    signature: str
    lower_is_better: bool = False

    @property
    def difference(self) -> float:
        """The value of the system minus that of the baseline."""
        return self.value - self.baseline

    @property
    def verdict(self) -> str:
        """The comparison in words, from the view of the system."""
        if not self.significant:
            return "no significant difference"
        return "better" if (self.difference > 0) != self.lower_is_better else "worse"

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 5 %."""
        return self.p_value < 0.05


def compare(system: Measurement, baseline: Measurement) -> Comparison:
    """Test the difference of two systems under one metric by paired bootstrap resampling.

    The seed is sacreBLEU's and part of the signature: the same files always give the same p-value.
    """
    from sacrebleu.significance import PairedTest, Result

    # where sacreBLEU expects the lines of a system, it gets their statistics
    systems = cast(Any, [("baseline", baseline.statistics), ("system", system.statistics)])
    metric = cast("Metric", _Precomputed(system.scorer))
    signatures, results = PairedTest(systems, {"metric": metric}, None, test_type="bs", n_samples=RESAMPLES)()
    ((name, signature),) = signatures.items()
    before, after = results[name]
    assert isinstance(before, Result)
    assert isinstance(after, Result)
    assert after.p_value is not None
    value, base = float(after.score), float(before.score)
    # sacreBLEU counts samples above the difference; a system and its copy have none, which is no evidence
    p_value = float(after.p_value) if value != base else 1.0
    return Comparison(name, value, base, p_value, str(signature), is_error_rate(name))


@dataclass(frozen=True)
class _Precomputed:
    """A metric of texts that are given as the statistics of their lines."""

    scorer: "Metric"

    def _extract_corpus_statistics(self, statistics: Sequence[list[float]], references: None) -> Sequence[list[float]]:
        return statistics

    def _aggregate_and_compute(self, statistics: list[list[float]]) -> Any:
        return self.scorer._aggregate_and_compute(statistics)

    def _compute_score_from_stats(self, statistics: list[float]) -> Any:
        return self.scorer._compute_score_from_stats(statistics)

    def get_signature(self) -> "Signature":
        return self.scorer.get_signature()
