"""One update: many batches as if they were one, clipping, and Adam by its own formulas."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmt.batching.batch import Batch, Group, pad
from nmt.config import CorpusFile, Data, Languages, ModelSettings, Recipe, RuntimeSettings, Stop, TrainSettings
from nmt.config.schedules import Constant
from nmt.model.transformer import Transformer
from nmt.training.loss import Smoothing, smoothed_cross_entropy
from nmt.training.progress import Adjustments
from nmt.training.schedule import learning_rate
from nmt.training.step import Updater

BOS, EOS, PAD, V = 2, 3, 0, 12
CPU = torch.device("cpu")
PAIRS = [
    ([4, 5, 6], [7, 8]),
    ([9], [10, 11, 4, 5, 6]),
    ([4, 4, 5, 7, 8], [5]),
    ([6, 7], [8, 9, 10]),
    ([8, 8, 8, 8], [9, 9, 9, 9]),
]


def recipe(dropout: float = 0.0, **train: object) -> Recipe:
    return Recipe(
        name="test",
        languages=Languages(source="en", target="it"),
        data=Data(train=(CorpusFile(tsv=Path("train.tsv")),)),
        model=ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=16, dropout=dropout),
        train=TrainSettings.model_validate({"schedule": {"name": "constant", "rate": 0.01}, **train}),
        run=Path("run"),
    )


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    source, mask = pad([[*s, EOS] for s, _ in pairs])
    target_in, _ = pad([[BOS, *t] for _, t in pairs])
    target_out, _ = pad([[*t, EOS] for _, t in pairs])
    group = Group(source, target_in, target_out, mask)
    return Batch((group,), sum(len(s) + 1 for s, _ in pairs), sum(len(t) + 1 for _, t in pairs))


def updater(chosen: Recipe, double: bool = False) -> Updater:
    torch.manual_seed(1)
    model = Transformer(chosen.model, V, V)
    return Updater(model.double() if double else model, chosen, PAD, CPU)


def weights(of: Updater) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in of.model.named_parameters()}


def difference(a: Updater, b: Updater) -> float:
    theirs = weights(b)
    return max((tensor - theirs[name]).abs().max().item() for name, tensor in weights(a).items())


@pytest.mark.parametrize("parts", [[[0], [1], [2], [3], [4]], [[0, 1], [2, 3, 4]], [[4, 3, 2, 1], [0]]])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_accumulated_batches_are_one(parts: list[list[int]], clip_norm: float | None) -> None:
    # Adam turns a rounding error of a gradient near zero into a whole step; this epsilon keeps it a rounding error
    chosen = recipe(clip_norm=clip_norm, adam_epsilon=1e-3)
    whole, cut = updater(chosen), updater(chosen)
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


def test_the_gradient_is_that_of_the_mean_loss_a_token() -> None:
    """Written out with autograd in float64 and Adam's formulas (Kingma & Ba 2015, algorithm 1)."""
    chosen = recipe(clip_norm=0.5, label_smoothing=0.2, adam_betas=[0.8, 0.95], adam_epsilon=1e-6)
    ours = updater(chosen, double=True)
    twin = updater(chosen, double=True).model
    parameters = dict(twin.named_parameters())
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    batches = [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])]
    for step in range(1, 6):
        loss = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            (group,) = batch.groups
            hidden = twin.decode(group.target_in, twin.encode(group.source, group.source_mask), group.source_mask)
            loss = loss + smoothed_cross_entropy(hidden, twin.output.weight, group.target_out, Smoothing(0.2, PAD))[0]
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


def test_fused_adam_is_torchs_plain_adam() -> None:
    chosen = recipe(clip_norm=None, adam_epsilon=1e-3)
    fused, plain = updater(chosen), updater(chosen)
    plain.optimizer = torch.optim.Adam(
        plain.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-3, fused=False, foreach=False
    )
    for step in range(1, 6):
        fused.update([batch_of(PAIRS)], step)
        plain.update([batch_of(PAIRS)], step)
    assert difference(fused, plain) < 1e-5


def test_clipping_shortens_to_the_limit_and_no_less() -> None:
    for limit, expected in ((1e-3, 1e-3), (1e3, None), (None, None)):
        of = updater(recipe(clip_norm=limit))
        lengths: list[float] = []

        def note(
            _optimizer: object, _args: object, _options: object, of: Updater = of, to: list[float] = lengths
        ) -> None:
            to.append(torch.stack([p.grad.norm() for p in of.model.parameters() if p.grad is not None]).norm().item())

        of.optimizer.register_step_pre_hook(note)
        before = of.update([batch_of(PAIRS)], 1).gradient_norm
        assert before > 1e-3
        assert lengths == [pytest.approx(expected if expected else before, rel=1e-3)]


def test_the_rate_follows_the_schedule() -> None:
    chosen = recipe(schedule={"name": "noam", "factor": 1.0, "warmup": 3}, stop={"steps": 9})
    of = updater(chosen)
    rates = [of.update([batch_of(PAIRS)], step).rate for step in range(1, 6)]
    assert rates == [learning_rate(chosen.train, 8, step) for step in range(1, 6)]
    assert of.optimizer.param_groups[0]["lr"] == rates[-1]


def test_rate_zero_changes_nothing() -> None:
    of = updater(recipe(schedule={"name": "linear", "rate": 0.1, "warmup": 1}, stop={"steps": 5}))
    before = weights(of)
    of.update([batch_of(PAIRS)], 5)
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(of).items())


def test_dropout_depends_on_seed_step_and_batch_only() -> None:
    def one_loss(step: int, noise: int, batches: int = 1) -> float:
        of = updater(recipe(dropout=0.3))
        torch.manual_seed(noise)
        return of.update([batch_of(PAIRS)] * batches, step).loss

    assert one_loss(1, noise=1) == one_loss(1, noise=2)
    assert one_loss(1, noise=1) != one_loss(2, noise=1)
    assert one_loss(1, noise=1, batches=2) != 2 * one_loss(1, noise=1)


def test_evaluation_mode_is_left_and_learning_helps() -> None:
    of = updater(recipe(dropout=0.1, label_smoothing=0.0))
    of.model.eval()
    losses = [of.update([batch_of(PAIRS)], step).loss for step in range(1, 61)]
    assert of.model.training
    assert losses[-1] < losses[0] / 3
    assert isinstance(of.recipe.train.schedule, Constant)
    assert of.recipe.train.stop == Stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs g++")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The .grad attribute of a Tensor:UserWarning"
)  # torch's
def test_compiled_updates_are_the_others_to_rounding() -> None:
    chosen = recipe(dropout=0.25, adam_epsilon=1e-3, accumulate=2, ema=0.9)
    eager = updater(chosen)
    compiled = updater(chosen.model_copy(update={"runtime": RuntimeSettings(compile=True)}))
    for step in (1, 2, 3):
        batches = [batch_of(PAIRS[:step]), batch_of(PAIRS[step:])]
        ours, theirs = (of.update(batches, step) for of in (compiled, eager))
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
        assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-4)
    assert difference(compiled, eager) < 1e-5
    assert weights(compiled).keys() == weights(eager).keys()
    with torch.inference_mode():  # as validation does, between two updates
        found, expected = (of.model.eval().encode(batches[0].groups[0].source, None) for of in (compiled, eager))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert compiled.update(batches, 4).loss == pytest.approx(eager.update(batches, 4).loss, rel=1e-5)


def spoil(of: Updater, value: float, where: str) -> None:
    """Let loss or gradient come out as no number from now on."""
    if where == "loss":
        plain = of.loss

        def spoiled(batch: Batch) -> tuple[Tensor, Tensor]:
            loss, likelihood = plain(batch)
            return loss + value, likelihood

        of.loss = spoiled  # type: ignore[method-assign]
    else:
        of.model.encoder_norm.weight.register_hook(lambda gradient: gradient * value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_an_update_that_is_no_number_changes_nothing(value: float, where: str) -> None:
    of = updater(recipe(ema=0.9, weight_decay=0.1))
    assert of.average is not None
    for step in (1, 2):
        assert of.update([batch_of(PAIRS)], step).finite

    def everything() -> list[Tensor]:
        assert of.average is not None
        moments = [tensor for state in of.optimizer.state.values() for tensor in state.values()]
        return [tensor.detach().clone() for tensor in (*weights(of).values(), *of.average.model.parameters(), *moments)]

    before = everything()
    spoil(of, value, where)
    update = of.update([batch_of(PAIRS), batch_of(PAIRS)], 3)
    assert not update.finite
    assert all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    assert all(parameter.grad is None for parameter in of.model.parameters())


def test_care_scales_the_rate() -> None:
    of = updater(recipe())
    assert of.update([batch_of(PAIRS)], 1, Adjustments(rate=0.25)).rate == 0.0025
    assert of.optimizer.param_groups[0]["lr"] == 0.0025
