"""The optimizer: AdamW by the formulas of its paper, and the weights without decay."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmt.config import ModelSettings, TrainSettings
from nmt.model.checkpoint import write_tensors
from nmt.model.transformer import Transformer
from nmt.training.optimizer import load_optimizer, make_optimizer, optimizer_tensors

CPU = torch.device("cpu")
SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8, positions="relative")
SETTINGS = TrainSettings(adam_betas=(0.8, 0.95), adam_epsilon=1e-6, weight_decay=0.3)


def transformer(seed: int = 1) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(SHAPE, 20, 20)


def set_gradients(model: Transformer, step: int) -> None:
    torch.manual_seed(step)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn_like(parameter)


def shrinks(name: str) -> bool:
    """Return by its name whether a weight decays, which the optimizer decides by its shape."""
    return name.endswith(".weight") and "norm" not in name


def test_optimizer_equals_adamw_of_the_paper() -> None:
    """Algorithm 2 of Loshchilov & Hutter 2019 in float64, one weight at a time."""
    model = transformer().double()
    optimizer = make_optimizer(model, SETTINGS, CPU)
    expected = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    first = {name: torch.zeros_like(weight) for name, weight in expected.items()}
    second = {name: torch.zeros_like(weight) for name, weight in expected.items()}
    for step in range(1, 6):
        rate = 0.1 / step
        set_gradients(model, step)
        for name, parameter in model.named_parameters():
            gradient = parameter.grad
            assert gradient is not None
            first[name] = 0.8 * first[name] + 0.2 * gradient
            second[name] = 0.95 * second[name] + 0.05 * gradient**2
            moved = first[name] / (1 - 0.8**step) / ((second[name] / (1 - 0.95**step)).sqrt() + 1e-6)
            decay = 0.3 if shrinks(name) else 0.0
            expected[name] = expected[name] - rate * (moved + decay * expected[name])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-9, atol=1e-12, msg=name)


def test_norms_biases_and_positions_have_no_weight_decay() -> None:
    model = transformer()
    optimizer = make_optimizer(model, SETTINGS, CPU)
    shrinking, others = ([id(weight) for weight in group["params"]] for group in optimizer.param_groups)
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert all(shrinks(names[i]) for i in shrinking)
    assert not any(shrinks(names[i]) for i in others)
    assert "source_embedding.positions.vectors" in [names[i] for i in others]
    assert "source_embedding.tokens.weight" in [names[i] for i in shrinking]
    assert sorted(shrinking + others) == sorted(names)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]


def test_optimizer_without_decay_equals_adam() -> None:
    ours, plain = transformer(), transformer()
    settings = TrainSettings(adam_betas=(0.8, 0.95), adam_epsilon=1e-6)
    optimizers = [
        make_optimizer(ours, settings, CPU),
        torch.optim.Adam(plain.parameters(), lr=0.0, betas=(0.8, 0.95), eps=1e-6, fused=True),
    ]
    for step in range(1, 5):
        for model, optimizer in zip((ours, plain), optimizers, strict=True):
            set_gradients(model, step)
            for group in optimizer.param_groups:
                group["lr"] = 0.01
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("frozen", [False, True])
def test_loaded_optimizer_continues_bit_for_bit(tmp_path: Path, frozen: bool) -> None:
    def begin() -> tuple[Transformer, torch.optim.AdamW]:
        model = transformer()
        model.encoder.requires_grad_(not frozen)
        return model, make_optimizer(model, SETTINGS, CPU)

    def step(model: Transformer, optimizer: torch.optim.AdamW, number: int) -> None:
        set_gradients(model, number)
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.step()

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
    a: list[Tensor] = list(whole[0].parameters())
    assert all(torch.equal(x, y) for x, y in zip(a, resumed[0].parameters(), strict=True))
