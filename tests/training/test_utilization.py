"""The share of the machine that a training uses."""

import time

import pytest
import torch

from nmt.config import ModelSettings, RuntimeSettings
from nmt.model.transformer import Transformer
from nmt.training.utilization import Utilization, matrix_rate

CPU = torch.device("cpu")


def test_operations_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Width 4, inner 8: a layer has 4·(4·4+4) + 2 norms of 8 + (4·8+8) + (8·4+4) = 172 weights in the encoder.

    In the decoder, one attention of 80 and one norm of 8 more: 260. The output has 11·4 = 44.
    """
    monkeypatch.setattr("nmt.training.utilization.matrix_rate", lambda _device, _runtime: 1e6)
    settings = ModelSettings(encoder_layers=2, decoder_layers=3, dim=4, feed_forward=8, heads=2)
    of = Utilization(Transformer(settings, 11, 11), CPU, RuntimeSettings())
    operations = 6 * (2 * 172 * 10 + (3 * 260 + 44) * 20)
    assert of.share(10, 20, seconds=2.0) == pytest.approx(operations / 2.0 / 1e6)


def test_the_rate_is_that_of_a_product() -> None:
    rate = matrix_rate(CPU, RuntimeSettings())
    a = torch.ones(512, 512)
    started = time.perf_counter()
    a @ a
    assert rate > 0.02 * 2 * 512**3 / (time.perf_counter() - started)
