"""The optimizer: AdamW by the formulas of its paper, the weights without decay, moments on disk."""

from pathlib import Path

import pytest
import torch

from nmt.config import ModelSettings, TrainSettings
from nmt.model.checkpoint import write_tensors
from nmt.model.transformer import Transformer
from nmt.training.optimizer import load_optimizer, make_optimizer, optimizer_tensors

CPU = torch.device("cpu")
SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8)
SETTINGS = TrainSettings(adam_betas=(0.8, 0.95), weight_decay=0.3)


def transformer() -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE, 20, 20)


def step(model: Transformer, optimizer: torch.optim.AdamW, number: int, rate: float = 0.01) -> None:
    torch.manual_seed(number)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


def test_optimizer_equals_adamw_of_the_paper() -> None:
    """Algorithm 2 of Loshchilov & Hutter 2019 in float64, one weight at a time; norms and biases do not decay."""
    model = transformer().double()
    optimizer = make_optimizer(model, SETTINGS, CPU)
    expected = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    first, second = ({name: torch.zeros_like(weight) for name, weight in expected.items()} for _ in range(2))
    for number in range(1, 6):
        rate = 0.1 / number
        step(model, optimizer, number, rate)
        for name, parameter in model.named_parameters():
            gradient = parameter.grad
            assert gradient is not None
            first[name] = 0.8 * first[name] + 0.2 * gradient
            second[name] = 0.95 * second[name] + 0.05 * gradient**2
            moved = first[name] / (1 - 0.8**number) / ((second[name] / (1 - 0.95**number)).sqrt() + 1e-9)
            decay = 0.3 if name.endswith(".weight") and "norm" not in name else 0.0
            expected[name] = expected[name] - rate * (moved + decay * expected[name])
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("frozen", [False, True])
def test_loaded_optimizer_continues_bit_for_bit(tmp_path: Path, frozen: bool) -> None:
    def begin() -> tuple[Transformer, torch.optim.AdamW]:
        model = transformer()
        model.encoder.requires_grad_(not frozen)
        return model, make_optimizer(model, SETTINGS, CPU)

    whole, stopped, resumed = begin(), begin(), begin()
    for number in range(1, 7):
        step(*whole, number)
    for number in range(1, 4):
        step(*stopped, number)
    tensors = optimizer_tensors(stopped[1], stopped[0])
    learning = [name for name, weight in stopped[0].named_parameters() if weight.requires_grad]
    assert tensors.keys() == {f"{moment}/{name}" for name in learning for moment in ("exp_avg", "exp_avg_sq")}
    write_tensors(tensors, tmp_path / "moments")
    resumed[0].load_state_dict(stopped[0].state_dict())
    load_optimizer(resumed[1], resumed[0], tmp_path / "moments", 3)
    for number in range(4, 7):
        step(*resumed, number)
    assert all(torch.equal(x, y) for x, y in zip(whole[0].parameters(), resumed[0].parameters(), strict=True))
