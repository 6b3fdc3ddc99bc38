"""Search with required phrases against brute force over all outputs that contain them, and against beam search."""

from collections.abc import Sequence
from functools import cache

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.decoding.beam import Hypothesis
from nmt.decoding.constrained import MAX_WIDTH, PhraseProgress, beam_width, constrained_search
from nmt.decoding.engine import search, search_all
from nmt.decoding.models import BatchRunner
from nmt.decoding.options import NO_CONSTRAINTS, Constraints, SearchOptions
from nmt.decoding.rules import EndAt, Forbidden
from nmt.model.transformer import Transformer
from tests.builders import log_probs_without_cache, padded, tiny_model
from tests.decoding.reference_search import assert_same, brute_force, only, sequence_log_prob

Phrases = tuple[tuple[int, ...], ...]
UNK = 1
WORDS = st.integers(4, 11)
PHRASES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(tuple)


def holds(tokens: Sequence[int], phrases: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the phrases occur without overlap, by trying all places."""
    if not phrases:
        return True
    phrase, size = phrases[0], len(phrases[0])
    return any(
        tuple(tokens[i : i + size]) == phrase and holds([*tokens[:i], *[-1] * size, *tokens[i + size :]], phrases[1:])
        for i in range(len(tokens) - size + 1)
    )


def constrained(
    model: Transformer, source: list[int], constraints: Constraints, options: SearchOptions
) -> list[Hypothesis]:
    return only(search(model, torch.tensor([source]), None, options, [constraints]))


@cache
def all_outputs(seed: int) -> list[Hypothesis]:
    """Every output of up to four tokens, the most probable first."""
    options = SearchOptions(length_penalty=0)
    return brute_force(tiny_model(seed, vocabulary=7), torch.tensor([[4, 5, 3]]), options, 5)


@pytest.mark.parametrize(
    "phrases",
    [((4,),), ((4, 5),), ((5, 5),), ((4,), (5, 6)), ((6,), (6,)), ((4, 4, 5),), ((4,), (4, 5)), ((5,), (4, 5, 6))],
)
@pytest.mark.parametrize(("length_penalty", "n_best"), [(0, 5), (1, 5), (6, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_equals_brute_force_over_outputs_with_the_phrases(
    seed: int, length_penalty: float, n_best: int, phrases: tuple[tuple[int, ...], ...]
) -> None:
    """Outputs with phrases are ranked by their log-probability, whatever the length penalty is."""
    model = tiny_model(seed, vocabulary=7)
    room = sum(map(len, phrases))  # by which the search extends its limit
    options = SearchOptions(
        beam=300, n_best=n_best, length_penalty=length_penalty, max_length=MaxLength(factor=0, extra=5 - room)
    )
    found = constrained(model, [4, 5, 3], Constraints(phrases=phrases), options)
    every = all_outputs(seed)
    expected = [hypothesis for hypothesis in every if holds(hypothesis.tokens, phrases)][:n_best]
    assert expected
    assert_same(found, expected)
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in expected], abs=1e-4)
    assert [one.normalized for one in found] == pytest.approx([one.normalized for one in expected], abs=1e-4)


@settings(max_examples=30, deadline=None)
@example(seed=0, phrases=((10,), (6, 10, 4)), beam=1, sharpness=0.5)  # one within another, at the limit
@given(seed=st.integers(0, 50), phrases=PHRASES, beam=st.integers(1, 5), sharpness=st.sampled_from([0.5, 3.0, 12.0]))
def test_every_phrase_is_generated(
    seed: int, phrases: tuple[tuple[int, ...], ...], beam: int, sharpness: float
) -> None:
    model = tiny_model(seed, vocabulary=12, sharpness=sharpness)
    options = SearchOptions(beam=beam, n_best=min(beam, 2), max_length=MaxLength(factor=1, extra=2))
    for hypothesis in constrained(model, [4, 8, 3], Constraints(phrases=phrases), options):
        assert holds(hypothesis.tokens, phrases)
        assert len(hypothesis.tokens) < options.longest_output(3) + sum(map(len, phrases))
        table = log_probs_without_cache(model, torch.tensor([[4, 8, 3]]), hypothesis.tokens)
        assert hypothesis.log_prob == pytest.approx(sequence_log_prob(table, hypothesis.tokens), abs=1e-4)


@settings(max_examples=12, deadline=None)
@given(
    sentences=st.lists(
        st.tuples(st.lists(WORDS, min_size=1, max_size=6), PHRASES | st.just(())), min_size=1, max_size=6
    ),
    beam=st.integers(1, 3),
)
def test_hypotheses_do_not_depend_on_the_other_sentences(
    sentences: list[tuple[list[int], tuple[tuple[int, ...], ...]]], beam: int
) -> None:
    model = tiny_model(5, vocabulary=12)
    options = SearchOptions(beam=beam, max_length=MaxLength(factor=1.5, extra=3))
    texts, constraints_of = [ids for ids, _ in sentences], [Constraints(phrases=phrases) for _, phrases in sentences]
    together = search_all(BatchRunner([model]), texts, options, constraints_of)
    for ids, constraints, found in zip(texts, constraints_of, together, strict=True):
        assert_same(found, constrained(model, [*ids, 3], constraints, options))


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_constrained_search_without_phrases_equals_beam_search(beam: int) -> None:
    for seed in range(6):
        model = tiny_model(seed, vocabulary=9)
        source, mask = padded([[4, 5, 6, 7, 3], [8, 3], [5, 5, 3]])
        options = SearchOptions(beam=beam, n_best=beam, length_penalty=0, max_length=MaxLength(factor=1, extra=5))
        limits = torch.tensor([options.longest_output(length) for length in (5, 2, 3)])
        rules = [Forbidden(torch.tensor(options.forbidden)), EndAt(limits)]
        with torch.inference_mode():
            steps = model.start(source, mask, beam)
            found = constrained_search(steps, torch.device("cpu"), limits, rules, [NO_CONSTRAINTS] * 3, options)
        for one, plain in zip(found, search(model, source, mask, options), strict=True):
            assert_same(one, plain)


def test_phrases_may_contain_forbidden_tokens() -> None:
    """`<unk>`, the placeholder for text that the vocabulary cannot spell, is generated nowhere else."""
    options = SearchOptions(beam=2, max_length=MaxLength(factor=1, extra=3))
    for seed in range(4):
        (found,) = constrained(
            tiny_model(seed, vocabulary=9), [4, 5, 3], Constraints(phrases=((UNK,), (UNK,))), options
        )
        assert found.tokens.count(UNK) == 2


def test_tokens_that_must_stand_apart_do_not_follow_a_phrase() -> None:
    continuations = frozenset(range(6, 12))
    options = SearchOptions(beam=2, max_length=MaxLength(factor=1, extra=6))
    followers = set()
    for seed in range(12):
        for glue in (frozenset[int](), continuations):
            constraints = Constraints(phrases=((8, 9),), word_continuations=glue)
            (found,) = constrained(tiny_model(seed, vocabulary=12), [4, 5, 3], constraints, options)
            ends = [i + 2 for i in range(len(found.tokens) - 2) if found.tokens[i : i + 2] == [8, 9]]
            followers |= {(bool(glue), found.tokens[end]) for end in ends}
    assert {token for glued, token in followers if glued} <= {4, 5}
    assert {token for glued, token in followers if not glued} & continuations, "no such token ever follows a phrase"


def test_search_continues_where_the_most_probable_tokens_cannot_follow_a_phrase() -> None:
    """Where all hypotheses have just completed one, their best tokens may be continuations of its word, and `</s>`."""
    options = SearchOptions(beam=1, no_repeat_ngram=2, max_length=MaxLength(factor=2, extra=5))
    constraints = Constraints(
        phrases=((6,), (11,), (9, 10)),
        word_continuations=frozenset({7, 8, 11}),
        elisions=frozenset({5, 7, 9}),
        final_punctuation=frozenset({7, 10}),
        max_final_punctuation=1,
    )
    (found,) = constrained(tiny_model(11, vocabulary=12), [10, 3], constraints, options)
    assert holds(found.tokens, constraints.phrases)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 60), beam=st.integers(2, 4), ends_before=st.integers(0, 1), begins_sentence=st.booleans())
def test_phrases_precede_the_final_punctuation(seed: int, beam: int, ends_before: int, begins_sentence: bool) -> None:
    ends = frozenset({4, 5})
    constraints = Constraints(
        phrases=((8, 9), (10,)),
        final_punctuation=ends,
        max_final_punctuation=ends_before,
        may_begin_sentence=begins_sentence,
    )
    options = SearchOptions(beam=beam, max_length=MaxLength(factor=1, extra=8))
    (found,) = constrained(tiny_model(seed, vocabulary=12), [4, 5, 3], constraints, options)
    assert holds(found.tokens, constraints.phrases)
    last = max(place for place, token in enumerate(found.tokens) if token in (9, 10))
    complete = next(n for n in range(1, last + 2) if holds(found.tokens[:n], constraints.phrases))
    assert sum(token in ends for token in found.tokens[:complete]) <= ends_before
    first = next(
        place for place, token in enumerate(found.tokens) if token == 10 or found.tokens[place : place + 2] == [8, 9]
    )
    if not begins_sentence and first:
        assert found.tokens[first - 1] not in ends


def test_final_punctuation_follows_phrases_where_a_model_prefers_it_before_them() -> None:
    """Without `ends` some models generate it first: else the rule would be untested."""
    options, misplaced = SearchOptions(beam=3, max_length=MaxLength(factor=1, extra=8)), 0
    for seed in range(20):
        model = tiny_model(seed, vocabulary=12)
        (found,) = constrained(model, [4, 5, 3], Constraints(phrases=((10,),)), options)
        misplaced += bool(set(found.tokens[: found.tokens.index(10)]) & {4, 5})
    assert misplaced


def test_no_phrase_begins_where_a_continuation_of_the_word_is_most_probable() -> None:
    """An independent model without cache gives the most probable token at the place of the phrase."""
    continuing = frozenset(range(4, 9))
    options = SearchOptions(beam=3, max_length=MaxLength(factor=1, extra=8))
    inside: dict[str, list[bool]] = {"": [], "word_continuations": [], "elisions": []}
    for seed in range(12):
        model = tiny_model(seed, vocabulary=12)
        for rule, of_rule in inside.items():
            constraints = Constraints(
                phrases=((10, 11),),
                word_continuations=continuing if rule else frozenset(),
                elisions=frozenset(range(12)) if rule == "elisions" else frozenset(),
            )
            (found,) = constrained(model, [4, 5, 3], constraints, options)
            place = next(i for i in range(len(found.tokens)) if found.tokens[i : i + 2] == [10, 11])
            table = log_probs_without_cache(model, torch.tensor([[4, 5, 3]]), found.tokens)
            of_rule.append(0 < place < 8 and int(table[place].argmax()) in continuing)
    assert any(inside[""])
    assert not any(inside["word_continuations"])
    assert any(inside["elisions"])


def test_phrases_follow_the_prefix_or_are_in_it() -> None:
    options = SearchOptions(beam=3, max_length=MaxLength(factor=1, extra=3))
    for seed in range(4):
        model = tiny_model(seed, vocabulary=12)
        (found,) = constrained(model, [4, 5, 3], Constraints((7, 8), ((9, 10),)), options)
        assert found.tokens[:2] == [7, 8]
        assert holds(found.tokens, ((9, 10),))
        (within,) = constrained(model, [4, 5, 3], Constraints((7, 8), ((7, 8),)), options)
        assert within.tokens[:2] == [7, 8]


@given(phrases=PHRASES, generated=st.lists(WORDS, max_size=12))
def test_phrase_progress_keeps_its_invariants(phrases: tuple[tuple[int, ...], ...], generated: list[int]) -> None:
    """An advancing token leaves one less to generate; if no phrase is missing, the output contains all of them."""
    progress, total = PhraseProgress(phrases), sum(map(len, phrases))
    for end, token in enumerate(generated, start=1):
        before, progress = progress, progress.after(token)
        if token in before.advancing_tokens:
            assert (progress.remaining, progress.bank) == (before.remaining - 1, before.bank + 1)
        assert progress.completed_tokens + sum(map(len, progress.missing)) == total
        assert progress.begun == tuple(generated[end - len(progress.begun) : end])
        assert not progress.begun or progress.advancing_tokens
        assert progress.missing or holds(generated[:end], phrases)


def test_phrase_progress_by_hand() -> None:
    """The phrases aab and ab: after a a a, `a a` is begun, and b ends the longer one."""
    progress = PhraseProgress(((4, 4, 5), (4, 5)))
    for _ in range(3):
        progress = progress.after(4)
    assert (progress.begun, progress.bank, progress.remaining, progress.advancing_tokens) == ((4, 4), 2, 3, {5})
    assert progress.after(5) == PhraseProgress(((4, 5),), (), 3, phrase_ended=True)
    assert progress.after(6) == PhraseProgress(progress.missing)


def test_phrase_within_another_by_hand() -> None:
    """Phrases abc and b: b within abc does not count, unless abc is not completed."""
    progress = PhraseProgress(((4, 5, 6), (5,))).after(4).after(5)
    assert progress == PhraseProgress(((4, 5, 6), (5,)), (4, 5))
    assert progress.after(6) == PhraseProgress(((5,),), (), 3, phrase_ended=True)
    assert progress.after(7) == PhraseProgress(((4, 5, 6),), (), 1)
    assert progress.after(4) == PhraseProgress(((4, 5, 6),), (4,), 1)


def test_beam_width_grows_with_the_phrases_up_to_a_bound() -> None:
    options = SearchOptions(beam=4)
    assert beam_width([NO_CONSTRAINTS], options) == 4
    assert beam_width([Constraints(phrases=((5,),))], options) == 4
    assert beam_width([NO_CONSTRAINTS, Constraints(phrases=((5, 6, 7), (8, 9, 10)))], options) == 7
    assert beam_width([Constraints(phrases=(tuple(range(4, 99)),))], options) == MAX_WIDTH
