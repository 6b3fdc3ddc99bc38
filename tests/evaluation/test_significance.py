"""Paired bootstrap resampling: significant and insignificant differences."""

import random

import pytest

from nmt.evaluation.metrics import compute
from nmt.evaluation.significance import compare
from nmt.text.languages import target_language

ITALIAN = target_language("it")
WORDS = ["casa", "gatto", "mare", "nave", "libro", "tavolo", "strada", "sole", "luna", "fiore", "pane", "vino"]


def corpus(seed: int, lines: int = 80) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=9)) for _ in range(lines)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join("errore" if generator.random() < share else word for word in line.split()) for line in lines]


def test_clear_difference_is_significant() -> None:
    references = corpus(1)
    good, bad = damaged(references, 0.1, 2), damaged(references, 0.4, 3)
    bleu, chrf = compare(["bleu", "chrf"], good, bad, [references], ITALIAN)
    for comparison, metric in [(bleu, "bleu"), (chrf, "chrf")]:
        assert comparison.value == pytest.approx(compute(metric, good, [references], ITALIAN).value, abs=1e-4)
        assert comparison.baseline == pytest.approx(compute(metric, bad, [references], ITALIAN).value, abs=1e-4)
        assert comparison.difference == pytest.approx(comparison.value - comparison.baseline)
        assert comparison.difference > 10
        assert comparison.significant
        assert comparison.p_value == pytest.approx(1 / 1001)
        assert "bs:1000|seed:12345" in comparison.signature
    assert (bleu.name, chrf.name) == ("BLEU", "chrF2")


def test_difference_of_equal_systems_is_not_significant() -> None:
    references = corpus(1)
    first, second = damaged(references, 0.3, 2), damaged(references, 0.3, 3)
    (comparison,) = compare(["chrf"], first, second, [references], ITALIAN)
    assert not comparison.significant
    assert comparison == compare(["chrf"], first, second, [references], ITALIAN)[0]


def test_system_does_not_differ_from_itself() -> None:
    references = corpus(1)
    system = damaged(references, 0.3, 2)
    (comparison,) = compare(["ter"], system, list(system), [references], ITALIAN)
    assert comparison.difference == 0
    assert not comparison.significant


def test_rate_of_false_positives_is_near_the_level() -> None:
    # under the null hypothesis p < 0.05 comes in one test of twenty; 8 of 40 or more has a chance below 1 in 1000
    references = corpus(1, lines=40)
    found = sum(
        compare(["bleu"], damaged(references, 0.3, 2 * i), damaged(references, 0.3, 2 * i + 1), [references], ITALIAN)[
            0
        ].significant
        for i in range(40)
    )
    assert found < 8
