"""Whether one system is better than another, or only luckier with this test set."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.metrics import RESAMPLES, make_scorer
from nmt.text.languages import TargetLanguage


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric for a system and for its baseline."""

    name: str
    value: float
    baseline: float
    p_value: float
    """Probability of so large a difference if the two were equally good (paired bootstrap, Koehn 2004)."""
    signature: str

    @property
    def difference(self) -> float:
        """What the system has more than its baseline."""
        return self.value - self.baseline

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely explanation, at the usual 5 %."""
        return self.p_value < 0.05


def compare(
    metrics: Sequence[str],
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    language: TargetLanguage,
) -> tuple[Comparison, ...]:
    """Test each metric's difference by paired bootstrap resampling.

    The seed is sacreBLEU's own, and stands in the signature: the same files always get the same p-value.
    """
    from sacrebleu.significance import PairedTest, Result

    # sacreBLEU answers by the scores' own names, in the order in which it was asked
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
        # sacreBLEU counts samples above the difference: for a system and its own copy none is, which is no evidence
        p_value = float(after.p_value) if value != base else 1.0
        comparisons.append(Comparison(name, value, base, p_value, str(signature)))
    return tuple(comparisons)
