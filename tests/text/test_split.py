"""The division of a parallel text into training, validation and test pairs."""

import random
import tracemalloc
from collections.abc import Iterable

import pytest

from nmt.text.corpus import SentencePair
from nmt.text.proposing import split
from nmt.text.proposing.split import Splitter, held_out_size

Parts = dict[str, list[SentencePair]]


def divide(pairs: Iterable[tuple[str, str]], held_out: tuple[str, ...] = ("valid", "test"), seed: int = 1) -> Parts:
    parts: Parts = {"train": [], "valid": [], "test": []}
    splitter = Splitter(seed, held_out, (), lambda part, pair: parts[part].append(pair))
    for source, target in pairs:
        splitter.add(SentencePair(source, target))
    splitter.finish()
    assert splitter.counts == {part: len(inside) for part, inside in parts.items()}
    return parts


def key(pair: SentencePair) -> str:
    return " ".join(pair.source.split()).casefold()


def corpus(sources: int, versions: int) -> list[tuple[str, str]]:
    return [(f"Sentence {number}", f"frase {number} {n}") for n in range(versions) for number in range(sources)]


@pytest.mark.parametrize(("sources", "versions"), [(500, 1), (300, 3), (4000, 2)])
def test_every_pair_is_in_one_part_and_no_source_in_two(sources: int, versions: int) -> None:
    pairs = corpus(sources, versions)
    pairs += [(source.upper() + " ", f"altra {target}") for source, target in pairs[:100]]
    parts = divide(pairs)
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
    chosen = [{key(pair) for pair in divide(each)["valid"]} for each in (pairs, shuffled)]
    assert chosen[0] == chosen[1]
    assert chosen[0] != {key(pair) for pair in divide(pairs, seed=2)["valid"]}


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
    parts = divide([*corpus(200, 1), *unsuitable])
    held_out = {(pair.source, pair.target) for part in ("valid", "test") for pair in parts[part]}
    assert len(held_out) in (20, 40)  # pairs with an empty side do not count
    assert not held_out & set(unsuitable)


def test_source_with_many_translations_is_trained_on() -> None:
    pairs = [("the same", f"uguale {n}") for n in range(1000)]
    assert len(divide(pairs)["train"]) == 1000
    parts = divide([*pairs, *corpus(200, 1)])
    assert all(pair.source != "the same" for pair in (*parts["valid"], *parts["test"]))
    assert (len(parts["valid"]), len(parts["test"])) == (60, 60)


def test_sources_of_given_texts_are_left_out() -> None:
    parts: Parts = {"train": [], "test": []}
    given = [SentencePair("sentence  7", "x"), SentencePair("Sentence 8", "y")]
    splitter = Splitter(1, ("test",), given, lambda part, pair: parts[part].append(pair))
    for source, target in corpus(100, 2):
        splitter.add(SentencePair(source, target))
    splitter.finish()
    assert splitter.left_out == 4
    assert sorted(map(len, parts.values())) == [10, 186]
    assert not {key(pair) for part in parts.values() for pair in part} & {"sentence 7", "sentence 8"}


def test_more_sources_than_candidates_give_the_same_division_as_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = corpus(3000, 1)
    expected = divide(pairs)
    monkeypatch.setattr(split, "_CANDIDATES", 400)
    assert divide(pairs)["valid"] == expected["valid"]
    assert divide(pairs)["test"] == expected["test"]


def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_CANDIDATES", 500)
    peaks = []
    for size in (5_000, 20_000):
        splitter = Splitter(1, ("valid", "test"), (), lambda part, pair: None)
        tracemalloc.start()
        for number in range(size):
            splitter.add(SentencePair(f"sentence {number}", "frase"))
        splitter.finish()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
