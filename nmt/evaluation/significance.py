"""Significance of the difference between two systems on one test set."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.metrics import RESAMPLES, make_scorer
from nmt.text.languages import TargetLanguage


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a system and of its baseline."""

    name: str
    value: float
    baseline: float
    p_value: float
    """Probability of a difference at least as large between equally good systems (paired bootstrap, Koehn 2004)."""
    signature: str

    @property
    def difference(self) -> float:
        """The value of the system minus that of the baseline."""
        return self.value - self.baseline

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 5 %."""
        return self.p_value < 0.05


def compare(
    metrics: Sequence[str],
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    language: TargetLanguage,
) -> tuple[Comparison, ...]:
    """Test each metric's difference by paired bootstrap resampling.

    The seed is sacreBLEU's and part of the signature: the same files always give the same p-value.
    """
    from sacrebleu.significance import PairedTest, Result

    # the results are by the names of the scores, in the order of the metrics
    scorers = {metric: make_scorer(metric, language) for metric in metrics}
    systems = [("baseline", baseline), ("system", hypotheses)]
    signatures, results = PairedTest(systems, scorers, references, test_type="bs", n_samples=RESAMPLES)()
    comparisons = []
    for name, signature in signatures.items():
        before, after = results[name]
        assert isinstance(before, Result)
        assert isinstance(after, Result)
        assert after.p_value is not None
        value, base = float(after.score), float(before.score)
        # sacreBLEU counts samples above the difference; a system and its copy have none, which is no evidence
        p_value = float(after.p_value) if value != base else 1.0
        comparisons.append(Comparison(name, value, base, p_value, str(signature)))
    return tuple(comparisons)
