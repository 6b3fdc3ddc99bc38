"""The line at which two texts stop corresponding is found within a few lines, and not where they correspond."""

import random
from pathlib import Path

import numpy as np
import pytest

from nmt.text.auditing.drift import find_drift


def lengths(count: int, seed: int = 1, spread: float = 0.2) -> tuple[list[int], list[int]]:
    """Return lengths of sentences and of their translations, whose ratio is lognormal."""
    generator = np.random.default_rng(seed)
    sources = generator.lognormal(3.5, 0.5, count)
    targets = 1.1 * sources * generator.lognormal(0, spread, count)
    return [int(length) + 1 for length in sources], [int(length) + 1 for length in targets]


@pytest.mark.parametrize("extra", [1, -1, 3, 20, -20, 500, -500])
def test_planted_change_is_found_within_a_few_lines(extra: int) -> None:
    errors = []
    for seed in range(20):
        place = random.Random(seed).randrange(60, 1200)
        sources, targets = lengths(2000, seed)
        longer = sources if extra > 0 else targets
        longer[place:place] = lengths(abs(extra), seed + 100)[0]
        drift = find_drift(sources, targets)
        assert drift is not None
        assert drift.extra in ((extra,) if abs(extra) < 100 else (extra, None))
        errors.append(abs(drift.line - 1 - place))
    assert sorted(errors)[10] <= 3
    assert max(errors) <= abs(extra) + 12  # a shift by few lines may fit the lines that were added


def test_first_of_two_changes_is_found_where_the_counts_are_equal() -> None:
    sources, targets = lengths(3000)
    del targets[1000]
    del sources[2000]
    drift = find_drift(sources, targets)
    assert drift is not None
    assert drift.extra == 1
    assert abs(drift.line - 1001) <= 3


def test_unrelated_text_is_found() -> None:
    sources, targets = lengths(3000)
    targets[2000:] = random.Random(1).sample(targets[2000:], 1000)
    drift = find_drift(sources, targets)
    assert drift is not None
    assert drift.extra is None
    assert abs(drift.line - 2001) <= 20


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3, 0.6])
def test_texts_that_correspond_have_no_change(spread: float) -> None:
    assert find_drift(*lengths(20_000, spread=spread)) is None


def test_demo_corpus_has_no_change_and_a_planted_one(repository: Path) -> None:
    lines = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()
    sources, targets, _ = zip(*([len(cell) for cell in line.split("\t")] for line in lines), strict=True)
    assert find_drift(sources, targets) is None
    drift = find_drift(sources, targets[:900] + targets[901:])
    assert drift is not None
    assert abs(drift.line - 901) <= 10


def test_change_beyond_the_first_segment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.auditing.drift._SEGMENT", 1000)
    sources, targets = lengths(3500)
    del targets[2300]
    drift = find_drift(sources, targets)
    assert drift is not None
    assert abs(drift.line - 2301) <= 5


@pytest.mark.parametrize("count", [0, 1, 2, 9, 30])
def test_short_texts_have_no_change(count: int) -> None:
    sources, targets = lengths(count)
    assert find_drift(sources, targets) is None
    assert find_drift(sources, targets + targets[:1]) is None
    assert find_drift(sources[:1] + sources, targets) is None
    assert find_drift([5] * count, [5] * count) is None
    assert find_drift([0] * count, []) is None
