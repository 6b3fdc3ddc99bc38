"""Attention weights against those of the reference implementation, and the decoder against `Transformer.decode`."""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.model.transformer import Transformer, attention_weights, decode_with_attention
from tests.builders import tiny_model
from tests.model.reference_transformer import ReferenceTransformer

SOURCE, TARGET = [4, 5, 6, 7, 3], [2, 8, 9]
VARIANTS = [
    {"norm": "post"},
    {"positions": "rotary"},
    {"positions": "relative", "max_distance": 2},
    {"attention_score": "additive"},
]


@dataclass(frozen=True)
class RecordingReference(ReferenceTransformer):
    """A reference Transformer that collects its attention weights, by attention and head, one row a query."""

    rows: dict[tuple[str, int], list[list[float]]] = field(default_factory=lambda: defaultdict(list))

    def attention_weights(self, name: str, head: int, pairs: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
        weights = super().attention_weights(name, head, pairs)
        self.rows[name, head].append([float(weight) for weight in weights])
        return weights


def recorded(model: Transformer, source: list[int], target: list[int]) -> RecordingReference:
    """Return the reference with the weights of a model, after it has read a sentence pair."""
    weights = {name: value.detach().double() for name, value in model.named_parameters(remove_duplicate=False)}
    reference = RecordingReference(model.settings, weights)
    reference.decode(target, reference.encode(source))
    return reference


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values())))
def test_attention_weights_equal_those_of_the_reference(variant: dict[str, object]) -> None:
    model = tiny_model(3, vocabulary=12, encoder_layers=2, decoder_layers=2, **variant)
    found = attention_weights(model, torch.tensor(SOURCE), torch.tensor(TARGET))
    reference = recorded(model, SOURCE, TARGET)
    for layer in range(2):
        for name, of_all in (("encoder", found.encoder), ("decoder.self", found.decoder), ("cross", found.cross)):
            attention = {
                "encoder": f"encoder.{layer}.attention",
                "decoder.self": f"decoder.{layer}.self_attention",
                "cross": f"decoder.{layer}.cross_attention",
            }[name]
            for head in range(model.settings.heads):
                rows = reference.rows[attention, head]
                assert len(rows) == of_all.size(2)
                for row, expected in zip(of_all[layer, head].tolist(), rows, strict=True):
                    assert row[: len(expected)] == pytest.approx(expected, abs=1e-5), (name, layer, head)
                    assert row[len(expected) :] == [0.0] * (len(row) - len(expected))


def test_decode_with_attention_equals_decode_and_gives_the_weights_of_each_sentence() -> None:
    model = tiny_model(4, vocabulary=12, positions="rotary")
    source, target = Rows.of([SOURCE, [9, 3]]), Rows.of([TARGET, [2, 7]])
    with torch.inference_mode():
        memory = model.encode(source)
        hidden, weights = decode_with_attention(model, memory, (target, source), {1})
        torch.testing.assert_close(hidden, model.decode(target, memory, source))
    assert weights.keys() == {1}
    for row, (ids, generated) in enumerate(((SOURCE, TARGET), ([9, 3], [2, 7]))):
        alone = attention_weights(model, torch.tensor(ids), torch.tensor(generated)).cross[1]
        torch.testing.assert_close(weights[1][row, :, : len(generated), : len(ids)], alone, atol=1e-5, rtol=0)
        assert float(weights[1][row, :, :, len(ids) :].sum()) == 0.0
