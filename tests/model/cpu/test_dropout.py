"""Dropout by byte masks: its distribution, its gradient, and where the model applies it."""

import pytest
import torch
from torch import nn

from nmt.config import ModelSettings
from nmt.model.cpu import CPUKernels
from nmt.model.kernels import Dropout
from nmt.model.transformer import Transformer


@pytest.fixture(autouse=True)
def cpu_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.kernels.kernels", CPUKernels())


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_dropout_has_the_expected_share_scale_mean_and_variance(p: float) -> None:
    torch.manual_seed(1)
    count, rate = 400_000, round(p * 256) / 256
    dropped = Dropout(p)(torch.ones(count))
    kept = dropped != 0
    # four standard deviations of a binomial share
    assert 1 - kept.float().mean().item() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / count) ** 0.5)
    assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - rate)))
    deviation = (rate / (1 - rate)) ** 0.5
    assert dropped.mean().item() == pytest.approx(1, abs=4 * deviation / count**0.5)
    assert dropped.var().item() == pytest.approx(deviation**2, rel=0.03)


def test_masks_of_neighbouring_values_are_independent() -> None:
    """One random draw gives the masks of eight values."""
    torch.manual_seed(2)
    rate = 128 / 256
    dropped = (Dropout(0.5)(torch.ones(80_000)) == 0).float().view(-1, 8)
    both = dropped.t() @ dropped / len(dropped)
    expected = torch.full((8, 8), rate**2).fill_diagonal_(rate)
    assert (both - expected).abs().max().item() < 5 * 0.5 / len(dropped) ** 0.5


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5, 11), (0,), (2, 0, 3)])
def test_dropout_keeps_the_shape(shape: tuple[int, ...]) -> None:
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_gradient_equals_the_mask() -> None:
    torch.manual_seed(3)
    x = torch.randn(40, 13, dtype=torch.float64, requires_grad=True)
    dropped = Dropout(0.3)(x)
    direction = torch.randn_like(dropped)
    dropped.backward(direction)
    mask = dropped.detach() / x.detach()
    torch.testing.assert_close(x.grad, mask * direction)
    assert (mask == 0).any()


def test_gradient_equals_finite_differences() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)
        return Dropout(0.4)(x * x)

    assert torch.autograd.gradcheck(function, torch.randn(5, 6, dtype=torch.float64, requires_grad=True))


def test_evaluation_mode_and_probability_zero_return_the_input() -> None:
    x = torch.randn(4, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("p", [0.997, 0.999, 0.999999])
def test_extreme_probabilities_give_finite_values(p: float) -> None:
    torch.manual_seed(5)
    dropped = Dropout(p)(torch.ones(100_000))
    assert torch.isfinite(dropped).all()
    assert 0 < (dropped != 0).float().mean().item() < 0.01


def test_same_seed_gives_the_same_mask() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Dropout(0.5)(torch.ones(1000))

    assert torch.equal(draw(6), draw(6))
    assert not torch.equal(draw(6), draw(7))


def test_dropout_keeps_bf16() -> None:
    dropped = Dropout(0.1)(torch.ones(64, dtype=torch.bfloat16))
    assert dropped.dtype == torch.bfloat16


def test_dropout_reaches_its_modules() -> None:
    chosen = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8, dropout=0.25)
    model = Transformer(chosen, 11, 11)
    # two embeddings, two sublayers in the encoder layer, three in the decoder layer
    assert [module.p for module in model.modules() if isinstance(module, nn.Dropout)] == [0.25] * 7


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_dropout_is_inactive_in_evaluation_mode(positions: str) -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": 8, "heads": 2, "feed_forward": 8, "dropout": 0.5}
    model = Transformer(ModelSettings.model_validate({**shape, "positions": positions}), 11, 11)
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 5, 6, 7]])
    with torch.no_grad():
        assert not torch.equal(model([source], [None], [target]), model([source], [None], [target]))
        model.eval()
        assert torch.equal(model([source], [None], [target]), model([source], [None], [target]))
