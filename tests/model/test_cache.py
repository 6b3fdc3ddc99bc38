"""The bytes of a search, compared with the tensors of its cache."""

import pytest
import torch

from nmt.model.cache import bytes_to_decode
from tests.builders import tiny_model


@pytest.mark.parametrize(("beam", "target"), [(1, 9), (4, 12), (4, 40), (10, 20)])
def test_bytes_to_decode_bound_the_tensors_of_a_search(beam: int, target: int) -> None:
    """Beams up to 8 share keys and values after 16 tokens, and reserve space for more."""
    model, source, vocabulary = tiny_model(1, vocabulary=50), 7, 50
    with torch.no_grad():
        state = model.start(torch.full((1, source), 5), None, beam)
        state.select(torch.zeros(beam, dtype=torch.long))
        for _ in range(target):
            logits = state.step(torch.full((beam,), 5))
            state.select(torch.arange(beam))
    cache = state._cache
    crossed = [tensor for pair in cache.source for tensor in pair]
    measured = sum(tensor.nbytes for tensor in [*crossed, *cache.target.layers, logits[:beam]])
    stated = bytes_to_decode(model.settings, vocabulary, source, target, beam)
    spare = 4 * 2 * model.settings.decoder_layers * model.settings.dim * beam * 16
    padding = max(layer.size(1) / beam for layer in cache.target.layers) if target < 16 or beam > 8 else 1.0
    assert measured / padding <= stated <= measured + spare
