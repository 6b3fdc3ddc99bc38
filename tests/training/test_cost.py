"""What training costs: operations, the rate of matrix products, minutes and memory of a proposal."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from nmt.config import ModelSettings, RuntimeSettings
from nmt.model.transformer import Transformer
from nmt.text.proposing.proposal import propose
from nmt.training import cost as module
from nmt.training.cost import cost, matrix_rate, operations

CPU = torch.device("cpu")


def test_operations_by_hand() -> None:
    """Width 4, inner 8: a layer has 4·(4·4+4) + 2 norms of 8 + (4·8+8) + (8·4+4) = 172 weights in the encoder.

    In the decoder, one attention of 80 and one norm of 8 more: 260. The output has 11·4 = 44.
    """
    settings = ModelSettings(encoder_layers=2, decoder_layers=3, dim=4, feed_forward=8, heads=2)
    assert (operations(settings, 11, 1, 0), operations(settings, 11, 0, 1)) == (6 * 2 * 172, 6 * (3 * 260 + 44))
    assert operations(settings, 11, 10, 20) == 6 * (2 * 172 * 10 + (3 * 260 + 44) * 20)


@pytest.mark.parametrize(
    "changes", [{}, {"activation": "swiglu", "normalization": "rms"}, {"positions": "relative"}, {"norm": "post"}]
)
def test_operations_are_those_of_the_weights_of_the_model(changes: dict[str, str]) -> None:
    settings = ModelSettings.model_validate({"encoder_layers": 2, "decoder_layers": 3, "dim": 8, "heads": 2, **changes})
    model = Transformer(settings, 11, 13)
    encoder, decoder = (sum(one.numel() for one in side.parameters()) for side in (model.encoder, model.decoder))
    assert operations(settings, 13, 1, 0) == 6 * encoder
    assert operations(settings, 13, 0, 1) == 6 * (decoder + model.output.weight.numel())


def test_minutes_and_memory_follow_from_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "matrix_rate", lambda *_: 1e9)
    monkeypatch.setattr(module, "choose_device", lambda _: torch.device("cpu"))
    slow = cost(lambda device: propose((60_000, 60_000), 2000, device))
    monkeypatch.setattr(module, "matrix_rate", lambda *_: 2e9)
    fast = cost(lambda device: propose((60_000, 60_000), 2000, device))
    assert slow.minutes == pytest.approx(tuple(2 * minutes for minutes in fast.minutes))
    assert slow.minutes[0] < slow.minutes[1]
    assert slow.gibibytes[0] < slow.gibibytes[1]


def test_matrix_rate_is_that_of_the_fastest_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of two 8×8 matrices takes 2·8³ = 1024 operations; the fastest of 24 takes half a second."""
    seconds = [3.0, 2.0, 0.5, 1.0, 2.0, 2.0] * 4
    clock = iter(
        [instant for number, length in enumerate(seconds) for instant in (10.0 * number, 10.0 * number + length)]
    )
    monkeypatch.setattr("nmt.training.cost.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    multiplied: list[Tensor] = []

    def multiply(a: Tensor, b: Tensor) -> Tensor:
        multiplied.append(a @ b)
        return multiplied[-1]

    assert matrix_rate(CPU, RuntimeSettings(), multiply, small=8) == 1024 / 0.5
    assert [product.shape for product in multiplied] == [(8, 8)] * 24


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_matrix_rate_measures_products_of_random_numbers_of_the_final_type(precision: str, dtype: torch.dtype) -> None:
    operands: list[Tensor] = []

    def multiply(a: Tensor, b: Tensor) -> Tensor:
        operands.extend((a, b))
        return a

    state = torch.get_rng_state()
    assert matrix_rate(CPU, RuntimeSettings.model_validate({"precision": precision}), multiply, small=8) > 0
    assert {operand.dtype for operand in operands} == {dtype}
    assert operands[0].unique().numel() > 32
    assert torch.equal(state, torch.get_rng_state())
