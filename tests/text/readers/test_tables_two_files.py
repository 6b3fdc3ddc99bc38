"""Two files of unequal length, and the place where lines stop corresponding by their lengths."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import DataError
from nmt.text.readers.tables import first_unrelated, read_two_files
from tests.builders import write_lines


def lengths(count: int, seed: int = 1, spread: float = 0.2) -> tuple[list[int], list[int]]:
    """Return lengths of sentences and of their translations, whose ratio is lognormal."""
    generator = np.random.default_rng(seed)
    sources = generator.lognormal(3.5, 0.5, count)
    targets = 1.1 * sources * generator.lognormal(0, spread, count)
    return [int(length) + 1 for length in sources], [int(length) + 1 for length in targets]


@pytest.mark.parametrize("extra", [1, -1, 20, -500])
def test_planted_change_is_found_in_its_block_or_the_next(extra: int) -> None:
    for seed in range(20):
        place = random.Random(seed).randrange(60, 4500)
        sources, targets = lengths(5000, seed)
        longer = sources if extra > 0 else targets
        longer[place:place] = lengths(abs(extra), seed + 100)[0]
        first = first_unrelated(sources, targets)
        assert first is not None
        assert -250 <= first - place <= 500


def test_unrelated_text_is_found() -> None:
    sources, targets = lengths(5000)
    targets[3000:] = random.Random(1).sample(targets[3000:], 2000)
    assert first_unrelated(sources, targets) == 3000


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3, 0.5])
def test_texts_that_correspond_have_no_change(spread: float) -> None:
    assert first_unrelated(*lengths(20_000, spread=spread)) is None


@pytest.mark.parametrize("count", [0, 1, 250, 1999])
def test_short_texts_are_not_judged(count: int) -> None:
    sources, targets = lengths(count)
    assert first_unrelated(sources, targets[::-1]) is None
    assert first_unrelated([5] * count, []) is None


def test_files_of_unequal_length_name_the_lines_where_they_part(tmp_path: Path, repository: Path) -> None:
    lines = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:3000]
    sources, targets = [line.split("\t")[0] for line in lines], [line.split("\t")[1] for line in lines]
    write_lines(tmp_path / "a.en", *sources)
    write_lines(tmp_path / "a.it", *targets[:400], *targets[401:])
    with pytest.raises(DataError) as caught:
        list(read_two_files(tmp_path / "a.en", tmp_path / "a.it"))
    message = re.sub(r"\S+/", "", str(caught.value))
    assert message.startswith("a.en:3000: no line to pair with: a.en has 3,000 lines, a.it has 2,999; by the")
    place = re.search(r"a line is missing or was added at one of (\d+) to (\d+)", message)
    assert place is not None
    assert (int(place[1]), int(place[2])) in ((251, 500), (501, 750))
