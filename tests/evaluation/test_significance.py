"""Paired bootstrap resampling: significant and insignificant differences."""

import random

import pytest
from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from nmt.evaluation.metrics import Comparison, measure
from nmt.evaluation.metrics import compare as compare_measured
from nmt.text.languages import target_language

ITALIAN = target_language("it")
WORDS = ["casa", "gatto", "mare", "nave", "libro", "tavolo", "strada", "sole", "luna", "fiore", "pane", "vino"]


def compare(metrics: list[str], system: list[str], baseline: list[str], references: list[str]) -> list[Comparison]:
    return [
        compare_measured(*(measure(metric, lines, [references], ITALIAN) for lines in (system, baseline)))
        for metric in metrics
    ]


def corpus(seed: int, lines: int = 80) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=9)) for _ in range(lines)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join("errore" if generator.random() < share else word for word in line.split()) for line in lines]


def test_clear_difference_is_significant() -> None:
    references = corpus(1)
    good, bad = damaged(references, 0.1, 2), damaged(references, 0.4, 3)
    bleu, chrf = compare(["bleu", "chrf"], good, bad, references)
    for comparison, metric in [(bleu, "bleu"), (chrf, "chrf")]:
        assert comparison.value == measure(metric, good, [references], ITALIAN).score().value
        assert comparison.baseline == measure(metric, bad, [references], ITALIAN).score().value
        assert comparison.difference > 10
        assert comparison.significant
        assert comparison.p_value == pytest.approx(1 / 1001)
    assert bleu.verdict == "better"
    assert compare(["bleu"], bad, good, references)[0].verdict == "worse"
    # fewer errors are better
    assert compare(["ter"], good, bad, references)[0].verdict == "better"
    assert compare(["ter"], bad, good, references)[0].verdict == "worse"


def test_system_does_not_differ_from_itself() -> None:
    references = corpus(1)
    system = damaged(references, 0.3, 2)
    (comparison,) = compare(["ter"], system, list(system), references)
    assert comparison.difference == 0
    assert comparison.verdict == "no significant difference"


def test_one_line_is_no_evidence() -> None:
    (comparison,) = compare(["chrf"], ["il gatto dorme"], ["un cane"], ["il gatto dorme"])
    assert (comparison.p_value, comparison.verdict) == (1.0, "no significant difference")


def test_rate_of_false_positives_is_near_the_level() -> None:
    # under the null hypothesis p < 0.05 comes in one test of twenty; 8 of 40 or more has a chance below 1 in 1000
    references = corpus(1, lines=40)
    found = sum(
        compare(["bleu"], damaged(references, 0.3, 2 * i), damaged(references, 0.3, 2 * i + 1), references)[
            0
        ].significant
        for i in range(40)
    )
    assert found < 8


def test_paired_test_equals_that_of_sacrebleu() -> None:
    references = corpus(1)
    systems = [("baseline", damaged(references, 0.3, 2)), ("system", damaged(references, 0.25, 3))]
    signatures, results = PairedTest(systems, {"chrf": CHRF()}, [references], test_type="bs", n_samples=1000)()
    (comparison,) = compare(["chrf"], systems[1][1], systems[0][1], references)
    assert (comparison.p_value, comparison.signature) == (results["chrF2"][1].p_value, str(signatures["chrF2"]))
    assert (comparison.value, comparison.baseline) == (results["chrF2"][1].score, results["chrF2"][0].score)
