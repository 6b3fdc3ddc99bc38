"""Beginning with a trained model, and leaving parts of it as they are."""

import pytest
import torch

from nmt.config import ModelSettings
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.training.fine_tuning import freeze


def transformer(tied: str = "all") -> Transformer:
    torch.manual_seed(1)
    shape = {"encoder_layers": 2, "decoder_layers": 1, "dim": 8, "heads": 2, "feed_forward": 8, "tied_embeddings": tied}
    return Transformer(ModelSettings.model_validate(shape), 20, 20)


def frozen(model: Transformer) -> set[str]:
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


def test_patterns_choose_by_name() -> None:
    model = transformer()
    freeze(model, ("encoder.*", "decoder_norm.bias"))
    expected = {name for name in dict(model.named_parameters()) if name.startswith("encoder.")}
    assert len(expected) > 10
    assert frozen(model) == {*expected, "decoder_norm.bias"}
    model = transformer()
    freeze(model, ("encoder.1.*norm*",))
    assert frozen(model) == {
        f"encoder.1.{sublayer}.norm.{kind}"
        for sublayer in ("attention_sublayer", "feed_forward_sublayer")
        for kind in ("weight", "bias")
    }


def test_without_patterns_all_learn() -> None:
    model = transformer()
    freeze(model, ())
    assert frozen(model) == set()


@pytest.mark.parametrize("pattern", ["source_embedding.*", "target_embedding.*", "output.weight", "*embedding*"])
def test_a_tied_matrix_answers_to_each_of_its_names(pattern: str) -> None:
    model = transformer("all")
    freeze(model, (pattern,))
    assert not model.output.weight.requires_grad


def test_matrices_that_are_not_tied_are_frozen_apart() -> None:
    model = transformer("none")
    freeze(model, ("source_embedding.*",))
    assert frozen(model) == {"source_embedding.tokens.weight"}


def test_a_pattern_without_a_match_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        freeze(transformer(), ("encoder.*", "encodr.*"))
    assert str(caught.value) == (
        "train.freeze: no weight is called 'encodr.*'; their names begin with decoder, decoder_norm, encoder, "
        "encoder_norm, output, source_embedding, target_embedding; write * for what follows, as in encoder.*"
    )


def test_capitals_matter() -> None:
    with pytest.raises(ConfigError, match="no weight is called 'Encoder"):
        freeze(transformer(), ("Encoder.*",))


def test_something_must_be_left_to_learn() -> None:
    with pytest.raises(ConfigError, match=r"train.freeze: \*coder\*, \*embedding\* match every weight, so nothing"):
        freeze(transformer(), ("*coder*", "*embedding*"))
