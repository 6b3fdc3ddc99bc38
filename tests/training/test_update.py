"""One update: accumulation equals one batch, Adam by its formulas, clipping, deferred results, compiled layers."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from nmt.training.loss import smoothed_cross_entropy
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config import RuntimeSettings
from nmt.errors import ConfigError
from nmt.training.initialization import compiler_explained
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import ALL, PAIRS, difference, make_updater, same, state, update

BAD = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.usefixtures("large_epsilon")
@pytest.mark.parametrize("parts", [[[0], [1], [2], [3], [4]], [[4, 3, 2, 1], [0]]])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_accumulated_batches_equal_one_batch(parts: list[list[int]], clip_norm: float | None) -> None:
    whole, cut = (make_updater(tiny_recipe(clip_norm=clip_norm)) for _ in range(2))
    batches = [batch_of([PAIRS[i] for i in part]) for part in parts]
    for step in (1, 2, 3):
        assert update(cut, step, *batches).results() == pytest.approx(update(whole, step).results(), rel=1e-4)
    assert difference(whole, cut) < 1e-5


@pytest.mark.usefixtures("large_epsilon")
@pytest.mark.parametrize("deferred", [False, True])
def test_updates_equal_adam_on_the_mean_loss_per_token(deferred: bool) -> None:
    """Written out with autograd in float64 and algorithm 1 of Kingma & Ba 2015, with clipping."""
    chosen = tiny_recipe(clip_norm=0.5, label_smoothing=0.2)
    ours, reference = make_updater(chosen, double=not deferred), make_updater(chosen, double=True).model
    ours.deferred = deferred
    parameters = list(reference.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    batches = [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])]
    for step in range(1, 6):
        loss = torch.zeros((), dtype=torch.float64)
        for (group,) in (batch.groups for batch in batches):
            memory = reference.encode(group.source, group.source_mask)
            hidden = reference.decode(group.target_in, memory, group.source_mask)
            weight = reference.output.weight[: reference.output.out_features]  # without padding
            loss = loss + smoothed_cross_entropy(hidden, weight, group.target_out, 0.2)[0]
        gradients = torch.autograd.grad(loss / 20, parameters)
        norm = math.sqrt(sum(gradient.pow(2).sum().item() for gradient in gradients))
        found = update(ours, step, *batches)
        assert found.results()[2] == pytest.approx(norm, rel=1e-5)
        with torch.no_grad():
            for i, gradient in enumerate(gradients):
                clipped = gradient * min(1.0, 0.5 / norm)
                first[i] = 0.9 * first[i] + 0.1 * clipped
                second[i] = 0.98 * second[i] + 0.02 * clipped**2
                denominator = (second[i] / (1 - 0.98**step)).sqrt() + 1e-3
                parameters[i] -= 0.01 * first[i] / (1 - 0.9**step) / denominator
    for weight, expected in zip(ours.model.parameters(), parameters, strict=True):
        torch.testing.assert_close(weight.double(), expected, rtol=0, atol=1e-6)


def test_dropout_depends_on_seed_step_and_batch_only() -> None:
    def one_loss(step: int, noise: int, batches: int = 1) -> float:
        updater = make_updater(tiny_recipe(dropout=0.3))
        updater.model.eval()
        torch.manual_seed(noise)
        return update(updater, step, *[ALL] * batches).results()[0]

    assert one_loss(1, noise=1) == one_loss(1, noise=2)
    assert one_loss(1, noise=1) != one_loss(2, noise=1)
    assert one_loss(1, noise=1, batches=2) != 2 * one_loss(1, noise=1)


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_non_finite_update_changes_nothing(value: float, where: str, deferred: bool) -> None:
    """Also not the step count of Adam: the updates afterwards are as if it had not been."""
    spoiled, plain = (make_updater(tiny_recipe(dropout=0.1)) for _ in range(2))
    spoiled.deferred = plain.deferred = deferred
    forward = spoiled.objective.forward
    factor = [1.0]
    spoiled.model.encoder_norm.weight.register_hook(lambda g: g * (factor[0] if where == "gradient" else 1.0))
    spoiled.objective.forward = lambda batch: (  # type: ignore[method-assign]
        forward(batch)[0] * (factor[0] if where == "loss" else 1.0), forward(batch)[1]
    )  # fmt: skip
    for step in (1, 2, 3, 4):
        factor[0] = value if step in (1, 3) else 1.0
        loss, _, norm = update(spoiled, step).results()
        assert math.isfinite(loss + norm) == (step not in (1, 3))
        if step in (2, 4):
            update(plain, step)
            assert same(state(spoiled), state(plain))
        assert all(parameter.grad is None for parameter in spoiled.model.parameters())


class SynchronizationRecorder(TorchDispatchMode):
    """Record operations that make the CPU wait for a GPU: reading values, and results whose size depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        flat = [item for part in args for item in (part if isinstance(part, (list, tuple)) else [part])][1:]
        by_mask = name.startswith("aten.index") and any(isinstance(x, Tensor) and x.dtype == torch.bool for x in flat)
        if by_mask or name in ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"):
            self.operations.append(name)
        return function(*args, **(kwargs or {}))


def test_deferred_update_does_not_wait_for_the_device() -> None:
    deferred = make_updater(tiny_recipe(dropout=0.1))
    deferred.deferred = True
    update(deferred, 1)
    with SynchronizationRecorder() as recorder:
        update(deferred, 2, ALL, batch_of(PAIRS[1:]))
    assert recorder.operations == []
    with SynchronizationRecorder() as recorder:
        kept = torch.tensor([True, False])
        (kept[kept], kept.nonzero(), kept[0].item())
    assert len(recorder.operations) == 3, "the recorder detects each kind"


@pytest.mark.usefixtures("large_epsilon")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")  # torch's
def test_compiled_updates_equal_eager_updates_and_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to code for the processor, whose compilation takes most of the time."""
    from torch._dynamo.utils import counters

    plain = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **how: plain(module, backend="aot_eager", **how))
    chosen = tiny_recipe(dropout=0.25)
    eager = make_updater(chosen)
    compiled = make_updater(chosen.model_copy(update={"runtime": RuntimeSettings(compile=True)}))
    graphs = []
    for step in range(1, 5):
        batches = [batch_of(PAIRS[:step] * 4), batch_of(PAIRS[step:] * (4 + step))]
        ours, theirs = (update(updater, step, *batches).results() for updater in (compiled, eager))
        assert ours == pytest.approx(theirs, rel=1e-4)
        graphs.append(counters["stats"]["unique_graphs"])
    assert difference(compiled, eager) < 1e-5
    assert 0 < graphs[0] == graphs[-1] <= 12
    assert "self_attend" not in vars(eager.model.encoder[0].attention), "other models are not changed"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")  # torch's
def test_missing_compiler_is_an_error_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    updater = make_updater(tiny_recipe().model_copy(update={"runtime": RuntimeSettings(compile=True)}))
    torch._dynamo.reset()
    with (
        config.patch({"cpp.cxx": (None, "no-such-compiler")}),
        pytest.raises(ConfigError, match=r"runtime.compile: torch.compile fails here: .*; set it to false"),
        compiler_explained(),
    ):
        update(updater, 1)
