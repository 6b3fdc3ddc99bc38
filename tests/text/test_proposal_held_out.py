"""The choice of validation and test pairs from a parallel text."""

import itertools
import random
from collections.abc import Callable, Iterable

import pytest

from nmt.config import Filters, LanguagePair
from nmt.text.preparing.rules import Rules, letters
from nmt.text.proposal import MOST_PAIRS, candidates, choose
from nmt.text.readers import SentencePair

Pairs = list[tuple[str, str]]


def chosen(pairs: Iterable[tuple[str, str]], count: int, others: Iterable[SentencePair] = ()) -> Pairs:
    text = list(itertools.starmap(SentencePair, pairs))
    return [(pair.source, pair.target) for pair in itertools.islice(choose(candidates(text), text, others), count)]


def corpus(sources: int, targets: int) -> Pairs:
    """Return 3,000 pairs of so many sources and targets, in which sentences are shared."""
    draw = random.Random(1)
    return [(f"Sentence {draw.randrange(sources)}.", f"frase {draw.randrange(targets)}") for _ in range(3000)]


@pytest.mark.parametrize(("sources", "targets"), [(2000, 2000), (5000, 900), (900, 5000)])
def test_no_chosen_sentence_is_left_by_the_rule_leak(sources: int, targets: int) -> None:
    pairs = corpus(sources, targets)
    held_out = chosen(pairs, 150)
    assert len(held_out) == 150
    texts = {"test": list(itertools.starmap(SentencePair, held_out))}
    rules = Rules.learn(Filters(), LanguagePair("en", "it"), held_out=texts)
    rest = [pair for pair in pairs if rules.apply(*pair)[2] != "leak"]
    assert len(rest) > 1500
    for side in (0, 1):
        sentences = {letters(pair[side]) for pair in held_out}
        assert len(sentences) == 150
        assert not sentences & {letters(pair[side]) for pair in rest}


def test_choice_depends_neither_on_the_order_nor_on_the_direction() -> None:
    pairs = corpus(2000, 2000)
    pairs += [(source.upper(), target.upper()) for source, target in pairs[:300]]
    expected = chosen(pairs, 150)
    assert chosen(random.Random(0).sample(pairs, len(pairs)), 150) == expected
    assert [pair[::-1] for pair in chosen([pair[::-1] for pair in pairs], 150)] == expected


UNSUITABLE: dict[str, Callable[[int], tuple[str, str]]] = {
    "copy": lambda n: (f"Same {n}", f"same {n}!"),
    "no target": lambda n: (f"source {n}", " "),
    "no letters": lambda n: ("?", f"target {n}"),
    "long target": lambda n: (f"source {n}", "x" * 1001 + str(n)),
    "tab": lambda n: (f"a source {n}", f"a\ttarget {n}"),
    "mojibake": lambda n: (f"why {n}", f"PerchÃ© {n}"),
    "frequent source": lambda n: (f"the same {n % (200 // (MOST_PAIRS + 1))}", f"uguale {n}"),
    "frequent target": lambda n: (f"the same {n}", "sì"),
}


@pytest.mark.parametrize("kind", UNSUITABLE)
def test_unsuitable_pairs_are_not_chosen(kind: str) -> None:
    unsuitable = [UNSUITABLE[kind](number) for number in range(200)]
    suitable = [(f"Sentence {number}", f"frase {number}") for number in range(100)]
    assert set(chosen([*unsuitable, *suitable], 300)) == set(suitable)


def test_sentences_of_given_texts_are_not_chosen() -> None:
    pairs = [(f"Sentence {number}", f"frase {number}") for number in range(10)]
    given = [SentencePair("sentence  7", "x"), SentencePair("y", "Frase 8!")]
    assert set(chosen(pairs, 10, given)) == {pair for pair in pairs if pair[0][-1] not in "78"}
