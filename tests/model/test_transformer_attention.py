"""Attention weights against those of the reference implementation, and the decoder against `Transformer.decode`."""

import pytest
import torch

from nmt.batching.batch import Rows
from nmt.model.transformer import attention_weights
from tests.builders import tiny_model
from tests.model.reference_transformer import ReferenceTransformer

SOURCE, TARGET = [4, 5, 6, 7, 3], [2, 8, 9]
VARIANTS = [
    {"norm": "post"},
    {"positions": "rotary"},
    {"positions": "relative", "max_distance": 2},
    {"attention_score": "additive"},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values())))
def test_attention_weights_equal_those_of_the_reference(variant: dict[str, object]) -> None:
    model = tiny_model(3, vocabulary=12, encoder_layers=2, decoder_layers=2, **variant)
    found = attention_weights(model, SOURCE, TARGET)
    weights = {name: value.detach().double() for name, value in model.named_parameters(remove_duplicate=False)}
    reference = ReferenceTransformer(model.settings, weights)
    reference.decode(TARGET, reference.encode(SOURCE))
    for number in range(2):
        encoder, decoder = reference.model.encoder[number], reference.model.decoder[number]
        for ours, attention in (
            (found.encoder, encoder.self_attention),
            (found.decoder, decoder.self_attention),
            (found.cross, decoder.cross_attention),
        ):
            torch.testing.assert_close(ours[number].double(), attention.weights, rtol=0, atol=1e-5)


def test_weights_of_a_layer_are_those_of_each_sentence() -> None:
    model = tiny_model(4, vocabulary=12, positions="rotary")
    source, target = Rows.of([SOURCE, [9, 3]]), Rows.of([TARGET, [2, 7]])
    with torch.inference_mode():
        memory = model.encode(source)
        weights: list[torch.Tensor] = []
        hidden = model.decode(target, memory, source, [(None, None), (None, weights)])
        torch.testing.assert_close(hidden, model.decode(target, memory, source))
    for row, (ids, generated) in enumerate(((SOURCE, TARGET), ([9, 3], [2, 7]))):
        alone = attention_weights(model, ids, generated).cross[1]
        torch.testing.assert_close(weights[0][row, :, : len(generated), : len(ids)], alone, atol=1e-5, rtol=0)
        assert float(weights[0][row, :, :, len(ids) :].sum()) == 0.0
