"""What training costs: operations, and the minutes of a proposal."""

import pytest
import torch

from nmt.config import ModelSettings
from nmt.kernels.device import kernels_for
from nmt.model.transformer import Transformer
from nmt.text.proposal import operations, propose
from nmt.training import trial as module
from nmt.training.trial import cost, matrix_rate


@pytest.mark.parametrize("changes", [{}, {"activation": "swiglu"}, {"norm": "post"}])
def test_operations_are_six_for_each_weight_and_token(changes: dict[str, str]) -> None:
    settings = ModelSettings.model_validate({"encoder_layers": 2, "decoder_layers": 3, "dim": 8, "heads": 2, **changes})
    model = Transformer(settings, 11, 13)
    encoder, decoder = (sum(one.numel() for one in side.parameters()) for side in (model.encoder, model.decoder))
    assert operations(settings, 13, 1, 0) == 6 * encoder
    assert operations(settings, 13, 0, 1) == 6 * (decoder + 13 * settings.dim)


def test_minutes_follow_from_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_device", lambda _: torch.device("cpu"))
    found = []
    for rate in (1e9, 2e9):
        monkeypatch.setattr(module, "matrix_rate", lambda *_, rate=rate: rate)
        found.append(cost(lambda device, _: propose((60_000, 60_000), 2000, device))[2])
    assert found[0] == pytest.approx(tuple(2 * minutes for minutes in found[1]))
    assert found[0][0] < found[0][1]


def test_rate_is_that_of_torch_to_a_factor() -> None:
    rate = matrix_rate(kernels_for(torch.device("cpu")))
    assert 1e9 < rate < 1e14
