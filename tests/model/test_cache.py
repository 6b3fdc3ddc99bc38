"""The bytes of a search, compared with the tensors of its cache."""

import pytest
import torch

from nmt.model.cache import bytes_to_decode
from tests.builders import tiny_model


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
