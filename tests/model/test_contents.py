"""What a model contains, compared with its tensors."""

import pytest
import torch

from nmt.model.contents import bytes_to_decode, nearest_pieces, parameters_by_part
from tests.builders import tiny_model, tiny_tokenizers


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_parameters_of_the_parts_add_up(tied: str, norm: str) -> None:
    model = tiny_model(1, vocabulary=6, tied_embeddings=tied, norm=norm)
    parts = parameters_by_part(model)
    assert sum(parts.values()) == model.parameter_count()
    assert parts["embedding"] == 6 * 16 * (1 if tied == "all" else 2)
    assert parts["output"] == (6 * 16 if tied == "none" else 0)
    layers = sum(weight.numel() for weight in model.decoder.parameters())
    assert parts["decoder"] == layers + (2 * 16 if norm == "pre" else 0)


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


def test_nearest_pieces_equal_cosines_of_pairs() -> None:
    tokenizer = tiny_tokenizers().source
    torch.manual_seed(2)
    weights = torch.randn(len(tokenizer), 4)
    piece = tokenizer.encode("cat")[0]
    found = nearest_pieces(weights, tokenizer, piece, 5)
    names, table = tokenizer.pieces, tokenizer.table
    usual = [i for i in range(len(tokenizer)) if table.surfaces[i] and i != piece]
    cosine = {names[i]: torch.cosine_similarity(weights[i], weights[piece], dim=0).item() for i in usual}
    expected = sorted(cosine.items(), key=lambda pair: -pair[1])[:5]
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected], abs=1e-4)
