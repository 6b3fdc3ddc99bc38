"""The moving average of the weights equals its definition in float64."""

import pytest
import torch

from nmt.config import ModelSettings
from nmt.model.transformer import Transformer
from nmt.training.optimizer import start_average, update_average

SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8)


def transformer() -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE, 20, 20)


@pytest.mark.parametrize("decay", [0.3, 0.9])
def test_moving_average_equals_its_definition(decay: float) -> None:
    """After t steps w_k has the coefficient (1 - d_k) · d_{k+1} · … · d_t, and w_0 the remainder to 1."""
    model = transformer()
    average = start_average(model)
    history = [[parameter.detach().double() for parameter in model.parameters()]]
    decays = [min(decay, (1 + step) / (10 + step)) for step in range(1, 41)]
    assert (decays[0], decays[-1]) == (2 / 11, min(decay, 41 / 50))
    for step in range(1, 41):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        history.append([parameter.detach().double() for parameter in model.parameters()])
        update_average(average, model, decay, step)
    counts = [1.0]
    for d in decays:
        counts = [count * d for count in counts] + [1 - d]
    assert sum(counts) == pytest.approx(1)
    for index, parameter in enumerate(average.parameters()):
        expected = sum(count * weights[index] for count, weights in zip(counts, history, strict=True))
        torch.testing.assert_close(parameter.double(), expected, rtol=1e-5, atol=1e-6)


def test_moving_average_shares_no_weight_with_the_model() -> None:
    model = transformer()
    model.encoder.requires_grad_(False)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    average = start_average(model)
    with torch.no_grad():
        for parameter in average.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())
    assert {parameter.requires_grad for parameter in average.parameters()} == {False}
    assert average.output.weight is average.source_embedding.tokens.weight


def test_moving_average_of_constant_weights_is_constant() -> None:
    model = transformer()
    average = start_average(model)
    for step in range(1, 10):
        update_average(average, model, 0.9, step)
    assert all(torch.equal(a, b) for a, b in zip(average.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("operator", ["_foreach_sub", "_foreach_mul_", "_foreach_add_"])
@pytest.mark.parametrize("applied", [None, torch.tensor(1.0), torch.tensor(0.0)])
def test_missing_operator_is_replaced_by_a_loop_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, operator: str, applied: torch.Tensor | None
) -> None:
    model = transformer()
    averages = [start_average(model) for _ in range(2)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    update_average(averages[0], model, 0.9, 3, applied)
    monkeypatch.delattr(torch, operator)
    update_average(averages[1], model, 0.9, 3, applied)
    assert all(torch.equal(a, b) for a, b in zip(averages[0].parameters(), averages[1].parameters(), strict=True))
    start = start_average(transformer())
    changed = any(not torch.equal(a, b) for a, b in zip(averages[1].parameters(), start.parameters(), strict=True))
    assert changed == (applied is None or bool(applied))
