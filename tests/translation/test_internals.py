"""Attention, next pieces and vectors of sentences, against the reference and the model without its cache."""

import pytest
import torch

from nmt.errors import ConfigError
from nmt.text.tokenizer import EOS
from nmt.translation.translator import Translator
from tests.builders import SENTENCES, log_probs_without_cache
from tests.model.reference_transformer import ReferenceTransformer

SENTENCE = SENTENCES[0]


def test_attention_has_a_row_for_each_piece_of_the_translation_that_the_search_finds(translator: Translator) -> None:
    model, pieces = translator.models[0].model, translator.tokenizers.target.pieces
    ids = translator.tokenizers.source.encode(SENTENCE)
    ((best,),) = translator.engine.search([ids], translator.options().search)
    found = translator.attention(SENTENCE)
    assert found.source == [*(translator.tokenizers.source.pieces[i] for i in ids), "</s>"]
    assert found.target == ["<s>", *(pieces[i] for i in best.tokens), "</s>"]
    size, length = len(found.source), len(found.target) - 1
    heads = (1, model.settings.heads)
    assert found.encoder.shape == (*heads, size, size)
    assert found.decoder.shape == (*heads, length, length)
    assert found.cross.shape == (*heads, length, size)
    assert not found.decoder.triu(1).any()
    for weights in (found.encoder, found.decoder, found.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    given = translator.attention(SENTENCE, "un cane")
    assert given.target == ["<s>", *(pieces[i] for i in translator.tokenizers.target.encode("un cane")), "</s>"]


def test_each_step_has_the_most_probable_pieces_after_its_prefix(translator: Translator) -> None:
    model, tokenizers = translator.models[0].model, translator.tokenizers
    source, prefix = [*tokenizers.source.encode(SENTENCE), EOS], list[int]()
    found = translator.steps(SENTENCE, top=4)
    for step in found:
        probabilities = log_probs_without_cache(model, source, prefix)[-1].exp()
        probabilities[:EOS] = 0
        expected = probabilities.topk(4)
        assert [piece for piece, _ in step.best] == [tokenizers.target.pieces[i] for i in expected.indices.tolist()]
        assert [p for _, p in step.best] == pytest.approx(expected.values.tolist(), rel=1e-3)
        prefix.append(int(expected.indices[0]))
    all_pieces = translator.steps(SENTENCE, top=len(tokenizers.target))[0].best
    assert sorted(piece for piece, _ in all_pieces) == sorted(tokenizers.target.pieces)
    assert [step.piece for step in found[:-1]] == [step.best[0][0] for step in found[:-1]]
    assert found[-1].piece == "</s>", "at the latest at the longest output"


def test_vector_is_the_mean_of_the_reference_encoder(translator: Translator) -> None:
    model = translator.models[0].model
    weights = {name: one.detach().double() for name, one in model.named_parameters(remove_duplicate=False)}
    reference = ReferenceTransformer(model.settings, weights)
    found = translator.encode(SENTENCES * 3)
    assert found.shape == (len(SENTENCES) * 3, model.settings.dim)
    assert translator.encode([]).shape == (0, model.settings.dim)
    for sentence, vector in zip(SENTENCES * 3, found, strict=True):
        expected = reference.encode([*translator.tokenizers.source.encode(sentence), EOS]).mean(0)
        torch.testing.assert_close(vector.double(), expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(translator.encode(sentence), vector)


def test_what_is_no_text_and_a_number_of_pieces_that_do_not_exist_are_errors(translator: Translator) -> None:
    for call in (translator.attention, translator.steps, lambda text: translator.attention("a", text)):
        with pytest.raises(TypeError, match="item 0: expected text, found 3"):
            call(3)  # type: ignore[operator]
    with pytest.raises(TypeError, match="item 1: expected text, found None"):
        translator.encode(["a cat", None])  # type: ignore[list-item]
    for top in (0, 10**6):
        with pytest.raises(ConfigError, match=rf"top: found {top}, expected 1 to \d+, the size of the vocabulary"):
            translator.steps(SENTENCE, top)
    with pytest.raises(ConfigError, match="to: "):
        translator.encode("a cat", to="xx")
