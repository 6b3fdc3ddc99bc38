"""Search options: taken from the decode section, checked against each other, and the lengths that they allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.config import DecodeSettings, MaxLength, Sampling
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError

CHANGED_SETTINGS = {
    "beam": 3,
    "length_penalty": 0.5,
    "exact": True,
    "max_length": MaxLength(factor=3.5, extra=4),
    "no_repeat_ngram": 3,
    "sampling": Sampling(top_p=0.5),
    "protect": False,
    "typography": False,
    "batch_tokens": 17,
}


def test_from_settings_keeps_every_decode_setting() -> None:
    assert set(CHANGED_SETTINGS) == set(DecodeSettings.model_fields)
    options = SearchOptions.from_settings(DecodeSettings.model_validate(CHANGED_SETTINGS), n_best=2)
    assert {key: getattr(options, key) for key in CHANGED_SETTINGS} == CHANGED_SETTINGS
    assert options.n_best == 2


def test_defaults_and_bounds_are_those_of_the_decode_section() -> None:
    options = SearchOptions()
    for key, field in DecodeSettings.model_fields.items():
        if key not in ("max_length", "batch_tokens"):  # null in a recipe: chosen when a search begins
            assert SearchOptions.model_fields[key].metadata == field.metadata
            assert getattr(options, key) == getattr(DecodeSettings(), key)


def test_settings_without_a_length_limit_get_twice_the_source_and_ten() -> None:
    options = SearchOptions.from_settings(DecodeSettings(beam=4, length_penalty=0.6))
    assert [options.longest_output(length) for length in (1, 5, 30)] == [12, 20, 70]
    assert options == SearchOptions(beam=4, length_penalty=0.6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_best": 0}, "n_best: found 0, expected 1 or more"),
        ({"beam": 2, "n_best": 3}, "n_best: found 3, but a beam of 2 returns at most 2; widen the beam"),
    ],
)
def test_contradicting_options_raise(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions.model_validate(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"beam": 1001},
        {"length_penalty": -0.1},
        {"length_penalty": 1000.0},
        {"length_penalty": float("nan")},
        {"no_repeat_ngram": 0},
        {"max_length": {"factor": -1.0}},
        {"max_length": {"extra": 0}},
        {"sampling": {"temperature": 0.0}},
        {"sampling": {"top_p": 0.0}},
        {"sampling": {"top_p": 1.1}},
        {"exact": 1},
        {"sampling": {"temprature": 1.0}},
    ],
    ids=str,
)
def test_values_out_of_bounds_raise(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SearchOptions.model_validate(wrong)


def test_output_lengths_by_hand() -> None:
    options = SearchOptions(max_length=MaxLength(factor=1.25, extra=3))
    assert [options.longest_output(length) for length in (1, 4, 9)] == [5, 8, 15]


def test_length_penalty_by_hand() -> None:
    assert SearchOptions(length_penalty=1.0).penalty(7) == pytest.approx(2.0)
    assert SearchOptions(length_penalty=0.5).penalty(19) == pytest.approx(2.0)
    assert SearchOptions(length_penalty=0.0).penalty(30) == 1.0


@given(st.floats(0, 4), st.integers(1, 20), st.tuples(*[st.integers(1, 30)] * 5))
def test_no_sentence_has_a_higher_limit_than_the_longest_one_with_the_longest_prefix(
    factor: float, extra: int, numbers: tuple[int, int, int, int, int]
) -> None:
    """A search has space for this limit only."""
    options, (source, prefix, further, more, longest) = (
        SearchOptions(max_length=MaxLength(factor=factor, extra=extra)),
        numbers,
    )
    assert options.limit(source, longest, prefix) <= options.limit(source + further, longest, prefix + more)
