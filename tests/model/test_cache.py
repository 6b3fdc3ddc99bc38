"""The cache of a search: its bytes, and that nothing is read before it is written."""

from typing import Any

import pytest
import torch

from nmt.config import MaxLength
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import Search, Sentence, search
from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Precision
from nmt.model.cache import bytes_to_decode
from tests.builders import tiny_model


@pytest.mark.parametrize(("beam", "target"), [(1, 9), (4, 12), (4, 40), (10, 20)])
def test_bytes_to_decode_are_those_of_the_tensors_of_a_search(beam: int, target: int) -> None:
    """Of the keys and values of a sentence, and of the logits of a step."""
    model, source, vocabulary = tiny_model(1, vocabulary=64), 7, 64
    options = SearchOptions(beam=beam, max_length=MaxLength(factor=0, extra=target))
    with torch.inference_mode():
        one = Search([model], options, (1, source, target), has_prefixes=False)
        one.run([Sentence(0, [5] * source, (), target)])
    (cache,) = one._caches
    measured = sum(cells.nbytes for cells in (*cache.source, *cache.target)) + 4 * beam * vocabulary
    assert bytes_to_decode(model.settings, vocabulary, source, target, beam) == measured


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", [{}, {"dim": 64}, {"positions": "relative"}, {"attention_score": "dot"}], ids=str)
def test_search_reads_no_memory_before_it_is_written(precision: Precision, shape: dict[str, Any]) -> None:
    model = tiny_model(1, 336, **shape)
    sentences = [[4 + i % 7] * (1 + i % 5) for i in range(8)]
    torch.use_deterministic_algorithms(True)  # fills new tensors with NaN
    try:
        ready = model.for_inference(CpuKernels(torch.device("cpu"), precision))
        found = search([ready], sentences, SearchOptions(beam=4, max_length=MaxLength(factor=1, extra=9)))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(len(of) for of in found)
