"""The kernels in C++ against plain torch in float64, and the cache of the compiled library."""

import math
import resource
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from nmt.config import MaxLength, ModelSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ModelError
from nmt.kernels import constant_products, native, native_search
from nmt.kernels.attention_rows import Layout, Offsets, attend
from nmt.kernels.compiling import library
from nmt.kernels.constant_products import in_bf16
from nmt.kernels.machine import has_amx
from nmt.kernels.reference import rotary_angles
from nmt.model.positions import sinusoids
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS
from tests.builders import native_engine, tiny_model
from tests.decoding.reference_search import normalized

needs_native = pytest.mark.skipif(library() is None, reason="needs a C++ compiler")
HEADS = 3


# products


@pytest.fixture(params=[True, False], ids=["with AMX", "without AMX"])
def amx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the two kernels for bf16."""
    if not request.param:
        monkeypatch.setattr(constant_products, "has_amx", lambda: False)
    elif not has_amx():
        pytest.skip("needs a processor with AMX")


Product = Callable[..., Tensor]  # of x, and whether ReLU follows


def product_of(weight: Tensor, bias: Tensor | None, precision: str) -> Product | None:
    """Return a product, called as the layers in C++ call it."""
    found = constant_products.product(weight.numpy(), None if bias is None else bias.numpy(), precision)
    if found is None:
        return None

    def product(x: Tensor, relu: bool = False) -> Tensor:
        out, rows = x.new_empty(len(x), found.outputs), x.contiguous()
        found.function(found.address, out.data_ptr(), rows.data_ptr(), len(x), relu)
        return out

    return product


def product_or_skip(weight: Tensor, bias: Tensor | None, precision: str) -> Product:
    product = product_of(weight, bias, precision)
    if product is None:
        pytest.skip(f"this processor has no instructions for {precision}")
    return product


@needs_native
@torch.inference_mode()
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 220), st.integers(1, 6), st.integers(1, 3), st.booleans(), st.booleans())
def test_products_equal_torch_with_what_follows_them(
    rows: int, inputs: int, outputs: int, biased: bool, relu: bool
) -> None:
    torch.manual_seed(rows * inputs * outputs)
    x = torch.randn(rows, 16 * inputs)
    weight, bias = torch.randn(64 * outputs, 16 * inputs), torch.randn(64 * outputs) if biased else None
    product = product_of(weight, bias, "fp32")
    assert product is not None
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(product(x, relu).double(), expected.relu() if relu else expected, rtol=1e-5, atol=1e-4)
    assert product_of(weight[:-1], None, "fp32") is None  # no whole tile


@needs_native
@torch.inference_mode()
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 64), (48, 64), (512, 192)])
@pytest.mark.parametrize("rows", [0, 1, 6, 16, 17, 33, 96, 97, 128, 150])
def test_products_in_bf16_round_only_their_operands(amx: None, rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(rows, inputs)
    expected = F.linear(x.bfloat16().double(), weight.bfloat16().double(), bias.double())
    found = product_or_skip(weight, bias, "bf16")(x)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    relu = product_or_skip(weight, bias, "bf16")(x, True)
    torch.testing.assert_close(relu.double(), expected.relu(), rtol=1e-5, atol=2e-4)


@needs_native
@torch.inference_mode()
@pytest.mark.parametrize("inputs", [64, 512])
def test_products_in_int8_are_precise_to_hundredths(inputs: int) -> None:
    weight, bias, x = torch.randn(128, inputs), torch.randn(128), torch.randn(33, inputs)
    found = product_or_skip(weight, bias, "int8")(x).double()
    expected = F.linear(x.double(), weight.double(), bias.double())
    assert (found - expected).norm() < 0.02 * expected.norm()
    assert (product_or_skip(weight, bias, "int8")(x[5:6]).double() - found[5]).abs().max() == 0, (
        "no row affects another"
    )
    assert product_of(torch.zeros(64, 2**17 + 16), None, "int8") is None, "sums might not fit in 32 bits"


@needs_native
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("place", ["weight", "bias", "input"])
def test_a_nan_remains_in_the_results_that_depend_on_it(amx: None, precision: str, relu: bool, place: str) -> None:
    torch.manual_seed(0)
    tensors = {"weight": torch.randn(128, 64), "bias": torch.randn(128), "input": torch.randn(9, 64)}
    where = {"weight": (70, 3), "bias": (70,), "input": (2, 33)}[place]
    tensors[place][where] = torch.nan
    product = product_or_skip(tensors["weight"], tensors["bias"], precision)
    expected = torch.zeros(9, 128, dtype=torch.bool)
    of = (2, slice(None)) if place == "input" else (slice(None), 70)
    expected[of] = True
    assert torch.equal(product(tensors["input"], relu).isnan(), expected)


@pytest.mark.parametrize("count", [1, 1000, 9_000_000])  # the last one is as large as those of a search
def test_arrays_begin_a_cache_line(count: int) -> None:
    array = constant_products.empty((2, count), np.float32)
    assert (array.shape, array.flags.c_contiguous, array.flags.writeable) == ((2, count), True, True)
    assert constant_products.address(array) % 64 == 0
    with pytest.raises(MemoryError):
        constant_products.empty((1 << 46,), np.float32)


# searches

SETTINGS: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 2, "dim": 64, "heads": 4, "feed_forward": 128}


def model_of(seed: int, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(ModelSettings.model_validate(SETTINGS | changes), 90, 90).eval()
    with torch.no_grad():
        model.output.weight.mul_(1 + seed % 3)  # flat and sharp distributions
        if model.output_bias is not None:
            model.output_bias.normal_()
    return model


@needs_native
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 89), max_size=8), min_size=1, max_size=4),
    st.sampled_from([(1, 1), (2, 1), (4, 1), (4, 3), (5, 5)]),
    st.sampled_from([{}, {"exact": True}, {"no_repeat_ngram": 1}, {"no_repeat_ngram": 2}, {"log_probs": False}]),
    st.sampled_from([{}, {"norm": "post", "activation": "gelu", "output_bias": True}, {"positions": "rotary"}]),
    st.integers(0, 2**20),
)
def test_search_equals_that_of_plain_torch(
    sources: list[list[int]], widths: tuple[int, int], rules: dict[str, Any], changes: dict[str, Any], seed: int
) -> None:
    """Of one model or two, with prefixes or without. Hypotheses whose scores are nearly equal may change places.

    Sources are encoded a few tokens at a time.
    """
    models = [model_of(seed, **changes), model_of(seed + 1, dim=128)][: 1 + seed % 2]
    beam, best = widths
    limit = MaxLength(factor=1, extra=1 + seed % 5)
    options = SearchOptions.model_validate({"beam": beam, "n_best": best, "max_length": limit, **rules})
    prefixes = [ids[:1] * (seed % 4) for ids in sources] if seed % 3 == 0 else None  # which may repeat a token
    expected = search(models, [[*ids, EOS] for ids in sources], options, prefixes)
    with patch.object(native_search, "ENCODER_ROWS", 1 + seed % 20):
        found = native_engine(models).search(sources, options, prefixes)
    for ours, theirs in zip(found, expected, strict=True):
        scores = [normalized(one, options) for one in theirs]
        if options.log_probs or beam > 1:
            assert [normalized(one, options) for one in ours] == pytest.approx(scores, abs=1e-3)
        gaps = [math.inf, *(before - after for before, after in pairwise(scores)), math.inf]
        for one, other, gap, following in zip(ours, theirs, gaps[:-1], gaps[1:], strict=True):
            if min(gap, following) > 1e-3 and following < math.inf:
                assert (one.tokens, one.log_prob) == (other.tokens, pytest.approx(other.log_prob, abs=1e-3))


@needs_native
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 89), max_size=12), min_size=1, max_size=6),
    st.sampled_from([{}, {"temperature": 0.5}, {"top_p": 0.7}, {"top_p": 1e-9}, {"temperature": 3.0, "top_p": 0.9}]),
    st.sampled_from([None, 1, 2]),
    st.integers(0, 2**20),
)
def test_samples_are_those_of_plain_torch(
    sources: list[list[int]], sampling: dict[str, float], ngram: int | None, seed: int
) -> None:
    """Except where the number that is drawn is at the end of the share of a token, to rounding: one in a thousand."""
    models = [model_of(seed), model_of(seed + 1)][: 1 + seed % 2]
    chosen = {"n_best": 3, "sampling": sampling, "no_repeat_ngram": ngram, "max_length": {"factor": 0, "extra": 6}}
    options, prefixes = SearchOptions.model_validate(chosen), [ids[: seed % 2] for ids in sources]
    expected = search(models, [[*ids, EOS] for ids in sources], options, prefixes)
    found = native_engine(models).search(sources, options, prefixes)
    theirs, ours = ([one for best in results for one in best] for results in (expected, found))
    same = [one.tokens == other.tokens for one, other in zip(ours, theirs, strict=True)]
    assert sum(same) >= len(same) - 1
    for one, other, is_same in zip(ours, theirs, same, strict=True):
        assert not is_same or one.log_prob == pytest.approx(other.log_prob, abs=1e-3)


@needs_native
@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_search_refuses_a_sentence_whose_hypotheses_are_not_numbers(beam: int) -> None:
    """If there is a result, no hypothesis had one of the tokens whose vectors are NaN."""
    refused, options = 0, SearchOptions(beam=beam, n_best=beam, max_length=MaxLength(factor=1, extra=3))
    for seed in range(20):
        model = model_of(seed, tied_embeddings="none")
        expected = native_engine([model]).search([[5, 6]], options)
        model.target_embedding.tokens.weight[4:14] = torch.nan
        try:
            assert native_engine([model]).search([[5, 6]], options) == expected
        except ModelError:
            refused += 1
    assert 1 < refused < 20


@needs_native
@torch.no_grad()
@pytest.mark.parametrize("damaged", [0, 1, 2])
@pytest.mark.parametrize("chosen", [{"beam": 1}, {"beam": 3}, {"sampling": {}}], ids=str)
def test_damaged_model_of_an_ensemble_is_refused(chosen: dict[str, Any], damaged: int) -> None:
    models = [model_of(seed, tied_embeddings="none") for seed in range(3)]
    models[damaged].output.weight[5] = torch.nan
    with pytest.raises(ModelError):
        native_engine(models).search([[5, 6, 7]], SearchOptions.model_validate(chosen))


@needs_native
@torch.no_grad()
@pytest.mark.parametrize("outlier", [10, 100, 300])
def test_greedy_search_finds_the_best_tokens_of_states_with_outliers(outlier: float) -> None:
    """Such numbers make the scale coarse by which the others are rounded to eight bits."""
    model = model_of(1, dim=256, tied_embeddings="none")
    model.decoder_norm.bias[7] = outlier
    model.output.weight[:, 7] *= 0.02
    sentences, limit = [[token] for token in range(4, 84)], MaxLength(factor=0, extra=4)
    exact, screened = (
        native_engine([model]).search(sentences, SearchOptions(beam=1, max_length=limit, log_probs=log_probs))
        for log_probs in (True, False)
    )
    assert [one.tokens for (one,) in screened] == [one.tokens for (one,) in exact]


@needs_native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_full_ram_is_an_error() -> None:
    (model,) = native_engine([model_of(0)])._models
    before = resource.getrlimit(resource.RLIMIT_AS)
    pairs = [([5] * 8000 + [EOS], [6] * 8000 + [EOS])] * 20
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, before[1]))
    try:
        with pytest.raises(MemoryError):
            model.force(pairs, with_attention=False)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@needs_native
def test_search_keeps_what_two_threads_make_at_a_time() -> None:
    """A model for greedy search keeps the matrix with which the best logits are computed, not only a cache does."""
    (model,) = native_engine([model_of(0)], "bf16")._models
    made = model.arguments(9, is_screened=True)
    assert model._screen is not None
    assert any(kept is model._screen for kept in made.references)


@needs_native
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_search_keeps_tables_of_positions_that_no_cache_keeps(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache keeps one table only, when two threads make the same one at a time."""
    sentences, options = [[4 + i % 50, 5] for i in range(300)], SearchOptions(beam=2)
    model = model_of(0, positions=positions)
    expected = native_engine([model]).search(sentences, options)
    for name in ("_sinusoids", "_rotations"):
        made = getattr(native, name)
        monkeypatch.setattr(native, name, lambda *sizes, made=made: made(*sizes).copy())
    empty = native_search.empty
    # what is freed too early is overwritten
    monkeypatch.setattr(native_search, "empty", lambda shape, dtype: np.full_like(empty(shape, dtype), -1))
    assert native_engine([model]).search(sentences, options) == expected


@needs_native
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["sinusoidal", "rotary", "learned"]),
    st.sampled_from(["all", "target", "none"]),
    st.sampled_from(["pre", "post"]),
    st.sampled_from(["relu", "swiglu"]),
    st.booleans(),
)
def test_weight_shapes_are_those_of_the_model(
    positions: str, tied: str, norm: str, activation: str, output_bias: bool
) -> None:
    chosen = {"positions": positions, "tied_embeddings": tied, "norm": norm, "activation": activation}
    chosen_settings = ModelSettings.model_validate(SETTINGS | chosen | {"output_bias": output_bias})
    sizes = (90, 90) if tied == "all" else (70, 90)
    assert native.weight_shapes(chosen_settings, *sizes) == Transformer(chosen_settings, *sizes).shapes


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_bf16_and_positions_are_those_of_torch(seed: int) -> None:
    torch.manual_seed(seed)
    bits = torch.cat([torch.randint(-(2**31), 2**31, (999,)), torch.tensor([0, 0x7F7FFFFF, 0x7F800000, 0x3F808000])])
    numbers = bits.int().view(torch.float32)
    expected = numbers.bfloat16().view(torch.int16).numpy().view(np.uint16)
    is_number = ~numbers.isnan().numpy()
    assert (in_bf16(numbers.numpy()) == expected)[is_number].all()
    assert np.isnan((in_bf16(numbers.numpy()).astype(np.uint32) << 16).view(np.float32))[~is_number].all()
    positions, width = torch.arange(40), 2 * (1 + seed % 40)
    expected_sinusoids = sinusoids(positions, 40, torch.empty(0, width)).numpy()
    np.testing.assert_allclose(native._sinusoids(40, width), expected_sinusoids, atol=1e-5)
    angles = rotary_angles(positions, width, torch.empty(0))
    expected_rotations = torch.cat([angles.cos(), angles.sin()], 1).numpy()
    np.testing.assert_allclose(native._rotations(40, width), expected_rotations, atol=1e-5)


@needs_native
@pytest.mark.parametrize("token", range(4, 40, 6))
def test_both_engines_refuse_a_sentence_with_numbers_that_are_none(token: int) -> None:
    """The vector of a token is NaN that hypotheses may have, so only some of their numbers are."""
    broken = tiny_model(token, 40, dim=64, feed_forward=64)
    with torch.no_grad():
        broken.target_embedding.tokens.weight[token] = torch.nan
    engine, options = native_engine([broken]), SearchOptions(beam=3)
    outcomes = []
    for either in (engine, engine.torch_engine):
        try:
            outcomes.append([hypothesis.tokens for hypothesis in either.search([[5, 6, 7]], options)[0]])
        except ModelError:
            outcomes.append([])
    assert outcomes[0] == outcomes[1]


# attention of rows


def by_torch(queries: Tensor, keys_values: Tensor | None, layout: Layout) -> Tensor:
    """Attend within one sentence at a time."""
    if keys_values is None:
        queries, keys_values = queries.tensor_split([queries.size(1) // 3], dim=1)
    rows = []
    for sentence in range(len(layout.queries) - 1):
        of_queries, of_keys = (slice(*offsets[sentence : sentence + 2]) for offsets in (layout.queries, layout.keys))
        keys, values = keys_values[of_keys].chunk(2, dim=1)
        q, k, v = (x.unflatten(1, (layout.heads, -1)).transpose(0, 1) for x in (queries[of_queries], keys, values))
        scores = q @ k.transpose(1, 2) / q.size(2) ** 0.5
        if layout.causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        rows.append((scores.softmax(-1) @ v).transpose(0, 1).flatten(1))
    return torch.cat(rows)


def offsets_of(lengths: list[int]) -> Offsets:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def columns(rows: int, count: int, dtype: torch.dtype) -> Tensor:
    """Return random numbers (rows, count) that are columns of a wider matrix."""
    return torch.randn(rows, count + 7).to(dtype)[:, 3 : count + 3]


def check_rows(kind: str, lengths: list[tuple[int, int]], width: int, dtype: torch.dtype) -> None:
    """Compare output and gradients with those of torch, with one thread and with two."""
    to = offsets_of([query for query, _ in lengths])
    layout = Layout(to, offsets_of([key for _, key in lengths]) if kind == "cross" else to, HEADS, kind == "causal")
    dim, rows = HEADS * width, int(to[-1])
    queries = columns(rows, dim if kind == "cross" else 3 * dim, dtype)
    keys_values = columns(int(layout.keys[-1]), 2 * dim, dtype) if kind == "cross" else None
    direction = columns(rows, dim, dtype)
    inputs = [x.double().requires_grad_() for x in (queries, keys_values) if x is not None]
    expected = by_torch(inputs[0], inputs[1] if kind == "cross" else None, layout)
    expected_gradients = torch.autograd.grad(expected, inputs, direction.double())
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        ours = [x.detach().requires_grad_() for x in (queries, keys_values) if x is not None]
        output = attend(ours[0], ours[1] if kind == "cross" else None, layout)
        found.append([output, *torch.autograd.grad(output, ours, direction)])
    close = {"rtol": 1e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 2**-8, "atol": 1e-4}
    for one, two, exact in zip(*found, [expected, *expected_gradients], strict=True):
        assert one.dtype == dtype
        assert torch.equal(one, two)
        torch.testing.assert_close(one.double(), exact, **close)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@needs_native
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [8, 12, 32, 64])
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention_of_rows_equals_torch(kind: str, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(width)
    lengths = [(5, 3), (1, 17), (0, 2), (17, 0), (130, 1), (16, 16), (0, 0), (300, 40), (64, 300), (65, 33)]
    check_rows(kind, lengths, width, dtype)


@needs_native
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["self", "causal", "cross"]),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=8),
    st.integers(1, 70),
    st.integers(0, 2**20),
)
def test_attention_of_rows_of_any_lengths_equals_torch(
    kind: str, lengths: list[tuple[int, int]], width: int, seed: int
) -> None:
    before = torch.get_num_threads()
    torch.manual_seed(seed)
    check_rows(kind, lengths, width, torch.float32)
    torch.set_num_threads(before)


@needs_native
def test_attention_of_rows_without_sentences_or_with_large_scores() -> None:
    nothing = Layout(offsets_of([]), offsets_of([]), HEADS)
    empty = torch.empty(0, 72, requires_grad=True)
    output = attend(empty, None, nothing)
    assert output.shape == (0, 24)
    assert torch.autograd.grad(output, empty, torch.ones_like(output))[0].shape == (0, 72)
    layout = Layout(offsets_of([20]), offsets_of([20]), HEADS)
    queries = torch.randn(20, 72) * 100  # differences of scores are in the thousands
    output = attend(queries, None, layout)
    torch.testing.assert_close(output.double(), by_torch(queries.double(), None, layout), rtol=1e-3, atol=0.02)


@needs_native
@pytest.mark.parametrize("column", [0, 24, 48])
def test_a_nan_stays_in_its_sentence(column: int) -> None:
    layout = Layout(offsets_of([4, 20, 3]), offsets_of([4, 20, 3]), HEADS)
    queries = torch.randn(27, 72)
    queries[10, column] = torch.nan
    output = attend(queries.requires_grad_(), None, layout)
    (gradient,) = torch.autograd.grad(output.sum(), queries)
    for found in (output, gradient):
        assert found[4:24].isnan().any()
        assert not found[:4].isnan().any()
        assert not found[24:].isnan().any()
