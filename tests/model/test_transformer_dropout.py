"""Dropout inside attention and feed-forward layers: its share, its mean, its gradient, and that only training has it.

S source length, D width, H heads, d = D/H.
"""

import pytest
import torch
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.config import ModelSettings
from nmt.kernels import Kernels
from nmt.kernels.cpu import CpuKernels
from nmt.model.attention import SelfAttention
from nmt.model.transformer import FeedForward
from tests.builders import tiny_model
from tests.training.updates import ALL

P = 0.25  # which CPUs, too, have exactly
SETTINGS = ModelSettings(dim=8, heads=2, feed_forward=16, dropout=0.0, attention_dropout=P, activation_dropout=P)
KINDS = [Kernels(torch.device("cpu")), CpuKernels(torch.device("cpu"))]


@pytest.mark.parametrize("kernels", KINDS, ids=lambda kernels: type(kernels).__name__)
@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_weights_of_attention_are_dropped_after_the_softmax(kernels: Kernels, positions: str) -> None:
    """Values that are unit vectors give the weights."""
    torch.manual_seed(3)
    module = SelfAttention(SETTINGS.model_copy(update={"positions": positions, "max_distance": 1}), causal=True)
    module.kernels = kernels
    q, k, v = torch.randn(5, 2, 40, 40), torch.randn(5, 2, 40, 40), torch.eye(40).expand(5, 2, 40, 40)
    if module.score is not None:
        module.score = type(module.score)(40, 1, causal=True)
        torch.nn.init.zeros_(module.score.value_vectors)
    plain = module.eval().by_score(causal=True)(q, (k, v), None)
    kernels.seed(7)
    dropped = module.train().by_score(causal=True)(q, (k, v), None)
    visible = torch.ones(40, 40).tril().bool().expand_as(plain)
    kept = dropped[visible] != 0
    torch.testing.assert_close(dropped[visible][kept], plain[visible][kept] / (1 - P))
    assert kept.double().mean().item() == pytest.approx(1 - P, abs=4 * (P * (1 - P) / visible.sum().item()) ** 0.5)
    assert not dropped[~visible].any()


@torch.no_grad()
@pytest.mark.parametrize("kernels", KINDS, ids=lambda kernels: type(kernels).__name__)
@pytest.mark.parametrize("kind", ["attention", "relu", "gelu", "swiglu"])
def test_the_mean_over_masks_is_the_output_without_dropout(kernels: Kernels, kind: str) -> None:
    """The output is linear in what is dropped. Copies of the sentences have masks of their own."""
    torch.manual_seed(5)
    rows, x = Rows.of([[4, 5, 6], [7, 8], [9]] * 2000), torch.randn(6, 8).repeat(2000, 1)
    attention = SelfAttention(SETTINGS, causal=False)
    feed_forward = FeedForward(SETTINGS.model_copy(update={"activation": "relu" if kind == "attention" else kind}))
    for module in (*attention.modules(), *feed_forward.modules()):
        if hasattr(module, "kernels"):
            module.kernels = kernels  # type: ignore[assignment]

    def output(seed: int, training: bool = True) -> Tensor:
        kernels.seed(seed)
        is_attention = kind == "attention"
        mapped = attention.train(training)(x, rows) if is_attention else feed_forward.train(training)(x)
        return mapped.view(2000, 6, 8)

    drawn = output(1)
    assert torch.equal(output(1), drawn)
    assert not torch.equal(output(2), drawn)
    error = drawn.std(0) / len(drawn) ** 0.5
    assert (error > 0).all()
    assert ((drawn.mean(0) - output(0, training=False)[0]).abs() < 5 * error).all()


def test_gradient_of_training_with_dropout_equals_differences() -> None:
    settings = {"dropout": 0.0, "attention_dropout": P, "activation_dropout": P, "activation": "swiglu", "dim": 4}
    model = tiny_model(2, 12, **settings, feed_forward=6, positions="relative", max_distance=1).double().train()
    model.compute_with(KINDS[1])
    names, weights = zip(*model.named_parameters(), strict=True)

    def states(*values: Tensor) -> Tensor:
        KINDS[1].seed(11)
        output: Tensor = torch.func.functional_call(model, dict(zip(names, values, strict=True)), (ALL,))
        return output

    assert torch.autograd.gradcheck(states, weights, fast_mode=True)


def test_evaluation_has_no_dropout_and_the_weights_do_not_depend_on_it() -> None:
    plain, dropping = (tiny_model(2, 12, dropout=0.0, attention_dropout=p, activation_dropout=p) for p in (0.0, 0.5))
    assert torch.equal(plain(ALL), dropping(ALL))
    assert torch.equal(plain.train()(ALL), dropping(ALL))
    assert not torch.allclose(dropping.train()(ALL), plain(ALL))
