"""The cache of a search: its bytes, and that nothing is read before it is written."""

from typing import Any

import pytest
import torch

from nmt.config import MaxLength
from nmt.decoding.engine import search
from nmt.decoding.options import SearchOptions
from nmt.kernels import Precision
from nmt.kernels.cpu import CpuKernels
from nmt.model.cache import bytes_to_decode
from tests.builders import padded, tiny_model


@pytest.mark.parametrize(("beam", "target"), [(1, 9), (4, 12), (4, 40), (10, 20)])
def test_bytes_to_decode_bound_the_tensors_of_a_search(beam: int, target: int) -> None:
    """Hypotheses that have nothing in common; the table has space for 16 more tokens of each."""
    model, source, vocabulary = tiny_model(1, vocabulary=64), 7, 64
    with torch.no_grad():
        state = model.start(torch.full((1, source), 5), None)
        state.select(torch.zeros(beam, dtype=torch.long))
        for _ in range(target):
            logits = state.step(torch.full((beam,), 5))
            state.select(torch.arange(beam))
    cache = state._cache
    crossed = [tensor for pair in cache.source for tensor in pair]
    measured = sum(tensor.nbytes for tensor in [*crossed, *cache._target, logits])
    stated = bytes_to_decode(model.settings, vocabulary, source, target, beam)
    spare = 4 * 2 * model.settings.decoder_layers * model.settings.dim * beam * 16
    assert measured <= stated <= measured + spare


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", [{}, {"dim": 64}, {"positions": "relative"}, {"attention_score": "dot"}], ids=str)
def test_search_reads_no_memory_before_it_is_written(precision: Precision, shape: dict[str, Any]) -> None:
    model = tiny_model(1, 336, **shape)
    source, mask = padded([[4 + i % 7] * (1 + i % 5) for i in range(8)])
    torch.use_deterministic_algorithms(True)  # fills new tensors with NaN
    try:
        ready = model.for_inference(CpuKernels(torch.device("cpu"), precision), precision == "bf16")
        found = search(ready, source, mask, SearchOptions(beam=4, max_length=MaxLength(factor=1, extra=9)))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(len(of) for of in found)
