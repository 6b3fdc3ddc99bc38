"""Attention: score functions by hand, the definition against torch's own, and dropout where the settings place it."""

import pytest
import torch

from nmt.batching.batch import Rows
from nmt.config import ModelSettings
from nmt.config.section import SettingError
from nmt.kernels.reference import PLAIN
from nmt.model.attention import CrossAttention, distances_between
from nmt.model.scores import Additive, Bilinear, Dot, Score
from nmt.model.transformer import Transformer

Q, K = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, -1.0], [0.0, 1.0]]]])  # one query, two keys


@torch.no_grad()
@pytest.mark.parametrize(
    ("score", "parameter", "expected"),
    [
        (Score(), None, [1 / 2**0.5, 2 / 2**0.5]),  # (1·3 - 2·1) / √2, (2·1) / √2
        (Dot(1, 2), None, [1.0, 2.0]),
        (Bilinear(1, 2), [[[1.0, 0.0], [1.0, 1.0]]], [7.0, 2.0]),  # q W = (3, 2): 3·3 - 2·1, 2·1
        (Additive(1, 2), [[[[1.0], [-2.0]]]], [-0.523858, -1.228515]),  # tanh 4 - 2 tanh 1, tanh 1 - 2 tanh 3
    ],
)
def test_attention_scores_by_hand(score: Score, parameter: list[object] | None, expected: list[float]) -> None:
    for weight in score.parameters():
        weight.copy_(torch.tensor(parameter))
    torch.testing.assert_close(score(Q, K, distances_between(Q, K))[0, 0, 0], torch.tensor(expected))


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "bilinear", "additive"])
def test_masked_keys_have_zero_weight(score: str) -> None:
    torch.manual_seed(1)
    of = CrossAttention(ModelSettings.model_validate({"dim": 12, "heads": 3, "attention_score": score}))
    x, memory = torch.randn(4, 12), torch.randn(5, 12)
    weights = of.weights(x, memory, (Rows.of([[4, 4]] * 2), Rows.of([[5, 5], [5, 5, 5]])))  # one key is padding
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 2))
    assert not weights[0, ..., 2].any()
    alone = of.weights(x[:2], memory[:2], (Rows.of([[4, 4]]), Rows.of([[5, 5]])))
    torch.testing.assert_close(weights[:1, ..., :2], alone)


@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_other_scores_are_refused_with_positions_in_attention(positions: str) -> None:
    with pytest.raises(
        (SettingError, ValueError), match=f"{positions} positions are defined for scaled_dot only, found dot"
    ):
        ModelSettings.model_validate({"positions": positions, "attention_score": "dot"})


SMALL = {"encoder_layers": 1, "decoder_layers": 1, "dim": 8, "heads": 2, "feed_forward": 8}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_reaches_embeddings_and_sublayers_in_training_only(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(ModelSettings.model_validate({**SMALL, "dropout": 0.25, "norm": norm}), 11, 11)
    shares, plain = list[float](), PLAIN.dropout
    monkeypatch.setattr(PLAIN, "dropout", lambda x, p: shares.append(p) or plain(x, p))
    ids = torch.tensor([[5, 6, 7, 3]]), None, torch.tensor([[2, 5, 6, 7]])
    with torch.no_grad():
        assert not torch.equal(model(*ids), model(*ids))
        # two embeddings, two sublayers in the encoder layer, three in the decoder layer
        assert shares == [0.25] * 14
        model.eval()
        assert torch.equal(model(*ids), model(*ids))
    assert len(shares) == 14
