"""The division of a parallel text into training, validation and test pairs."""

import itertools
import random
import tracemalloc
from collections.abc import Iterable

import pytest

from nmt.text.corpus import SentencePair
from nmt.text.proposing import split
from nmt.text.proposing.split import divide, held_out_size

Parts = dict[str, list[SentencePair]]


def divided(
    pairs: Iterable[tuple[str, str]],
    held_out: tuple[str, ...] = ("valid", "test"),
    others: Iterable[SentencePair] = (),
    seed: int = 1,
) -> Parts:
    parts: Parts = {"train": [], "valid": [], "test": []}
    for part, pair in divide(itertools.starmap(SentencePair, pairs), held_out, others, seed):
        parts[part].append(pair)
    return parts


def key(pair: SentencePair) -> str:
    return " ".join(pair.source.split()).casefold()


def corpus(sources: int, versions: int) -> list[tuple[str, str]]:
    return [(f"Sentence {number}", f"frase {number} {n}") for n in range(versions) for number in range(sources)]


@pytest.mark.parametrize(("sources", "versions"), [(500, 1), (300, 3), (4000, 2)])
def test_every_pair_is_in_one_part_and_no_source_in_two(sources: int, versions: int) -> None:
    pairs = corpus(sources, versions)
    pairs += [(source.upper() + " ", f"altra {target}") for source, target in pairs[:100]]
    parts = divided(pairs)
    everywhere = [(pair.source, pair.target) for part in parts.values() for pair in part]
    assert sorted(everywhere) == sorted(pairs)
    train, valid, test = ({key(pair) for pair in parts[part]} for part in ("train", "valid", "test"))
    assert not train & valid
    assert not train & test
    assert not valid & test
    for part in ("valid", "test"):
        assert held_out_size(len(pairs)) <= len(parts[part]) <= held_out_size(len(pairs)) + versions


def test_division_depends_on_the_seed_but_not_on_the_order() -> None:
    pairs = corpus(400, 2)
    shuffled = random.Random(0).sample(pairs, len(pairs))
    chosen = [{key(pair) for pair in divided(each)["valid"]} for each in (pairs, shuffled)]
    assert chosen[0] == chosen[1]
    assert chosen[0] != {key(pair) for pair in divided(pairs, seed=2)["valid"]}


UNSUITABLE = {
    "copy": lambda n: (f"Same {n}", f"same {n}"),
    "no target": lambda n: (f"source {n}", " "),
    "no source": lambda n: ("", f"target {n}"),
    "long target": lambda n: (f"source {n}", "x" * 1001),
    "long source": lambda n: ("x" * 1001 + str(n), f"target {n}"),
}


@pytest.mark.parametrize("kind", UNSUITABLE)
def test_sources_without_a_suitable_translation_are_trained_on(kind: str) -> None:
    unsuitable = [UNSUITABLE[kind](number) for number in range(200)]
    parts = divided([*corpus(200, 1), *unsuitable])
    held_out = {(pair.source, pair.target) for part in ("valid", "test") for pair in parts[part]}
    assert len(held_out) in (20, 40)  # pairs with an empty side do not count
    assert not held_out & set(unsuitable)


def test_source_with_many_translations_is_trained_on() -> None:
    pairs = [("the same", f"uguale {n}") for n in range(1000)]
    assert len(divided(pairs)["train"]) == 1000
    parts = divided([*pairs, *corpus(200, 1)])
    assert all(pair.source != "the same" for pair in (*parts["valid"], *parts["test"]))
    assert (len(parts["valid"]), len(parts["test"])) == (60, 60)


def test_sources_of_given_texts_are_left_out() -> None:
    given = [SentencePair("sentence  7", "x"), SentencePair("Sentence 8", "y")]
    parts = divided(corpus(100, 2), ("test",), given)
    assert {part: len(pairs) for part, pairs in parts.items()} == {"train": 186, "valid": 0, "test": 10}
    kept = {key(pair) for pair in parts["train"] + parts["test"]}
    assert {f"sentence {number}" for number in range(100)} - kept == {"sentence 7", "sentence 8"}


def test_more_sources_than_candidates_give_the_same_division_as_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = corpus(3000, 1)
    expected = divided(pairs)
    monkeypatch.setattr(split, "_CANDIDATES", 400)
    assert divided(pairs)["valid"] == expected["valid"]
    assert divided(pairs)["test"] == expected["test"]


def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_CANDIDATES", 500)
    peaks = []
    for size in (5_000, 20_000):
        pairs = (SentencePair(f"sentence {number}", "frase") for number in range(size))
        tracemalloc.start()
        for _ in divide(pairs, ("valid", "test"), (), 1):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
