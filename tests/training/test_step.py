"""One update: accumulation equals one batch, clipping, and Adam by its formulas."""

import math
import shutil

import pytest
import torch

from nmt.config import RuntimeSettings, Stop
from nmt.config.schedules import Constant
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.optimizer import learning_rate
from nmt.training.progress import Adjustments
from nmt.training.step import Updater
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import PAIRS, all_tensors, difference, make_updater, spoil, weights


@pytest.mark.parametrize("parts", [[[0], [1], [2], [3], [4]], [[0, 1], [2, 3, 4]], [[4, 3, 2, 1], [0]]])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_accumulated_batches_equal_one_batch(parts: list[list[int]], clip_norm: float | None) -> None:
    # Adam turns a rounding error of a gradient near zero into a whole step; this epsilon keeps it a rounding error
    chosen = tiny_recipe(clip_norm=clip_norm, adam_epsilon=1e-3)
    whole, cut = make_updater(chosen), make_updater(chosen)
    for step in (1, 2, 3):
        one = whole.update([batch_of(PAIRS)], step)
        many = cut.update([batch_of([PAIRS[i] for i in part]) for part in parts], step)
        assert many.loss == pytest.approx(one.loss, rel=1e-5)
        assert many.likelihood == pytest.approx(one.likelihood, rel=1e-5)
        assert many.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
        assert (many.source_tokens, many.target_tokens) == (one.source_tokens, one.target_tokens) == (20, 20)
    assert one.padded_target_tokens == 5 * 6
    assert many.padded_target_tokens == sum(len(part) * max(len(PAIRS[i][1]) + 1 for i in part) for part in parts)
    assert difference(whole, cut) < 1e-5


def test_updates_equal_adam_on_the_mean_loss_per_token() -> None:
    """Written out with autograd in float64 and Adam's formulas (Kingma & Ba 2015, algorithm 1)."""
    chosen = tiny_recipe(clip_norm=0.5, label_smoothing=0.2, adam_betas=[0.8, 0.95], adam_epsilon=1e-6)
    ours = make_updater(chosen, double=True)
    reference = make_updater(chosen, double=True).model
    parameters = dict(reference.named_parameters())
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    batches = [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])]
    for step in range(1, 6):
        loss = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            (group,) = batch.groups
            hidden = reference.decode(
                group.target_in, reference.encode(group.source, group.source_mask), group.source_mask
            )
            loss = loss + smoothed_cross_entropy(hidden, reference.output.weight, group.target_out, 0.2)[0]
        gradients = dict(zip(parameters, torch.autograd.grad(loss / 20, list(parameters.values())), strict=True))
        norm = math.sqrt(sum(g.pow(2).sum().item() for g in gradients.values()))
        found = ours.update(batches, step)
        assert found.gradient_norm == pytest.approx(norm, rel=1e-5)
        assert found.rate == 0.01
        with torch.no_grad():
            for name, parameter in parameters.items():
                gradient = gradients[name] * min(1.0, 0.5 / norm)
                first[name] = 0.8 * first[name] + 0.2 * gradient
                second[name] = 0.95 * second[name] + 0.05 * gradient**2
                corrected = first[name] / (1 - 0.8**step), second[name] / (1 - 0.95**step)
                parameter -= 0.01 * corrected[0] / (corrected[1].sqrt() + 1e-6)
    for name, tensor in weights(ours).items():
        torch.testing.assert_close(
            tensor, parameters[name].detach(), rtol=0, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}"
        )
    for name, parameter in ours.model.named_parameters():
        torch.testing.assert_close(ours.optimizer.state[parameter]["exp_avg"], first[name], rtol=1e-4, atol=1e-7)


def test_fused_adam_equals_plain_adam() -> None:
    chosen = tiny_recipe(clip_norm=None, adam_epsilon=1e-3)
    fused, plain = make_updater(chosen), make_updater(chosen)
    plain.optimizer = torch.optim.Adam(
        plain.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-3, fused=False, foreach=False
    )
    for step in range(1, 6):
        fused.update([batch_of(PAIRS)], step)
        plain.update([batch_of(PAIRS)], step)
    assert difference(fused, plain) < 1e-5


def test_clipping_scales_the_gradient_to_the_limit() -> None:
    for limit, expected in ((1e-3, 1e-3), (1e3, None), (None, None)):
        updater = make_updater(tiny_recipe(clip_norm=limit))
        lengths: list[float] = []

        def note(
            _optimizer: object, _args: object, _options: object, updater: Updater = updater, to: list[float] = lengths
        ) -> None:
            to.append(
                torch.stack([p.grad.norm() for p in updater.model.parameters() if p.grad is not None]).norm().item()
            )

        updater.optimizer.register_step_pre_hook(note)
        before = updater.update([batch_of(PAIRS)], 1).gradient_norm
        assert before > 1e-3
        assert lengths == [pytest.approx(expected if expected else before, rel=1e-3)]


def test_rate_follows_the_schedule() -> None:
    chosen = tiny_recipe(schedule={"name": "noam", "factor": 1.0, "warmup": 3}, stop={"steps": 9})
    updater = make_updater(chosen)
    rates = [updater.update([batch_of(PAIRS)], step).rate for step in range(1, 6)]
    assert rates == [learning_rate(chosen.train, 8, step) for step in range(1, 6)]
    assert updater.optimizer.param_groups[0]["lr"] == rates[-1]


def test_rate_of_zero_changes_no_weight() -> None:
    updater = make_updater(tiny_recipe(schedule={"name": "linear", "rate": 0.1, "warmup": 1}, stop={"steps": 5}))
    before = weights(updater)
    updater.update([batch_of(PAIRS)], 5)
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(updater).items())


def test_dropout_depends_on_seed_step_and_batch_only() -> None:
    def one_loss(step: int, noise: int, batches: int = 1) -> float:
        updater = make_updater(tiny_recipe(dropout=0.3))
        torch.manual_seed(noise)
        return updater.update([batch_of(PAIRS)] * batches, step).loss

    assert one_loss(1, noise=1) == one_loss(1, noise=2)
    assert one_loss(1, noise=1) != one_loss(2, noise=1)
    assert one_loss(1, noise=1, batches=2) != 2 * one_loss(1, noise=1)


def test_update_sets_training_mode_and_reduces_the_loss() -> None:
    updater = make_updater(tiny_recipe(dropout=0.1, label_smoothing=0.0))
    updater.model.eval()
    losses = [updater.update([batch_of(PAIRS)], step).loss for step in range(1, 61)]
    assert updater.model.training
    assert losses[-1] < losses[0] / 3
    assert isinstance(updater.recipe.train.schedule, Constant)
    assert updater.recipe.train.stop == Stop()


@pytest.mark.usefixtures("fresh_compilation")
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs g++")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The .grad attribute of a Tensor:UserWarning"
)  # torch's
def test_compiled_updates_equal_eager_updates_to_rounding() -> None:
    chosen = tiny_recipe(dropout=0.25, adam_epsilon=1e-3, accumulate=2)
    model = chosen.model.model_copy(update={"norm": "post", "positions": "rotary"})  # test_compilation has the others
    chosen = chosen.model_copy(update={"model": model})
    eager = make_updater(chosen)
    compiled = make_updater(chosen.model_copy(update={"runtime": RuntimeSettings(compile=True)}))
    for step in (1, 2, 3):
        batches = [batch_of(PAIRS[:step]), batch_of(PAIRS[step:])]
        ours, theirs = (updater.update(batches, step) for updater in (compiled, eager))
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
        assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-4)
    assert difference(compiled, eager) < 1e-5
    assert weights(compiled).keys() == weights(eager).keys()
    with torch.inference_mode():  # as validation does, between two updates
        found, expected = (
            updater.model.eval().encode(batches[0].groups[0].source, None) for updater in (compiled, eager)
        )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert compiled.update(batches, 4).loss == pytest.approx(eager.update(batches, 4).loss, rel=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_non_finite_update_changes_no_weight(value: float, where: str) -> None:
    updater = make_updater(tiny_recipe(weight_decay=0.1))
    for step in (1, 2):
        assert updater.update([batch_of(PAIRS)], step).finite

    before = all_tensors(updater)
    spoil(updater, value, where)
    update = updater.update([batch_of(PAIRS), batch_of(PAIRS)], 3)
    assert not update.finite
    assert all(torch.equal(a, b) for a, b in zip(before, all_tensors(updater), strict=True))
    assert all(parameter.grad is None for parameter in updater.model.parameters())


def test_adjustments_scale_the_rate() -> None:
    updater = make_updater(tiny_recipe())
    assert updater.update([batch_of(PAIRS)], 1, Adjustments(rate=0.25)).rate == 0.0025
    assert updater.optimizer.param_groups[0]["lr"] == 0.0025
