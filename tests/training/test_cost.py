"""What a proposed training costs."""

import pytest
import torch

from nmt.config import ModelSettings
from nmt.model.transformer import Transformer
from nmt.text.proposing.proposal import propose
from nmt.training import cost as module
from nmt.training.cost import cost
from nmt.training.utilization import operations as operations_of_model


def test_minutes_and_memory_follow_from_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "matrix_rate", lambda *_: 1e9)
    monkeypatch.setattr(module, "choose_device", lambda _: torch.device("cpu"))
    slow = cost(lambda device: propose((60_000, 60_000), 2000, device))
    monkeypatch.setattr(module, "matrix_rate", lambda *_: 2e9)
    fast = cost(lambda device: propose((60_000, 60_000), 2000, device))
    assert slow.minutes == pytest.approx(tuple(2 * minutes for minutes in fast.minutes))
    assert slow.minutes[0] < slow.minutes[1]
    assert slow.gibibytes[0] < slow.gibibytes[1]


@pytest.mark.parametrize("tokens", [10_000, 1_000_000])
def test_operations_are_those_of_the_model(tokens: int) -> None:
    proposal = propose((tokens, tokens), 2000, "cpu")
    shape = ModelSettings.model_validate(proposal.model.model_dump())
    a_token = sum(operations_of_model(Transformer(shape, 2000, 2000)))
    assert module.operations(proposal) == pytest.approx(a_token * proposal.trained_tokens[1], rel=0.02)
