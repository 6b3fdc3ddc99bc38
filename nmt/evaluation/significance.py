"""Significance of the difference between two systems on one test set."""

from dataclasses import dataclass

from nmt.evaluation.metrics import RESAMPLES, Measurement


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
    """Test the difference of two systems under one metric by paired bootstrap resampling, as sacreBLEU does.

    The seed is sacreBLEU's and part of the signature: the same files always give the same p-value.
    """
    differences = abs(system.resampled(RESAMPLES) - baseline.resampled(RESAMPLES))
    after, before = system.score(), baseline.score()
    larger = int((differences - differences.mean() > abs(after.value - before.value)).sum())
    # a system and its copy have no sample above the difference, which is no evidence
    p_value = (larger + 1) / (RESAMPLES + 1) if after.value != before.value else 1.0
    return Comparison(
        after.name, after.value, before.value, p_value, system.signature(RESAMPLES), after.lower_is_better
    )
