"""The loop of a search with fewer slots than sentences, as on a GPU: sentences take the places of finished ones."""

import gc
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Hypothesis
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ModelError
from nmt.kernels.reference import Kernels, Result, SearchSize
from nmt.model.transformer import Transformer
from tests.builders import tiny_model
from tests.decoding.reference_search import assert_same, only, slow_beam
from tests.other_device import OTHER, OtherDevice

SENTENCES = [[4, 5, 6, 7, 3], [8, 3], [5, 5, 3], [7, 7, 7, 7, 7, 8, 3], [3], [6, 4, 3]]
CPU = torch.device("cpu")
NUMBERS = st.lists(st.integers(0, len(SENTENCES) - 1), min_size=1, max_size=6)
SLOTS = st.sampled_from([1, 2, 5])


class FewSlots(Kernels):
    """Search few sentences at a time in searches that are kept."""

    def __init__(self, slots: int, steps_per_fetch: int = 3, device: torch.device = CPU) -> None:
        super().__init__(device)
        self.slots, self.steps_per_fetch = slots, steps_per_fetch  # type: ignore[misc]
        self.searches: dict[object, object] = {}

    def search_size(self, lengths: Sequence[int], target: int, tokens: int) -> SearchSize:
        return SearchSize(self.slots, max(lengths), target)

    def reuse(self, key: object, size: int, make: Callable[[], Result]) -> Result:
        if key not in self.searches:
            self.searches[key] = make()
        return cast(Result, self.searches[key])


def options_of(beam: object, **changes: object) -> SearchOptions:
    values = {"beam": beam, "n_best": beam, "max_length": MaxLength(factor=1, extra=5), **changes}
    return SearchOptions.model_validate(values)


@cache
def slow(seed: int, number: int, options: tuple[tuple[str, object], ...]) -> list[Hypothesis]:
    chosen = options_of(**dict(options))
    return slow_beam(tiny_model(seed, vocabulary=9), SENTENCES[number], chosen)[: chosen.n_best]


@given(
    numbers=NUMBERS,
    kernels=st.builds(FewSlots, SLOTS, st.sampled_from([1, 2, 8])),
    seed=st.integers(0, 1),
    options=st.sampled_from(
        [
            {"beam": 2, "n_best": 1},
            # hypotheses of several lengths are the best ones
            {"beam": 4, "n_best": 2, "length_penalty": 2.0, "exact": True},
            {"beam": 4, "n_best": 4, "length_penalty": 2.0},
        ]
    ),
)
def test_more_sentences_than_slots_have_the_hypotheses_of_the_reference_search(
    numbers: list[int], kernels: FewSlots, seed: int, options: dict[str, object]
) -> None:
    model = tiny_model(seed, vocabulary=9).for_inference(kernels)
    found = search([model], [SENTENCES[number] for number in numbers], options_of(**options))
    for number, hypotheses in zip(numbers, found, strict=True):
        assert_same(hypotheses, slow(seed, number, tuple(options.items())))


@settings(max_examples=25)
@given(
    numbers=NUMBERS,
    prefixes=st.lists(st.lists(st.integers(4, 8), max_size=4), min_size=6, max_size=6) | st.none(),
    slots=SLOTS,
    members=st.integers(1, 2),
    options=st.builds(
        options_of, st.integers(1, 3), no_repeat_ngram=st.none() | st.integers(1, 2), sampling=st.none() | st.just({})
    ),
)
def test_each_sentence_keeps_its_own_prefix_limit_and_noise(
    numbers: list[int], prefixes: list[list[int]] | None, slots: int, members: int, options: SearchOptions
) -> None:
    """Compared with searching it alone; again in a second search, in another order, in the state of the first one."""
    models, kernels = [tiny_model(seed, vocabulary=9) for seed in range(members)], FewSlots(slots)
    few = [model.for_inference(kernels) for model in models]
    own = prefixes or [[]] * len(numbers)
    pairs = [(SENTENCES[number], prefix) for number, prefix in zip(numbers, own, strict=False)]
    alone = [only(search(models, [ids], options, [prefix])) for ids, prefix in pairs]
    for order in (slice(None), slice(None, None, -1)):
        found = search(few, [ids for ids, _ in pairs[order]], options, [prefix for _, prefix in pairs[order]])
        for (ids, prefix), hypotheses, expected in zip(pairs[order], found, alone[order], strict=True):
            assert_same(hypotheses, expected)
            for hypothesis in hypotheses:
                assert hypothesis.tokens[: len(prefix)] == prefix
                assert len(hypothesis.tokens) < options.longest_output(len(ids)) + len(prefix)
    assert len(kernels.searches) == 1


def test_sentences_of_several_classes_of_lengths_are_returned_in_order() -> None:
    model = tiny_model(2, vocabulary=9)
    few, alone = TorchEngine([model.for_inference(FewSlots(3))]), TorchEngine([model])
    sentences = [[4 + (i + j) % 5 for j in range(17 * i % 90)] for i in range(12)]
    options = options_of(2, max_length=MaxLength(factor=0.2, extra=3))
    for ids, found in zip(sentences, few.search(sentences, options), strict=True):
        assert_same(found, only(alone.search([ids], options)))


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_a_search_that_failed_leaves_nothing_to_the_next_one(slots: int) -> None:
    """Of sentences with a token whose vector is NaN; others are given up before they end."""
    model, options = tiny_model(1, vocabulary=9), options_of(3)
    few: Transformer = model.for_inference(FewSlots(slots))
    with torch.no_grad():
        vector = model.source_embedding.tokens.weight[8]
        before = vector.clone()
        vector.fill_(torch.nan)
    with pytest.raises(ModelError, match="not numbers"):
        search([few], SENTENCES, options)
    with torch.no_grad():
        vector.copy_(before)
    for found, expected in zip(search([few], SENTENCES, options), search([model], SENTENCES, options), strict=True):
        assert_same(found, expected)


class WithoutTransfers(FewSlots):
    """Require that a step copies nothing between host and device: else it could not be recorded."""

    steps = 0

    def recorder(self) -> Callable[[Callable[[], None]], None]:
        def checked(step: Callable[[], None]) -> None:
            OtherDevice.transfers.update(sent=[], received=[])
            step()
            assert OtherDevice.transfers == {"sent": [], "received": []}
            self.steps += 1

        return checked


@pytest.mark.parametrize(
    ("members", "prefixes", "changes"),
    [
        (1, None, {"beam": 1}),
        (2, None, {"beam": 3}),
        (1, [[], [5, 8], [7], [4, 4], [6], []], {"beam": 2, "no_repeat_ngram": 2}),
        (2, None, {"beam": 2, "sampling": {"top_p": 0.9}}),
    ],
    ids=str,
)
def test_a_step_on_another_device_copies_nothing_and_equals_that_of_the_cpu(
    members: int, prefixes: list[list[int]] | None, changes: dict[str, object]
) -> None:
    models, options = [tiny_model(seed, vocabulary=9) for seed in range(members)], options_of(**changes)
    expected = search(models, SENTENCES, options, prefixes)
    with OtherDevice():
        kernels = WithoutTransfers(2, 3, OTHER)
        moved = [model.to(OTHER).for_inference(kernels) for model in models]
        found = search(moved, SENTENCES, options, prefixes)
    assert kernels.steps
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


class Watching(Kernels):
    """Know whether the last search still exists."""

    def reuse(self, key: object, size: int, make: Callable[[], Result]) -> Result:
        made = make()
        self.last = weakref.ref(made)
        return made


def test_memory_of_a_search_is_released_when_it_ends() -> None:
    """At once, not when Python looks for cycles: the caches of a batch may be gigabytes."""
    kernels = Watching(CPU)
    model = tiny_model(1, vocabulary=9).for_inference(kernels)
    gc.disable()
    try:
        search([model], SENTENCES, options_of(2))
        assert kernels.last() is None
    finally:
        gc.enable()


def test_threads_share_a_search_that_is_kept() -> None:
    """One after the other: its state and its recordings are those of one search."""
    kernels, options = FewSlots(2), options_of(3)
    runner = TorchEngine([tiny_model(1, vocabulary=9).for_inference(kernels)])
    orders = [[ids[:-1] for ids in SENTENCES[start:] + SENTENCES[:start]] for start in range(len(SENTENCES))]
    expected = [runner.search(order, options) for order in orders]
    with ThreadPoolExecutor(4) as pool:
        for found, alone in zip(pool.map(lambda order: runner.search(order, options), orders), expected, strict=True):
            for hypotheses, others in zip(found, alone, strict=True):
                assert_same(hypotheses, others)
