"""The Triton kernels against formulas in plain torch; on a CPU in Triton's interpreter."""

import os
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

from nmt.kernels import triton_attention, triton_loss, triton_rows
from nmt.kernels.reference import PLAIN
from nmt.kernels.triton_attention import TILE, attend
from nmt.text.tokenizer import PAD

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [torch.float32, torch.bfloat16]
# the interpreter multiplies no matrices of bfloat16
PRODUCT_DTYPES = [torch.float32, torch.bfloat16 if torch.cuda.is_available() else torch.float16]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def assert_near(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Compare with a result in float64; errors are relative to the largest number of the matrix."""
    actual, expected = actual.detach().double(), expected.detach().double()
    largest = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[dtype] * largest)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


# attention


@dataclass
class Rows:
    """One side of a batch: sentences of these lengths, the n-th of them in tile `tile_of[n]`."""

    lengths: list[int]
    tile_of: list[int]
    empty_tiles: int = 0

    def __post_init__(self) -> None:
        self.longest = max(self.lengths)
        self.longest_tiles = max(1, -(-self.longest // TILE))
        self.sentences = torch.arange(len(self.lengths)).repeat_interleave(torch.tensor(self.lengths))
        self.sentences = self.sentences.to(DEVICE, torch.int32)
        rows = [0] * (max(self.tile_of) + 1)
        for length, tile in zip(self.lengths, self.tile_of, strict=True):
            rows[tile] += length
        firsts = torch.tensor([0, *rows, *[0] * self.empty_tiles]).cumsum(0)
        self.tiles = firsts.to(DEVICE, torch.int32)


def sides(queries: list[int], keys: list[int], empty_tiles: int = 0) -> tuple[Rows, Rows]:
    """Put sentences into tiles as long as both sides fit."""
    tile_of, tile, sums = [], 0, [0, 0]
    for lengths in zip(queries, keys, strict=True):
        sums = [a + b for a, b in zip(sums, lengths, strict=True)]
        if max(sums) > TILE and sums != list(lengths):
            tile, sums = tile + 1, list(lengths)
        tile_of.append(tile)
    return Rows(queries, tile_of, empty_tiles), Rows(keys, tile_of, empty_tiles)


def formula(q: Tensor, k: Tensor, v: Tensor, rows: tuple[Rows, Rows], heads: int, causal: bool) -> Tensor:
    """Attention by its definition: all rows at once, with a mask."""
    attends = rows[0].sentences[:, None] == rows[1].sentences[None, :]
    if causal:
        attends = attends.tril()
    q, k, v = (x.unflatten(1, (heads, -1)).transpose(0, 1) for x in (q, k, v))
    scores = (q @ k.transpose(1, 2) / q.size(2) ** 0.5).masked_fill(~attends, -torch.inf)
    weights = torch.where(attends.any(1)[:, None], scores, 0.0).softmax(2) * attends
    return (weights @ v).transpose(0, 1).flatten(1)


def results(parts: list[Tensor], gradient: Tensor, rows: tuple[Rows, Rows], heads: int, causal: bool) -> list[Tensor]:
    """Return the output and the gradients of the kernels; `parts` are queries and perhaps keys and values."""
    leaves = [part.clone().requires_grad_() for part in parts]
    output = attend(leaves[0], leaves[1] if len(leaves) == 2 else None, *rows, heads, causal)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient)]


def expected_results(
    parts: list[Tensor], gradient: Tensor, rows: tuple[Rows, Rows], heads: int, causal: bool
) -> list[Tensor]:
    leaves = [part.double().requires_grad_() for part in parts]
    qkv = leaves[0].chunk(3, 1) if len(leaves) == 1 else (leaves[0], *leaves[1].chunk(2, 1))
    output = formula(*qkv, rows, heads, causal)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient.double())]


LENGTHS = [
    ([5, 9, 3], [4, 1, 12]),  # one tile
    ([1], [1]),
    ([63, 64, 1, 2], [64, 3, 1, 40]),  # full tiles
    ([65, 7, 130], [7, 65, 20]),  # sentences of several blocks, on one side and on the other
    ([0, 6, 0, 2], [3, 0, 0, 2]),  # sentences without rows on a side
    ([70], [0]),  # no keys at all
    ([0], [70]),
]


def check_attention(lengths: tuple[list[int], list[int]], heads: int, width: int, dtype: torch.dtype) -> None:
    rows, dim = sides(*lengths, empty_tiles=1), width * heads
    n, m = map(sum, lengths)
    cases = [
        ([random(n, 3 * dim, dtype=dtype)], (rows[0], rows[0]), False),
        ([random(n, 3 * dim, dtype=dtype)], (rows[0], rows[0]), True),
        ([random(n, dim, dtype=dtype), random(m, 2 * dim, dtype=dtype)], rows, False),
    ]
    for parts, attended, causal in cases:
        gradient = random(n, dim, dtype=dtype)
        actual = results(parts, gradient, attended, heads, causal)
        expected = expected_results(parts, gradient, attended, heads, causal)
        for one, other in zip(actual, expected, strict=True):
            assert one.dtype == dtype
            assert_near(one, other, dtype)


@pytest.mark.parametrize(
    ("lengths", "dtype"),
    [*((lengths, torch.float32) for lengths in LENGTHS), *((lengths, PRODUCT_DTYPES[1]) for lengths in LENGTHS[:4:3])],
)
def test_attention_is_the_formula(lengths: tuple[list[int], list[int]], dtype: torch.dtype) -> None:
    check_attention(lengths, 1, 16, dtype)


@pytest.mark.parametrize(("heads", "width"), [(2, 8), (1, 24), (1, 130)])
def test_attention_of_heads_of_any_width(heads: int, width: int) -> None:
    check_attention(([5, 66], [4, 2]), heads, width, torch.float32)


@pytest.mark.parametrize("dtype", PRODUCT_DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_one_kernel_are_those_of_two(
    monkeypatch: pytest.MonkeyPatch, causal: bool, dtype: torch.dtype
) -> None:
    target, source = sides([9, 20, 40, 0], [12, 30, 9, 3], empty_tiles=1)
    gradient = random(len(target.sentences), 16, dtype=dtype)
    if causal:
        parts, rows = [random(len(target.sentences), 48, dtype=dtype)], (target, target)
    else:
        parts = [random(len(target.sentences), 16, dtype=dtype), random(len(source.sentences), 32, dtype=dtype)]
        rows = target, source
    one = results(parts, gradient, rows, 1, causal)
    again = results(parts, gradient, rows, 1, causal)
    monkeypatch.setattr(triton_attention, "FUSED", False)
    two = results(parts, gradient, rows, 1, causal)
    two_again = results(parts, gradient, rows, 1, causal)
    for a, b, c, d in zip(one, again, two, two_again, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(c, d)
        assert_near(a, c, dtype)


def test_attention_reads_column_ranges_and_any_gradient() -> None:
    target, source = sides([5, 9], [4, 12])
    wide, gradient = random(14, 64), random(16, 14).t()
    parts = [wide[:, 8:24].detach(), random(16, 48)[:, 16:].detach()]
    queries, keys_values = (part.requires_grad_() for part in parts)
    output = attend(queries, keys_values, target, source, 2, False)
    actual = [output, *torch.autograd.grad(output, parts, gradient)]
    for one, other in zip(actual, expected_results(parts, gradient, (target, source), 2, False), strict=True):
        assert_near(one, other, torch.float32)


# residual connection and layer norm


def place(p: float, seed: int = 5, site: int = 3) -> triton_rows.Dropout:
    return triton_rows.Dropout(p, torch.tensor([seed], device=DEVICE), site)


def layer_norm(width: int) -> torch.nn.LayerNorm:
    norm = torch.nn.LayerNorm(width, eps=1e-2, device=DEVICE)
    with torch.no_grad():
        norm.weight.copy_(random(width))
        norm.bias.copy_(random(width))
    return norm


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (37, 24), (5, 512), (0, 16)])
def test_add_norm_and_its_gradients(rows: int, width: int, p: float, dtype: torch.dtype) -> None:
    norm, dropout = layer_norm(width), place(p)
    x, y = (3 * random(rows, width) + 1).requires_grad_(), random(rows, width, dtype=dtype).requires_grad_()
    leaves = [x, y, norm.weight, norm.bias]
    z, normalized = triton_rows.add_norm((x, y), norm, dropout, dtype)
    kept = (z - x != 0).double() if p else torch.ones_like(x, dtype=torch.float64)
    residual, gradient = random(rows, width), random(rows, width, dtype=dtype)
    actual = torch.autograd.grad([z, normalized], leaves, [residual, gradient])
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected_z = exact[0] + exact[1] * kept / (1 - p)
    expected_norm = torch.nn.functional.layer_norm(expected_z, (width,), exact[2], exact[3], norm.eps)
    expected = torch.autograd.grad([expected_z, expected_norm], exact, [residual.double(), gradient.double()])
    assert normalized.dtype == dtype
    assert_near(z, expected_z, torch.float32)
    assert_near(normalized, expected_norm, dtype)
    for one, other, leaf in zip(actual, expected, leaves, strict=True):
        assert_near(one, other, leaf.dtype)


def test_add_norm_adds_its_gradients_to_those_of_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_rows, "NORM_PROGRAMS", 2)  # each of them has several blocks of rows
    monkeypatch.setattr(triton_rows, "NORM_NUMBERS", 64)
    norm, x, gradient = layer_norm(16), random(23, 16).requires_grad_(), random(23, 16)
    leaves = [x, norm.weight, norm.bias]
    once = torch.autograd.grad(triton_rows.add_norm((x, None), norm, place(0.0), torch.float32)[1], leaves, gradient)
    expected = torch.autograd.grad(norm(x), leaves, gradient)
    for leaf in leaves:
        leaf.grad = torch.ones_like(leaf)
    triton_rows.add_norm((x, None), norm, place(0.0), torch.float32)[1].backward(gradient)
    for leaf, one, other in zip(leaves, once, expected, strict=True):
        assert_near(one, other, torch.float32)
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, 1 + one)


# dropout


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.75])
def test_dropout_scales_what_it_keeps_and_its_gradient_alike(p: float, dtype: torch.dtype) -> None:
    y, gradient = random(130, 33, dtype=dtype).requires_grad_(), random(130, 33, dtype=dtype)
    mask = triton_rows.dropout(torch.ones(130, 33, device=DEVICE), place(p))
    assert set(mask.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - p)).item()}
    assert mask.mean().item() == pytest.approx(1, abs=0.1)
    dropped = triton_rows.dropout(y, place(p))
    torch.testing.assert_close(dropped, (y.float() * mask).to(dtype))
    (y_gradient,) = torch.autograd.grad(dropped, y, gradient)
    torch.testing.assert_close(y_gradient, (gradient.float() * mask).to(dtype))


def test_dropout_depends_on_seed_and_site_and_element() -> None:
    ones = torch.ones(5000, device=DEVICE)
    places = [place(0.5, number, site) for number, site in [(1, 1), (1, 2), (2, 1), (2**40, 1)]]
    masks = [triton_rows.dropout(ones, each) > 0 for each in places]
    assert torch.equal(masks[0][:1234], triton_rows.dropout(ones[:1234], places[0]) > 0)
    for n, mask in enumerate(masks):
        for other in masks[:n]:
            assert (mask == other).float().mean().item() == pytest.approx(0.5, abs=0.05)
    numbers = masks[0][:4096].view(1024, 4).unbind(1)  # the four of one call of the generator
    for n, number in enumerate(numbers):
        for other in numbers[:n]:
            assert (number == other).float().mean().item() == pytest.approx(0.5, abs=0.1)


# sums over rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (70, 200), (0, 8)])
def test_gradient_of_relu_and_bias(monkeypatch: pytest.MonkeyPatch, rows: int, width: int, dtype: torch.dtype) -> None:
    monkeypatch.setattr(triton_rows, "SUM_PROGRAMS", 4)  # some programs have several blocks of rows
    gradient, output = random(rows, width, dtype=dtype), random(rows, width, dtype=dtype).relu()
    bias = torch.nn.Parameter(torch.zeros(width, device=DEVICE))
    masked, of_bias = triton_rows.relu_bias_gradients(gradient, bias, output)
    expected = gradient * (output > 0)
    assert torch.equal(masked, expected)
    assert of_bias is not None
    assert_near(of_bias, expected.double().sum(0), torch.float32)
    same, sums = triton_rows.relu_bias_gradients(gradient, bias)
    assert same is gradient
    assert sums is not None
    assert_near(sums, gradient.double().sum(0), torch.float32)
    bias.grad = torch.ones_like(bias)
    assert triton_rows.relu_bias_gradients(gradient, bias)[1] is None
    assert torch.equal(bias.grad, 1 + sums)


# rotary positions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "heads", "width"), [(1, 1, 2), (37, 3, 16), (9, 2, 130), (0, 2, 8)])
def test_rotation_and_its_gradient_are_those_of_plain_torch(
    rows: int, heads: int, width: int, dtype: torch.dtype
) -> None:
    projected = random(rows, 3 * heads * width, dtype=dtype).requires_grad_()
    positions = torch.randint(0, 500, (rows,), dtype=torch.int32, device=DEVICE)
    gradient = random(rows, 3 * heads * width, dtype=dtype)
    exact = projected.detach().double().requires_grad_()
    rotated, expected = triton_rows.rotate(projected * 1, heads, positions), PLAIN.rotate(exact, heads, positions)
    assert rotated.dtype == dtype
    assert_near(rotated, expected, dtype)
    (found,) = torch.autograd.grad(rotated, projected, gradient.clone())
    assert_near(found, torch.autograd.grad(expected, exact, gradient.double())[0], dtype)


# the loss


def expected_loss(logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    likelihoods = logits[:, :vocabulary].log_softmax(1)
    counted = labels != PAD
    q = torch.full_like(likelihoods, smoothing / (vocabulary - 2))
    q[:, PAD] = 0
    q[torch.arange(len(labels)), labels.long()] = 1 - smoothing
    return -(q * likelihoods)[counted].sum(), -likelihoods.gather(1, labels.long()[:, None])[counted].sum()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("vocabulary", "width"), [(7, 8), (100, 100), (130, 192)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient(
    monkeypatch: pytest.MonkeyPatch, vocabulary: int, width: int, smoothing: float, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(triton_loss, "LOSS_BLOCK", 64)  # several blocks of columns
    logits = (5 * random(6, width)).to(dtype)
    labels = torch.tensor([1, PAD, vocabulary - 1, 3, PAD, 2], dtype=torch.int32, device=DEVICE)
    exact = logits.double().requires_grad_()
    loss, likelihood = expected_loss(exact, labels, smoothing, vocabulary)
    loss.backward()
    sums = triton_loss.loss_and_gradient(logits, labels, smoothing, vocabulary)
    assert_near(torch.stack(sums), torch.stack([loss, likelihood]).detach(), torch.float32)
    assert exact.grad is not None
    assert_near(logits, exact.grad, dtype)
    assert not logits[:, vocabulary:].any()
    assert not logits[labels == PAD].any()


def test_loss_without_rows_is_zero() -> None:
    labels = torch.zeros(0, dtype=torch.int32, device=DEVICE)
    assert [float(part) for part in triton_loss.loss_and_gradient(random(0, 8), labels, 0.1, 8)] == [0, 0]
