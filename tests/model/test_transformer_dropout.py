"""Dropout inside attention and feed-forward layers: place, share, mean and gradient; only training has it."""

import pytest
import torch
from torch import Tensor

from nmt.config import ModelSettings
from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Kernels
from nmt.model.attention import SelfAttention
from nmt.model.transformer import FeedForward
from tests.builders import tiny_model
from tests.training.updates import CPU

P = 0.25  # which CPUs have exactly
SETTINGS = ModelSettings(dim=8, heads=2, feed_forward=16, dropout=0.0, attention_dropout=P, activation_dropout=P)
IDS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), None, torch.tensor([[2, 7, 8], [2, 9, 0]])
KINDS = pytest.mark.parametrize("kernels", [Kernels(CPU), CpuKernels(CPU)], ids=["plain", "CPU"])


@KINDS
def test_weights_of_attention_are_dropped_after_the_softmax(kernels: Kernels) -> None:
    """Values that are unit vectors give the weights."""
    module = SelfAttention(SETTINGS, causal=True)
    module.kernels = kernels
    keys_values = torch.randn(5, 2, 40, 40), torch.eye(40).expand(5, 2, 40, 40)
    plain = module.eval().by_definition(causal=True)(keys_values[0], keys_values, None)
    kernels.seed(7)
    dropped = module.train().by_definition(causal=True)(keys_values[0], keys_values, None)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], plain[kept] / (1 - P))
    share = kept[torch.ones(40, 40).tril().bool().expand_as(kept)].double()
    assert share.mean().item() == pytest.approx(1 - P, abs=4 * (P * (1 - P) / len(share)) ** 0.5)


@torch.no_grad()
@KINDS
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_the_mean_over_masks_is_the_output_without_dropout(kernels: Kernels, activation: str) -> None:
    """The output is linear in what is dropped, and each copy of a row has a mask of its own, a function of the seed."""
    module = FeedForward(SETTINGS.model_copy(update={"activation": activation}))
    module.kernels = kernels
    x = torch.randn(6, 8).repeat(2000, 1)

    def output(seed: int) -> Tensor:
        kernels.seed(seed)
        mapped: Tensor = module.train()(x)
        return mapped.view(2000, 6, 8)

    drawn = output(1)
    assert torch.equal(output(1), drawn)
    assert not torch.equal(output(2), drawn)
    error = drawn.std(0) / len(drawn) ** 0.5
    assert (error > 0).all()
    assert ((drawn.mean(0) - module.eval()(x[:6])).abs() < 5 * error).all()


def test_gradient_of_training_with_dropout_equals_differences() -> None:
    settings = {"dropout": 0.0, "attention_dropout": P, "activation_dropout": P, "activation": "swiglu", "dim": 4}
    model = tiny_model(2, 12, **settings, feed_forward=6, positions="relative", max_distance=1).double().train()
    names, weights = zip(*model.named_parameters(), strict=True)

    def states(*values: Tensor) -> Tensor:
        model.kernels.seed(11)
        output: Tensor = torch.func.functional_call(model, dict(zip(names, values, strict=True)), IDS)
        return output

    assert torch.autograd.gradcheck(states, weights, fast_mode=True)


def test_evaluation_has_no_dropout_and_the_weights_do_not_depend_on_it() -> None:
    plain, dropping = (tiny_model(2, 12, dropout=0.0, attention_dropout=p, activation_dropout=p) for p in (0.0, 0.5))
    assert torch.equal(plain(*IDS), dropping(*IDS))
    assert not torch.allclose(dropping.train()(*IDS), plain.train()(*IDS))
