"""The kernels for CPUs against torch's own in float64, where this machine has them, and plain torch in their place."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nmt.model.cpu import Dropout, Kernels, Linear, Precision, packed_attention, packed_product, padded_rows
from torch import Tensor
from torch.nn import functional as F

from nmt.batching.batch import Packing
from nmt.config import ModelSettings
from nmt.kernels import native
from nmt.model import cpu
from nmt.model.attention import SelfAttention
from nmt.model.transformer import Transformer

AVAILABLE = Kernels.available()
needs_int8 = pytest.mark.skipif(not AVAILABLE.int8, reason="needs AVX-512 VNNI and a torch with oneDNN")
needs_packed = pytest.mark.skipif(not AVAILABLE.packed, reason="needs AVX-512 and a torch with oneDNN")
HEADS, DIM = 3, 12
GROUP = st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 7))


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "kernels", AVAILABLE)


@pytest.fixture(params=["available", "torch", "plain"])
def each_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"available": AVAILABLE, "torch": AVAILABLE._replace(native=False), "plain": Kernels()}
    monkeypatch.setattr(cpu, "kernels", chosen[request.param])


def tiny_model(**changes: object) -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "dim": 64, "heads": 2, "feed_forward": 128}
    return Transformer(ModelSettings.model_validate({**shape, **changes}), 90, 90).eval()


# what is available


def test_environment_variable_selects_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_CPU_KERNELS", "off")
    assert Kernels.available() == Kernels() == (False, False, False, False, False, True)
    monkeypatch.setattr(cpu, "kernels", Kernels())
    model = tiny_model()
    assert not model.prepack("fp32")
    assert not model.prepack("int8")
    assert not model.prepacked
    monkeypatch.setenv("NMT_CPU_KERNELS", "on")
    assert not Kernels.available().plain


class Operators:
    """The operators of a namespace of torch.ops, without one."""

    def __init__(self, namespace: object, missing: str) -> None:
        self._namespace, self._missing = namespace, missing

    def __getattr__(self, name: str) -> object:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._namespace, name)


@pytest.mark.parametrize(
    ("namespace", "operator", "lost"),
    [
        ("mkldnn", "_linear_pointwise", {"linear", "packed", "bf16"}),
        ("mkldnn", "_reorder_linear_weight", {"packed"}),
    ],
)
def test_missing_operator_is_replaced_by_plain_torch(
    monkeypatch: pytest.MonkeyPatch, namespace: str, operator: str, lost: set[str]
) -> None:
    monkeypatch.setattr(torch.ops, namespace, Operators(getattr(torch.ops, namespace), operator))
    monkeypatch.setattr(native, "library", lambda: None)
    left = Kernels.available()
    assert left._asdict() == {name: has and name not in lost for name, has in AVAILABLE._asdict().items()}
    monkeypatch.setattr(cpu, "kernels", left)
    x, weight, bias = torch.randn(40, 24), torch.randn(36, 24, requires_grad=True), torch.randn(36)
    torch.testing.assert_close(cpu.linear(x, weight, bias), F.linear(x, weight, bias))
    cpu.linear(x, weight, bias).sum().backward()
    assert (packed_product(weight, bias, "fp32") is not None) == left.packed
    assert (packed_product(weight, bias, "int8") is not None) == left.int8


# products

SIZES = st.integers(1, 70)


@torch.no_grad()
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_products_equal_torch(
    each_kernels: None, rows: int, inputs: int, outputs: int, biased: bool, transposed: bool
) -> None:
    torch.manual_seed(rows * inputs * outputs)
    x = torch.randn(inputs, rows).t() if transposed else torch.randn(rows, inputs)
    weight = torch.randn(inputs, outputs).t() if transposed else torch.randn(outputs, inputs)
    bias, left = torch.randn(outputs) if biased else None, torch.randn(rows, outputs)
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    close = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(cpu.linear(x, weight, bias).double(), expected, **close)
    torch.testing.assert_close(cpu.outer_product(left, x).double(), left.double().t() @ x.double(), **close)
    if product := packed_product(weight.contiguous(), bias, "fp32"):
        torch.testing.assert_close(product(x.contiguous()).double(), expected, **close)


@pytest.mark.parametrize("shape", [(40, 24), (3, 24), (5, 8, 24), (2, 1, 24)], ids=str)
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_equal_torch(each_kernels: None, shape: tuple[int, ...], biased: bool) -> None:
    torch.manual_seed(1)
    ours = Linear(24, 36, bias=biased)
    theirs = torch.nn.Linear(24, 36, bias=biased, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().double().requires_grad_()
    mapped, expected = ours(x), theirs(y)
    direction = torch.randn_like(mapped)
    mapped.backward(direction)
    expected.backward(direction.double())
    close = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(mapped.double(), expected, **close)
    torch.testing.assert_close(x.grad.double(), y.grad, **close)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad.double(), theirs.get_parameter(name).grad, **close)
        assert parameter.grad.is_contiguous()
    with torch.no_grad():
        assert torch.equal(ours(x), mapped)
    ours.weight.requires_grad_(False)  # frozen
    ours(x).relu_().sum().backward()  # the result can be changed in place


@pytest.mark.parametrize("rows", [3, 40])  # below and above the least number for oneDNN
def test_autocast_rounds_operands_and_results_to_bf16(each_kernels: None, rows: int) -> None:
    """bf16 has 8 significant bits: rounding changes a number by at most 1/256 of it; sums are fp32."""
    torch.manual_seed(3)
    x = torch.randn(rows, 300, requires_grad=True)
    weight, bias = torch.randn(36, 300, requires_grad=True), torch.randn(36, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        output = cpu.linear(x, weight, bias)
    assert output.dtype == torch.bfloat16
    rounded = [tensor.detach().bfloat16().double().requires_grad_() for tensor in (x, weight, bias)]
    expected = F.linear(*rounded)
    torch.testing.assert_close(output.double(), expected, rtol=2**-8, atol=1e-3)
    direction = torch.randn_like(output)
    output.backward(direction)
    expected.backward(direction.double())
    for ours, theirs in zip((x, weight, bias), rounded, strict=True):
        assert ours.grad.dtype == torch.float32
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2**-8, atol=0.05)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 7, 64, 200])
def test_product_in_bf16_rounds_the_operands_and_the_result(each_kernels: None, rows: int) -> None:
    torch.manual_seed(4)
    layer, x = torch.nn.Linear(32, 64), torch.randn(rows, 32)
    layer.bias.copy_(layer.bias.bfloat16())
    product = packed_product(layer.weight, layer.bias, "bf16")
    assert product is not None
    rounded = [part.bfloat16().double() for part in (x, layer.weight, layer.bias)]
    found = product(x)
    # the sum may be rounded to eight bits
    torch.testing.assert_close(found.double(), rounded[0] @ rounded[1].t() + rounded[2], rtol=2**-8, atol=1e-5)


@needs_int8
@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 7, 64, 200])
@pytest.mark.parametrize("is_native", [True, False])
def test_eight_bit_product_equals_integer_arithmetic(
    rows: int, is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: scale so that the largest number is 127, round, multiply integers, scale back."""
    monkeypatch.setattr(cpu, "kernels", AVAILABLE._replace(native=is_native))
    torch.manual_seed(2)
    layer, x = torch.nn.Linear(32, 64), torch.randn(rows, 32) * torch.rand(rows, 1) * 10
    of_rows, of_outputs = x.abs().amax(1) / 127, layer.weight.abs().amax(1) / 127
    inputs = torch.floor(x.double() / of_rows.double().unsqueeze(1) + 0.5).long()
    weights = (layer.weight / of_outputs.unsqueeze(1)).round().long()
    expected = (inputs @ weights.t()) * of_rows.double().unsqueeze(1) * of_outputs.double() + layer.bias
    product = packed_product(layer.weight, layer.bias, "int8")
    assert product is not None
    found = product(x)
    # a number that lies between two integers, but for rounding, may fall to either: worth one weight
    assert (found - expected).abs().max() <= float((of_rows.max() * layer.weight.abs().max()) * 1.01)
    assert (found - layer(x)).abs().max() <= 0.02 * layer(x).abs().max()
    assert torch.equal(found, torch.cat([product(row.unsqueeze(0)) for row in x]))  # whatever the other rows
    torch.testing.assert_close(product(torch.zeros(3, 32)), layer.bias.expand(3, 64))


@given(st.integers(1, 5000))
@settings(max_examples=300)
def test_rows_are_padded_by_a_quarter_at_most(rows: int) -> None:
    cpu.kernels = AVAILABLE._replace(native=False)  # the fixture restores it
    padded = padded_rows(rows)
    assert rows <= padded <= max(rows + 7, rows * 1.25)
    assert padded_rows(padded) == padded
    assert padded % 8 == 0


@needs_packed
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}, {"activation": "swiglu", "norm": "post"}], ids=str)
def test_prepacked_model_equals_the_model(each_kernels: None, changes: dict[str, object], precision: Precision) -> None:
    model, packed = tiny_model(**changes), tiny_model(**changes)
    if not packed.prepack(precision):
        assert cpu.kernels.plain
        assert precision == "fp32"
    close = {"atol": 1e-5, "rtol": 1e-5} if precision == "fp32" else {"atol": 0.1, "rtol": 0.05}
    source, target = torch.randint(4, 90, (5, 7)), torch.randint(4, 90, (4, 5))
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[1, 4:] = mask[3, 1:] = False
    with torch.inference_mode():
        torch.testing.assert_close(packed.encode(source, mask)[mask], model.encode(source, mask)[mask], **close)
        decoded = model.logits(model.decode(target.t(), model.encode(source, mask), mask))[..., :90]  # (5, 4, V)
        state = packed.start(source, mask)
        for tokens, expected in zip(target, decoded.unbind(1), strict=True):
            torch.testing.assert_close(state.step(tokens)[:, :90].float(), expected, **close)
    layer = packed.encoder[0].feed_forward.inner
    with torch.no_grad():
        layer.weight.mul_(2)
    x = torch.randn(3, 64)  # with gradients, the current weights count
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


# dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.999999])
def test_dropout_has_the_expected_share_scale_and_independence(p: float) -> None:
    torch.manual_seed(1)
    count, rate = 400_000, min(255, round(p * 256)) / 256
    dropped = Dropout(p)(torch.ones(count))
    kept = dropped != 0
    # four standard deviations of a binomial share
    assert 1 - kept.float().mean().item() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / count) ** 0.5)
    assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - rate)))
    together = (~kept).float().view(-1, 8)  # one random draw gives the masks of eight values
    expected = torch.full((8, 8), rate**2).fill_diagonal_(rate)
    assert (together.t() @ together / len(together) - expected).abs().max().item() < 5 * 0.5 / len(together) ** 0.5


def test_gradient_of_dropout_equals_the_mask() -> None:
    torch.manual_seed(3)
    x = torch.randn(40, 13, dtype=torch.float64, requires_grad=True)
    dropped = Dropout(0.3)(x)
    direction = torch.randn_like(dropped)
    dropped.backward(direction)
    torch.testing.assert_close(x.grad, dropped.detach() / x.detach() * direction)
    assert Dropout(0.5).eval()(x) is Dropout(0.0)(x) is x
    for shape, dtype in (((7,), torch.bfloat16), ((3, 5, 11), torch.float32), ((2, 0, 3), torch.float32)):
        result = Dropout(0.5)(torch.ones(shape, dtype=dtype))
        assert (result.shape, result.dtype) == (shape, dtype)


# attention


def by_torch(
    queries: Tensor, memory: Tensor, packings: tuple[Packing, Packing], lengths: list[Tensor], causal: bool
) -> Tensor:
    """Attend within one sentence at a time, without padding."""
    to, of = packings
    found = []
    for query, key_value, count in zip(to.unpack(queries), of.unpack(memory), lengths, strict=True):
        for sentence, both, length in zip(query, key_value, count.tolist(), strict=True):
            keys, values = both[:length].chunk(2, dim=-1)
            q, k, v = (x.view(len(x), HEADS, -1).transpose(0, 1) for x in (sentence, keys, values))
            found.append(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1).flatten(1))
    return torch.cat(found)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(GROUP, min_size=1, max_size=3), st.booleans(), st.integers(0, 2**20))
def test_packed_attention_equals_torch_for_each_sentence(
    groups: list[tuple[int, int, int]], causal: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    if causal:
        groups = [(sentences, length, length) for sentences, length, _ in groups]
    to = Packing(tuple((b, t) for b, t, _ in groups), (None,) * len(groups))
    shapes = tuple((b, s) for b, _, s in groups)
    lengths = [torch.full((b,), s) if causal else torch.randint(1, s + 1, (b,)) for b, s in shapes]
    masks = [(torch.arange(s) < n[:, None])[:, None, None, :] for (_, s), n in zip(shapes, lengths, strict=True)]
    of = Packing(shapes, (None,) * len(groups) if causal else tuple(masks))
    queries = torch.randn(sum(b * t for b, t, _ in groups), DIM, requires_grad=True)
    memory = torch.randn(sum(b * s for b, s in shapes), 2 * DIM, requires_grad=True)
    doubles = [tensor.detach().double().requires_grad_() for tensor in (queries, memory)]
    found = packed_attention(queries, memory, (to, of), HEADS, causal)
    expected = by_torch(*doubles, (to, of), lengths, causal)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(found)
    found.backward(direction)
    expected.backward(direction.double())
    for ours, theirs in zip((queries, memory), doubles, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [cpu.MAX_ATTENTION_LENGTH, cpu.MAX_ATTENTION_LENGTH + 1])
def test_sentences_around_the_maximum_length_get_the_same_output(length: int) -> None:
    torch.manual_seed(3)
    attention = SelfAttention(ModelSettings(dim=DIM, heads=HEADS), causal=True)
    x = torch.randn(length, DIM)
    packing = Packing(((1, length),), (None,))
    expected = attention.double()(x.double(), packing)
    torch.testing.assert_close(attention.float()(x, packing).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_packed_attention_in_bf16_equals_fp32_up_to_rounding(causal: bool) -> None:
    torch.manual_seed(5)
    packing = Packing(((3, 9), (2, 4)), (None, None))
    queries, memory, direction = torch.randn(35, 2 * DIM), torch.randn(35, 4 * DIM), torch.randn(35, 2 * DIM)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        q, kv = (tensor.to(dtype, copy=True).requires_grad_() for tensor in (queries, memory))
        output = packed_attention(q, kv, (packing, packing), HEADS, causal)
        output.backward(direction.to(dtype))
        assert output.dtype == q.grad.dtype == kv.grad.dtype == dtype
        results.append([output.float(), q.grad.float(), kv.grad.float()])
    for in_fp32, in_bf16 in zip(*results, strict=True):
        torch.testing.assert_close(in_bf16, in_fp32, rtol=0.05, atol=0.1)
