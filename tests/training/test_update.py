"""One update: accumulation equals one batch, Adam by its formulas, clipping, flat weights, results read later."""

import math
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Kernels
from nmt.text.tokenizer import BOS, EOS
from nmt.training.optimizer import load_optimizer, optimizer_tensors
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import (
    ALL,
    PAIRS,
    VOCABULARY,
    difference,
    make_updater,
    pretend_to_be_one_of_two_ranks,
    same,
    state,
    update,
)

# Adam does not turn a rounding error of a gradient near zero into a whole step.
LARGE_EPSILON = 1e-3
BAD = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("parts", [[[0], [1], [2], [3], [4]], [[4, 3, 2, 1], [0]]])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_accumulated_batches_equal_one_batch(parts: list[list[int]], clip_norm: float | None) -> None:
    whole, cut = (make_updater(tiny_recipe(clip_norm=clip_norm, adam_epsilon=LARGE_EPSILON)) for _ in range(2))
    batches = [batch_of([PAIRS[i] for i in part]) for part in parts]
    for step in (1, 2, 3):
        assert update(cut, step, *batches).results() == pytest.approx(update(whole, step).results(), rel=1e-4)
    assert difference(whole, cut) < 1e-5


@pytest.fixture(params=[False, True], ids=["step in plain torch", "fused step"])
def fused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the optimizer itself divides gradients and skips updates."""
    monkeypatch.setattr(CpuKernels, "fuses_step", request.param)
    return bool(request.param)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("clip_norm", [0.5, 1e6, None])
def test_updates_equal_adam_on_the_mean_loss_per_token(clip_norm: float | None) -> None:
    """Written out a sentence at a time in float64, with algorithm 1 of Kingma & Ba 2015.

    A norm below `clip_norm` leaves the gradient as it is.
    """
    beta1, beta2 = 0.8, 0.95
    adam = {"adam_beta1": beta1, "adam_beta2": beta2, "adam_epsilon": LARGE_EPSILON}
    chosen = tiny_recipe(clip_norm=clip_norm, label_smoothing=0.2, **adam)
    ours, reference = make_updater(chosen), make_updater(chosen, double=True).model
    parameters = list(reference.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    batches = [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])]
    for step in range(1, 6):
        losses = []
        for source, target in PAIRS:
            logits = reference(torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *target]]))
            log_probs = logits[0].log_softmax(1)
            q = F.one_hot(torch.tensor([*target, EOS]), VOCABULARY) * 0.8
            q[:, 1:] += (q[:, 1:] == 0) * 0.2 / (VOCABULARY - 2)
            losses.append(-(q * log_probs).sum())
        gradients = torch.autograd.grad(torch.stack(losses).sum() / 20, parameters)
        norm = math.sqrt(sum(gradient.pow(2).sum().item() for gradient in gradients))
        assert norm > 0.5, "the smallest clip_norm has an effect"
        assert update(ours, step, *batches).results()[2] == pytest.approx(norm, rel=1e-5)
        with torch.no_grad():
            for i, gradient in enumerate(gradients):
                clipped = gradient * min(1.0, (clip_norm or math.inf) / norm)
                first[i] = beta1 * first[i] + (1 - beta1) * clipped
                second[i] = beta2 * second[i] + (1 - beta2) * clipped**2
                denominator = (second[i] / (1 - beta2**step)).sqrt() + LARGE_EPSILON
                parameters[i] -= 0.01 * first[i] / (1 - beta1**step) / denominator
    for weight, expected in zip(ours.model.parameters(), parameters, strict=True):
        torch.testing.assert_close(weight.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("key", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropout_depends_on_seed_step_rank_and_batch_only(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of two ranks have four different masks."""

    def loss(step: int, batches: int = 1, rank: int = 0, noise: int = 1) -> float:
        recipe = tiny_recipe()
        updater = make_updater(recipe.model_copy(update={"model": recipe.model.model_copy(update={key: 0.3})}))
        pretend_to_be_one_of_two_ranks(monkeypatch, rank)
        torch.manual_seed(noise)
        return update(updater, step, *[ALL] * batches).results()[0]

    assert loss(1, noise=1) == loss(1, noise=2)
    assert loss(1) != loss(2)
    first = [loss(1, rank=rank) for rank in (0, 1)]
    losses = [*first, *(loss(1, 2, rank) - first[rank] for rank in (0, 1))]
    assert len({round(one, 3) for one in losses}) == 4


@pytest.mark.parametrize(("key", "recorded"), [("attention_dropout", False), ("activation_dropout", True)])
def test_updates_whose_shapes_vary_are_not_recorded(key: str, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = list[object]()  # whether a function may be recorded
    monkeypatch.setattr(CpuKernels, "recorded", lambda *arguments: recordings.append(arguments[-1]))
    recipe = tiny_recipe()
    make_updater(recipe.model_copy(update={"model": recipe.model.model_copy(update={key: 0.1})}))
    assert recordings == [recorded]


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_non_finite_update_changes_nothing(value: float, where: str) -> None:
    """Also not the step count of Adam: the updates afterwards are as if it had not been."""
    spoiled, plain = (make_updater(tiny_recipe(dropout=0.1)) for _ in range(2))
    loss, factor = spoiled.model.loss, [1.0]

    def spoiled_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
        found, nll = loss(*arguments)
        # of an infinite loss the gradient stays finite
        return (found + factor[0] - 1 if where == "loss" else found), nll

    spoiled.model.encoder_norm.weight.register_hook(lambda g: g * (factor[0] if where == "gradient" else 1.0))
    spoiled.model.loss = spoiled_loss  # type: ignore[method-assign]
    for step in (1, 2, 3, 4):
        factor[0] = value if step in (1, 3) else 1.0
        found, _, norm = update(spoiled, step).results()
        assert math.isfinite(found + norm) == (step not in (1, 3))
        if step in (2, 4):
            update(plain, step)
            assert same(state(spoiled), state(plain))


def test_weights_are_views_of_one_tensor_and_keep_their_moments_by_name(tmp_path: Path) -> None:
    """Also where others are frozen; moments are then loaded into another updater."""
    ours, theirs = (make_updater(tiny_recipe()) for _ in range(2))
    for weight in (*ours.model.encoder.parameters(), *theirs.model.encoder.parameters()):
        weight.requires_grad_(False)
    ours, theirs = (type(one)(one.model, one.recipe, one.device) for one in (ours, theirs))
    before = {name: weight.clone() for name, weight in ours.model.named_parameters()}
    for step in (1, 2):
        update(ours, step)
    flat = ours.weights.all.untyped_storage().data_ptr()
    for name, weight in ours.model.named_parameters():
        assert (weight.untyped_storage().data_ptr() == flat) == weight.requires_grad, name
        assert torch.equal(weight, before[name]) != weight.requires_grad, name
    saved = optimizer_tensors(ours.optimizer, ours.weights)
    trained = {name: weight.shape for name, weight in ours.model.named_parameters() if weight.requires_grad}
    assert {name: moment.shape for name, moment in saved.items()} == {
        f"{moment}/{name}": shape for moment in ("exp_avg", "exp_avg_sq") for name, shape in trained.items()
    }
    save_file(dict(sorted(saved.items(), reverse=True)), tmp_path / "optimizer.safetensors")
    theirs.model.load_state_dict(ours.model.state_dict())
    load_optimizer(theirs.optimizer, theirs.weights, tmp_path / "optimizer.safetensors", 2)
    for updater in (ours, theirs):
        update(updater, 3)
    assert same(state(ours), state(theirs))


class SynchronizationRecorder(TorchDispatchMode):
    """Record operations that make the CPU wait for a GPU: reading values, and results whose size depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        indices = args[1] if name.startswith(("aten.index.", "aten.index_put")) else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if by_mask or name in ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"):
            self.operations.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("plain", [False, True])
def test_update_does_not_wait_for_the_device(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if plain:  # the kernels of a device without its own
        monkeypatch.setattr("nmt.training.update.kernels_for", lambda *settings, **_: Kernels(*settings))
        monkeypatch.setattr(Kernels, "fuses_step", True)
    updater = make_updater(tiny_recipe(dropout=0.1))
    update(updater, 1)
    with SynchronizationRecorder() as recorder:
        update(updater, 2, ALL, batch_of(PAIRS[1:]))
    assert recorder.operations == []
    with SynchronizationRecorder() as recorder:
        kept = torch.tensor([True, False])
        (kept[kept], kept.nonzero(), kept[0].item())
    assert len(recorder.operations) == 3, "the recorder detects each kind"


def test_update_that_did_not_fit_is_released_before_it_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    updater, kept = make_updater(tiny_recipe()), list[weakref.ref[Tensor]]()
    monkeypatch.setattr(updater.kernels, "release_memory", lambda: True)

    def function() -> bool:
        if kept:
            return kept[0]() is None
        large = torch.ones(1000)
        kept.append(weakref.ref(large))
        raise torch.OutOfMemoryError

    assert updater.with_released_memory(function)
