"""The training objective: cross-entropy of one pass, or R-Drop of two passes."""

import pytest
import torch

from nmt.batching.batch import Batch, Group
from nmt.config import ModelSettings
from nmt.model.transformer import Transformer
from nmt.training.loss import Objective, r_drop_loss

SMOOTHING = 0.1


def transformer(dropout: float) -> Transformer:
    torch.manual_seed(1)
    return Transformer(
        ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=8, dropout=dropout), 20, 20
    )


def batch() -> Batch:
    torch.manual_seed(2)
    groups = []
    for length in (3, 5):
        tokens = torch.randint(4, 20, (2, length))
        groups.append(Group(tokens, tokens, tokens, None))
    return Batch(tuple(groups), 16, 16)


BATCH = batch()


def objective(dropout: float, r_drop: float = 0.0) -> Objective:
    return Objective(transformer(dropout), SMOOTHING, r_drop)


def test_r_drop_uses_two_dropout_masks() -> None:
    training_objective = objective(0.3, r_drop=5.0)
    torch.manual_seed(7)
    loss, likelihood = training_objective(BATCH)
    torch.manual_seed(7)
    first, second = training_objective._hidden(BATCH), training_objective._hidden(BATCH)
    assert not torch.equal(first, second)
    targets = torch.cat([group.target_out.flatten() for group in BATCH.groups])
    expected = r_drop_loss((first, second), training_objective.model.output.weight, targets, SMOOTHING, 5.0)
    assert (loss, likelihood) == expected
    # different predictions of the passes increase the loss
    assert loss > r_drop_loss((first, second), training_objective.model.output.weight, targets, SMOOTHING, 0.0)[0]


def test_r_drop_without_dropout_equals_one_pass() -> None:
    twice, once = objective(0.0, r_drop=5.0), objective(0.0)
    losses = [training_objective(BATCH) for training_objective in (twice, once)]
    assert losses[0][0].item() == pytest.approx(losses[1][0].item(), rel=1e-6)
    for training_objective, (loss, _) in zip((twice, once), losses, strict=True):
        loss.backward()
        assert training_objective.model.output.weight.grad is not None
    for a, b in zip(twice.parameters(), once.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_r_drop_in_evaluation_mode_equals_one_pass() -> None:
    twice, once = objective(0.3, r_drop=5.0).eval(), objective(0.3).eval()
    with torch.no_grad():
        assert twice(BATCH) == once(BATCH)
