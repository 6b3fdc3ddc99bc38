"""The kernels for CPUs against the plain ones in float64, and what takes their place where a machine has none.

For the functions in C++ by themselves see test_native.py.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from nmt.batching.batch import Rows, assemble
from nmt.config import ModelSettings, RuntimeSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError, ModelError
from nmt.kernels import compiling, cpu
from nmt.kernels.cpu import CpuKernels, has_onednn
from nmt.kernels.device import kernels_for
from nmt.kernels.reference import PLAIN, Kernels, Places, Precision
from nmt.model.attention import Linear
from nmt.model.cache import DecoderCache
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences
from nmt.text.tokenizer import BOS, EOS
from tests.builders import native_engine, padded

CPU = torch.device("cpu")
needs_native = pytest.mark.skipif(not CpuKernels(CPU).has_native, reason="needs a C++ compiler")
HEADS, DIM, VOCABULARY = 2, 64, 90
SOURCES = [[5, 6, 7, 8, 3], [9, 3], [4, 4, 10, 3], [*range(20, 90), 3]]
CLOSE = {"rtol": 1e-5, "atol": 1e-4}


@pytest.fixture(params=["available", "plain"])
def each_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setattr(cpu, "has_onednn", lambda: False)
        monkeypatch.setattr(compiling, "library", lambda: None)


def tiny_model(sharpness: float = 1.0, **changes: object) -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "dim": DIM, "heads": HEADS, "feed_forward": 128, "dropout": 0.0}
    model = Transformer(ModelSettings.model_validate({**shape, **changes}), VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        model.output.weight.mul_(sharpness)
    return model


# what is available


def test_environment_variable_selects_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    available = has_onednn()
    monkeypatch.setenv("NMT_CPU_KERNELS", "off")
    assert not has_onednn.__wrapped__()
    monkeypatch.setattr(cpu, "has_onednn", has_onednn.__wrapped__)
    monkeypatch.setattr(compiling, "library", compiling.library.__wrapped__)
    kernels = kernels_for(CPU)
    assert (kernels.description, kernels.problem) == ("torch, cpu, fp32", None)
    monkeypatch.setenv("NMT_CPU_KERNELS", "on")
    assert has_onednn.__wrapped__() == available


class Operators:
    """The operators of oneDNN without one."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(name)


def test_missing_operator_is_replaced_by_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", Operators())
    assert not has_onednn.__wrapped__()
    monkeypatch.setattr(cpu, "has_onednn", has_onednn.__wrapped__)
    x, weight, bias = torch.randn(40, 24), torch.randn(36, 24, requires_grad=True), torch.randn(36)
    output = CpuKernels(CPU).linear(x, weight, bias)
    torch.testing.assert_close(output, F.linear(x, weight, bias))
    output.sum().backward()


def test_missing_compiler_is_a_problem_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "library", lambda: None)
    monkeypatch.setattr(compiling, "problem", "no C++ compiler found; install g++")
    kernels = kernels_for(CPU, "bf16")
    assert kernels.description == "torch, cpu, bf16"
    assert kernels.problem == "no compiled kernels, so this is slower: no C++ compiler found; install g++"
    with pytest.raises(ConfigError, match=r"int8 needs a CPU, a C\+\+.* no relative positions"):
        TorchEngine.of_models([tiny_model()], RuntimeSettings(device="cpu", precision="int8"))


# products

SIZES = st.integers(1, 70)


@torch.no_grad()
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.tuples(SIZES, SIZES, SIZES), st.booleans(), st.booleans(), st.booleans())
def test_products_equal_torch(
    each_processor: None, sizes: tuple[int, int, int], biased: bool, transposed: bool, relu: bool
) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(sum(sizes))
    x = torch.randn(inputs, rows).t() if transposed else torch.randn(rows, inputs)
    weight = torch.randn(inputs, outputs).t() if transposed else torch.randn(outputs, inputs)
    bias, left = torch.randn(outputs) if biased else None, torch.randn(rows, outputs)
    found, product = CpuKernels(CPU), x.double() @ weight.double().t()
    expected = product if bias is None else product + bias
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(found.linear(x, weight, bias, relu).double(), expected, **CLOSE)
    torch.testing.assert_close(found.product(x, weight).double(), product, **CLOSE)
    torch.testing.assert_close(found.outer_product(left, x).double(), left.double().t() @ x.double(), **CLOSE)


@pytest.mark.parametrize("shape", [(40, 24), (3, 24), (5, 8, 24), (2, 1, 24)], ids=str)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("relu", [True, False])
def test_gradients_equal_torch(each_processor: None, shape: tuple[int, ...], biased: bool, relu: bool) -> None:
    torch.manual_seed(1)
    ours = Linear(24, 36, bias=biased)
    ours.kernels = CpuKernels(CPU)
    theirs = torch.nn.Linear(24, 36, bias=biased, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().double().requires_grad_()
    mapped, expected = ours(x, relu), theirs(y)
    expected = expected.relu() if relu else expected
    direction = torch.randn_like(mapped)
    mapped.backward(direction)
    expected.backward(direction.double())
    torch.testing.assert_close(mapped.double(), expected, **CLOSE)
    torch.testing.assert_close(x.grad.double(), y.grad, **CLOSE)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad.double(), theirs.get_parameter(name).grad, **CLOSE)
        assert parameter.grad.is_contiguous()
    with torch.no_grad():
        assert torch.equal(ours(x, relu), mapped)
    ours.weight.requires_grad_(False)  # frozen
    ours(x).relu_().sum().backward()  # the result can be changed in place


@pytest.mark.parametrize("rows", [3, 40])  # below and above the least number for oneDNN
def test_bf16_rounds_operands_and_results(each_processor: None, rows: int) -> None:
    """bf16 has 8 significant bits: rounding changes a number by at most 1/256 of it; sums are fp32."""
    torch.manual_seed(3)
    inputs = [torch.randn(rows, 300), torch.randn(36, 300), torch.randn(36)]
    x, weight, bias = (tensor.requires_grad_() for tensor in inputs)
    output = CpuKernels(CPU, "bf16").linear(x, weight, bias)
    assert output.dtype == torch.bfloat16
    rounded = [tensor.detach().bfloat16().double().requires_grad_() for tensor in inputs]
    expected = F.linear(*rounded)
    torch.testing.assert_close(output.double(), expected, rtol=2**-8, atol=1e-3)
    direction = torch.randn_like(output)
    output.backward(direction)
    expected.backward(direction.double())
    for ours, theirs in zip(inputs, rounded, strict=True):
        assert ours.grad.dtype == torch.float32
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2**-8, atol=0.05)


@given(st.integers(0, 5000))
def test_batches_grow_by_a_sixteenth_at_most(rows: int) -> None:
    source, target = CpuKernels(CPU).sizes(rows, rows)
    assert (source, target) == (source, max(1, source))
    assert rows <= source <= max(1, rows * 17 / 16)
    assert CpuKernels(CPU).sizes(source, target) == (source, target)
    assert source % 64 == 0 or rows < 1024


# dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.999999])
def test_dropout_has_the_expected_share_scale_and_independence(p: float) -> None:
    torch.manual_seed(1)
    count, rate = 400_000, min(255, round(p * 256)) / 256
    dropped = CpuKernels(CPU).dropout(torch.ones(count), p)
    kept = dropped != 0
    # four standard deviations of a binomial share
    assert 1 - kept.float().mean().item() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / count) ** 0.5)
    assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - rate)))
    together = (~kept).float().view(-1, 8)  # one random draw gives the masks of eight values
    expected = torch.full((8, 8), rate**2).fill_diagonal_(rate)
    assert (together.t() @ together / len(together) - expected).abs().max().item() < 5 * 0.5 / len(together) ** 0.5


def test_gradient_of_dropout_equals_the_mask_which_the_seed_decides() -> None:
    kernels = CpuKernels(CPU)
    x = torch.randn(40, 13, dtype=torch.float64, requires_grad=True)
    kernels.seed(3)
    dropped = kernels.dropout(x, 0.3)
    direction = torch.randn_like(dropped)
    dropped.backward(direction)
    torch.testing.assert_close(x.grad, dropped.detach() / x.detach() * direction)
    assert kernels.dropout(x, 0.0) is x
    kernels.seed(3)
    assert torch.equal(kernels.dropout(x, 0.3), dropped)
    assert not torch.equal(kernels.dropout(x, 0.3), dropped)
    for shape, dtype in (((7,), torch.bfloat16), ((3, 5, 11), torch.float32), ((2, 0, 3), torch.float32)):
        result = kernels.dropout(torch.ones(shape, dtype=dtype), 0.5)
        assert (result.shape, result.dtype) == (shape, dtype)


# attention and the loss: the operations as a whole

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4)
MORE = st.sampled_from([(0, 0), (3, 5), (3, 0), (0, 5), (2, 70)])  # fillers may have no rows on a side


def gradients(function: Callable[..., Tensor], inputs: list[Tensor], direction: Tensor) -> list[Tensor]:
    """Return the result of a function and the gradients of its inputs, in float64."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    found = torch.autograd.grad(output, leaves, direction.to(output.dtype))
    return [tensor.detach().double() for tensor in (output, *found)]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(LENGTHS, min_size=1, max_size=3), st.sampled_from(["self", "causal", "cross"]), MORE)
def test_attention_equals_torch_for_each_group(
    each_processor: None, groups: list[list[tuple[int, int]]], kind: str, more: tuple[int, int]
) -> None:
    sides = ([Sentences.of([[7] * pair[side] for pair in group]) for group in groups] for side in (0, 1))
    batch = assemble(list(zip(*sides, strict=True)), lambda source, target: (source + more[0], target + more[1]))
    rows = (batch.target, batch.source if kind == "cross" else batch.target)
    count, memory = len(batch.labels), len(batch.source.ids)
    parts = [torch.randn(count, 3 * DIM)]
    if kind == "cross":
        parts = [torch.randn(count, DIM), torch.randn(memory, 2 * DIM)]

    def attended(kernels: Kernels) -> Callable[..., Tensor]:
        return lambda q, kv=None: kernels.attend(q, kv, rows, HEADS, kind == "causal")

    direction = torch.randn(count, DIM)
    found = gradients(attended(CpuKernels(CPU)), parts, direction)
    expected = gradients(attended(PLAIN), [part.double() for part in parts], direction)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_attention_in_fp16_is_that_of_torch() -> None:
    batch = assemble([(Sentences.of([[7] * 9]), Sentences.of([[7] * 9]))])
    rows, x = (batch.target, batch.target), torch.randn(10, 3 * DIM).half()
    found, expected = (kernels.attend(x, None, rows, HEADS) for kernels in (CpuKernels(CPU), PLAIN))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_loss_equals_that_in_float64(
    each_processor: None, monkeypatch: pytest.MonkeyPatch, chunk: int, precision: Precision
) -> None:
    kernels = CpuKernels(CPU, precision)
    inputs = [torch.randn(40, DIM) / 8, torch.randn(128, DIM)]
    monkeypatch.setattr(kernels, "chunk_logits", chunk * 128)
    labels = torch.randint(0, VOCABULARY, (40,), dtype=torch.int32)

    def loss(kernels: Kernels) -> Callable[..., Tensor]:
        return lambda hidden, matrix: torch.stack(kernels.loss(hidden, matrix, labels, 0.1, VOCABULARY))

    found = gradients(loss(kernels), inputs, torch.tensor([1.0, 0.0]))
    expected = gradients(loss(PLAIN), [tensor.double() for tensor in inputs], torch.tensor([1.0, 0.0]))
    for ours, theirs in zip(found, expected, strict=True):
        error = (ours - theirs).abs().max() / theirs.abs().max()
        assert error < (1e-5 if precision == "fp32" else 0.02)


# the model as a whole


def begun(model: Transformer, sources: list[list[int]], positions: int) -> DecoderCache:
    """Return the cache of one hypothesis of each source."""
    rows, count = Rows.of(sources), len(sources)
    keys_values = model.encode_keys_values(rows)
    ancestors = torch.zeros(count, 1, positions, dtype=torch.int32)
    places = Places(torch.arange(count), torch.zeros(count, dtype=torch.long), ancestors, 1, positions)
    cache = DecoderCache.empty(keys_values[0], len(keys_values), max(map(len, sources)), places)
    cache.load(torch.arange(count), rows, torch.tensor([len(ids) for ids in sources]), keys_values)
    return cache


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu"},
        {"positions": "relative"},
        {"positions": "rotary", "activation": "swiglu", "norm": "post"},
        {"positions": "learned", "activation": "swish", "max_positions": 8},
    ],
    ids=str,
)
def test_model_equals_that_of_plain_torch(
    each_processor: None, changes: dict[str, object], precision: Precision
) -> None:
    """Loss and gradients; then encoder and steps in inference."""
    model, kernels = tiny_model(**changes), CpuKernels(CPU, precision)
    pairs = Sentences.of([ids[:-1] for ids in SOURCES]), Sentences.of([ids[1:] for ids in SOURCES])
    results = []
    for computing in (PLAIN, kernels):
        model.compute_with(computing)
        loss, _ = model.loss(assemble([pairs], computing.sizes), 0.1)
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for theirs, ours in zip(*results, strict=True):
        error = (ours - theirs).norm() / theirs.norm()
        assert error < (1e-4 if precision == "fp32" else 0.1)
    model.compute_with(PLAIN)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    source, _ = padded(SOURCES)
    targets = torch.randint(4, VOCABULARY, (len(SOURCES), 10))
    with torch.inference_mode():
        expected = model(source, None, targets)  # (B, T, V)
        copied = model.for_inference(kernels)
        cache = begun(copied, SOURCES, targets.size(1))
        for tokens, logits in zip(targets.t().contiguous(), expected.unbind(1), strict=True):
            cache.places.lengths += 1
            found = copied.logits(copied.decode_step(tokens, cache)).float()
            difference = (found[:, :VOCABULARY] - logits).abs().max()
            assert difference < (1e-4 if precision == "fp32" else 0.15)
    assert model.kernels is PLAIN
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@needs_native
@pytest.mark.parametrize(
    ("options", "precision"),
    [
        ({}, "int8"),
        ({"beam": 4}, "fp32"),
        ({"beam": 4}, "bf16"),
        ({"log_probs": False}, "fp32"),  # by screened logits
        ({"log_probs": False}, "bf16"),
    ],
    ids=str,
)
def test_nan_in_any_weight_is_an_error(options: dict[str, object], precision: Precision) -> None:
    """Of the embeddings, one of a token that is read; of the output, one of a token that may be written."""
    chosen, model = SearchOptions.model_validate({"beam": 1, **options}), tiny_model(tied_embeddings="none")
    rows = {"source_embedding.tokens.weight": 7, "target_embedding.tokens.weight": BOS, "output.weight": EOS}
    missed = []
    for name, weight in model.named_parameters():
        place = (rows.get(name, 1), 1)[: weight.dim()]
        with torch.no_grad():
            before = weight[place].clone()
            weight[place] = torch.nan
        with suppress(ModelError):
            native_engine([model], precision).search([[5, 6, 7]], chosen)
            missed.append(name)
        with torch.no_grad():
            weight[place] = before
    assert missed == []


@needs_native
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("prefixes", "ngram"), [(None, None), (None, 2), ([(8, 9), (), (1, 30), ()], 1)], ids=["", "ngram", "prefixes"]
)
def test_greedy_search_without_log_probs_finds_what_exact_logits_do(
    prefixes: list[tuple[int, ...]] | None, ngram: int | None, precision: Precision
) -> None:
    for sharpness in (0.3, 3.0):
        plain = tiny_model(sharpness, tied_embeddings="none")
        with torch.no_grad():
            plain.output.weight[1] = 3 * plain.output.weight[7]  # never generated, and often the largest logit
        engine, sentences = native_engine([plain], precision), [ids[:-1] for ids in SOURCES]
        options = SearchOptions.model_validate({"beam": 1, "no_repeat_ngram": ngram})
        exact = engine.search(sentences, options, prefixes)
        found = engine.search(sentences, options.model_copy(update={"log_probs": False}), prefixes)
        assert [one.tokens for (one,) in found] == [one.tokens for (one,) in exact]
        assert ("_screen" in vars(engine._models[0])) == (prefixes is None and ngram is None)
        if precision == "fp32":
            expected = search([plain], SOURCES, options, prefixes)
            assert [one.tokens for (one,) in expected] == [one.tokens for (one,) in exact]
