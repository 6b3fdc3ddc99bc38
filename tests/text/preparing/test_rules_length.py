"""The ratio of lengths: learned from generated text with known ratio, in spite of wrong pairs in it."""

import math
import random

import pytest

from nmt.text.preparing.rules import LEAST_PAIRS, LengthRatio


def pairs(count: int, ratio: float, wrong: int = 0, letter: str = "b") -> list[tuple[str, str]]:
    """Return pairs whose lengths vary as sums of independent words, then pairs of unrelated lengths."""
    choose = random.Random(3)
    made = []
    for _ in range(count):
        source = max(1, round(choose.lognormvariate(3.5, 0.6)))
        target = max(1, round(choose.gauss(ratio * source, math.sqrt(ratio * source))))
        made.append(("a" * source, letter * target))
    return made + [("a" * choose.randint(1, 200), letter * choose.randint(1, 200)) for _ in range(wrong)]


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_ratio_is_learned_though_a_fifth_of_the_pairs_are_wrong(ratio: float) -> None:
    learned = LengthRatio.learn(pairs(2000, ratio, wrong=500))
    assert learned is not None
    assert math.exp(learned.median) == pytest.approx(ratio, rel=0.05)
    assert sum(learned.unusual(*pair) is not None for pair in pairs(2000, ratio)) <= 5
    assert learned.unusual("a" * 100, "b" * round(100 * ratio * 5)) is not None
    assert learned.unusual("a" * 100, "b" * round(100 * ratio / 5)) is not None


def test_tolerance_grows_for_short_sentences() -> None:
    learned = LengthRatio.learn(pairs(2000, 1.0))
    assert learned is not None
    assert learned.unusual("a" * 5, "b" * 15) is None
    assert learned.unusual("a" * 100, "b" * 300) == "target 3 times as long, expected 0.41 to 2.5 times"


def test_factor_of_two_is_permitted_in_a_text_of_constant_ratio() -> None:
    learned = LengthRatio.learn([("a" * 50, "b" * 50)] * LEAST_PAIRS)
    assert learned is not None
    assert learned.unusual("a" * 50, "b" * 99) is None
    assert learned.unusual("a" * 50, "b" * 101) is not None


def test_names_inside_chinese_count_like_those_of_the_other_side() -> None:
    """Seven Chinese characters are 21 bytes, about the letters of their translation."""
    sample = [("a" * 20, "中" * 7)] * LEAST_PAIRS
    learned = LengthRatio.learn(sample)
    assert learned is not None
    name = "Internationalization and Localization"
    assert learned.unusual(f"{'a' * 20} {name}", f"{'中' * 7}{name}") is None


def test_small_sample_gives_no_limit() -> None:
    assert LengthRatio.learn(pairs(LEAST_PAIRS - 1, 1.0)) is None
    assert LengthRatio.learn([]) is None
    assert LengthRatio.learn([("", "b")] * LEAST_PAIRS) is None
