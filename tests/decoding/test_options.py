"""Search settings: from the recipe, and checked."""

import math
from dataclasses import fields

import pytest
from pydantic import ValidationError

from nmt.config import DecodeSettings, MaxLength, Sampling
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_length": -0.5}, r"decode\.min_length: found -0\.5"),
        (
            {"min_length": 2.5},
            r"found 2\.5, but the longest output has 2 tokens per source token; .*max_length\.factor",
        ),
        ({"min_length": math.nan}, r"decode\.min_length: found nan"),
        ({"no_repeat_ngram": 0}, r"decode\.no_repeat_ngram: found 0, expected 1 or more tokens, or null"),
        ({"repetition_penalty": 0.9}, r"decode\.repetition_penalty: found 0\.9, expected 1 \(none\) to 100"),
        ({"repetition_penalty": math.inf}, r"decode\.repetition_penalty: found inf"),
        ({"coverage_penalty": -1.0}, r"decode\.coverage_penalty: found -1\.0, expected 0 \(none\) to 10"),
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**wrong)  # type: ignore[arg-type]


def test_every_setting_reaches_the_search() -> None:
    said = {
        "beam": 3,
        "length_penalty": 0.5,
        "length_normalization": "average",
        "coverage_penalty": 0.2,
        "min_length": 0.4,
        "no_repeat_ngram": 3,
        "repetition_penalty": 1.1,
        "sampling": Sampling(top_k=5),
    }
    settings = DecodeSettings.model_validate({**said, "max_length": MaxLength(factor=3.5, extra=4)})
    options = SearchOptions.from_settings(settings, n_best=2)
    assert {name: getattr(options, name) for name in said} == said
    assert (options.length_factor, options.length_extra, options.n_best) == (3.5, 4, 2)
    shared = set(DecodeSettings.model_fields) & {field.name for field in fields(SearchOptions)}
    assert shared == set(said), "a setting is not tested"


def test_settings_of_an_old_model_keep_the_limit_that_it_had() -> None:
    options = SearchOptions.from_settings(DecodeSettings.model_validate({"beam": 4, "length_penalty": 0.6}))
    assert [options.limit(length) for length in (1, 5, 30)] == [12, 20, 70]
    assert options == SearchOptions(beam=4, length_penalty=0.6)


def test_lengths_by_hand() -> None:
    options = SearchOptions(length_factor=1.25, length_extra=3, min_length=0.5)
    assert [options.limit(length) for length in (1, 4, 9)] == [5, 8, 15]
    assert [options.shortest(length) for length in (1, 4, 9)] == [1, 2, 5]


def test_width_is_the_beam_or_the_samples() -> None:
    assert SearchOptions(beam=4, n_best=2).width == 4
    assert SearchOptions(beam=4, n_best=20, sampling=Sampling()).width == 20


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": 0}, {"seed": -1}, {"temprature": 1.0}]
)
def test_impossible_sampling_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Sampling.model_validate(wrong)
