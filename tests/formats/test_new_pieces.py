"""A model with new pieces: its tokenizers, the rows of the pieces, and its translations before it is trained."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import ModelSettings, TokenizerSettings
from nmt.formats.new_pieces import new_pieces, with_new_pieces
from nmt.formats.sentencepiece_file import SPECIAL, pieces_of, tokenizer_of, with_pieces
from nmt.model.transformer import Transformer
from nmt.text.normalize import normalize
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.translation.translator import Translator
from tests.builders import TINY_SHAPE, demo_pairs, save_model, tiny_loaded_model, translated_texts

ENGLISH, ITALIAN = zip(*demo_pairs(300), strict=True)
SOURCE = ["the goatherd , ЖЖ Ж", "(goatherds) 龙，龙雨 ▁ \ufdd0", "GOATHERD goatherds"] * 5
TARGET = ["il gattone", "due gattoni e un gattone ..."] * 5
Extended = tuple[Tokenizer, dict[str, list[int]], Tokenizer]


@cache
def trained(lines: tuple[str, ...], **chosen: Any) -> Tokenizer:
    return Tokenizer.train(lines, TokenizerSettings.model_validate({"vocab_size": 400, **chosen}), at_most=True)


@pytest.fixture(scope="module", params=["unigram", "bpe", "word", "char", "lowercase"])
def extended(request: pytest.FixtureRequest) -> Extended:
    chosen = {"lowercase": True} if request.param == "lowercase" else {"type": request.param}
    old = trained(ENGLISH + ITALIAN, **chosen)
    pieces = new_pieces(old, [*SOURCE, *TARGET], 40)
    return old, pieces, with_pieces(old, pieces, pieces)


def test_new_pieces_spell_new_text_and_follow_the_old_ones(extended: Extended) -> None:
    old, pieces, new = extended
    assert 0 < len(pieces) <= 40
    assert new.symbols == [*old.symbols, *pieces]
    assert not any(new.without_piece(line) for line in [SOURCE[0], *TARGET[:1]])
    assert sum(map(len, new.encode_lines(SOURCE))) < sum(map(len, old.encode_lines(SOURCE)))
    words = [symbol for symbol in pieces if symbol.startswith("▁")]
    assert {"▁goatherd", "▁gattone"} <= {*words} or not words
    for symbol in words:
        assert [new.symbols[i] for i in new.encode(symbol[1:])] == [symbol]
    for symbol, ids in pieces.items():  # the spelling, with the space mark of its own or of the start of a sentence
        assert old.decode(ids) == symbol.strip("▁")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_new_characters_are_joined_when_a_vocabulary_is_extended_again(kind: str) -> None:
    new = trained(ENGLISH, type=kind)
    for _ in range(2):
        pieces = new_pieces(new, ["龙雨 , aЖЖ", "catЖЖ tea龙雨", "dogЖЖ dog龙雨", "sleepЖЖ cat龙雨"] * 9, 20)
        new = with_pieces(new, pieces, pieces)
    assert [new.pieces[i] for i in new.encode("龙雨")][-1] in ("龙雨", "▁龙雨")
    scores = {piece: score for piece, score, _ in pieces_of(new.to_bytes())}
    assert kind == "bpe" or scores["龙雨"] > scores["龙"] + scores["雨"]
    assert "ЖЖ" not in new.symbols  # its rows would be those of its one character


FRAGMENTS = ["the", " cat", "goat", "herd", "gat", "tone", "one", "Ж", "龙", "雨", "GO", " ", ",", "▁", "s", "\ufdd0"]


@given(st.lists(st.sampled_from(FRAGMENTS)).map("".join) | st.text())
@settings(max_examples=300, deadline=None)
def test_all_text_is_decoded_to_itself_and_text_without_new_pieces_encoded_as_before(
    extended: Extended, text: str
) -> None:
    old, pieces, new = extended
    ids, before = new.encode(text), old.encode(text)
    assert new.decode(ids) == old.decode(before)
    is_lowercase = old.decode(old.encode("A")) == "a"
    assert new.decode(ids) == (normalize(text) if not is_lowercase else new.decode(before))
    marked = "▁" + old.decode(before).replace("▁", "\ufdd0").replace(" ", "▁")
    if not any(symbol in marked for symbol in pieces):
        assert ids == before


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_rows_of_new_pieces_are_means_and_greedy_translations_stay(tied: str, tmp_path: Path) -> None:
    both = trained(ENGLISH + ITALIAN)
    tokenizers = Tokenizers(both, both) if tied == "all" else Tokenizers(trained(ENGLISH), trained(ITALIAN))
    shape = ModelSettings.model_validate({**TINY_SHAPE, "tied_embeddings": tied, "output_bias": True})
    torch.manual_seed(5)
    model = Transformer(shape, len(tokenizers.source), len(tokenizers.target)).eval()
    assert model.output_bias is not None
    with torch.no_grad():
        model.output.weight.mul_(4)
        model.output_bias[: len(tokenizers.target)].normal_()
    old = replace(tiny_loaded_model(), settings=shape, in_torch=model, tokenizers=tokenizers)
    new = with_new_pieces(old, SOURCE, TARGET, 30)
    assert new.tokenizers.shared == (tied == "all")
    before, after = dict(old.model.named_parameters()), dict(new.model.named_parameters())
    assert before.keys() == after.keys()
    vocabulary = {"target_embedding.tokens.weight", "source_embedding.tokens.weight", "output.weight", "output_bias"}
    for name in before.keys() - vocabulary:
        assert torch.equal(before[name], after[name])
    for name in before.keys() & vocabulary:
        is_source = name.startswith("source") and tied != "all"
        first, second = (each.tokenizers.source if is_source else each.tokenizers.target for each in (old, new))
        assert torch.equal(after[name][: len(first)], before[name][: len(first)])
        assert not after[name][len(second) :].any()
        word = "goatherd" if is_source else "gattone"
        expected = before[name][first.encode(word)].mean(0)
        torch.testing.assert_close(after[name][second.symbols.index(f"▁{word}")], expected)
    character = after["source_embedding.tokens.weight"][new.tokenizers.source.symbols.index("Ж")]
    ids = [old.tokenizers.source.symbols.index(name) for name in ("<0xD0>", "<0x96>")]
    torch.testing.assert_close(character, before["source_embedding.tokens.weight"][ids].sum(0) / 2)
    for name, loaded in (("old", old), ("new", new)):
        save_model(tmp_path / name, loaded)
    lines = ENGLISH[:40]
    results = [translated_texts(Translator.load(tmp_path / name), lines, beam=1) for name in ("old", "new")]
    assert results[0] == results[1]
    assert len({*results[0]}) > 10


def test_two_tokenizers_of_one_vocabulary_use_their_own_new_pieces() -> None:
    """As those of Marian, which spell no bytes."""
    models = [trained(side).to_bytes() for side in (ENGLISH, ITALIAN)]
    pieces = dict.fromkeys(piece for model in models for piece, _, kind in pieces_of(model) if kind == 1)
    sides = [tokenizer_of(model, [*SPECIAL.values(), *pieces]) for model in models]
    shape = ModelSettings.model_validate({**TINY_SHAPE, "tied_embeddings": "all"})
    model, tokenizers = Transformer(shape, len(sides[0]), len(sides[0])), Tokenizers(sides[0], sides[1])
    old = replace(tiny_loaded_model(), settings=shape, in_torch=model, tokenizers=tokenizers)
    foreign = max(pieces.keys() - {piece for piece, _, _ in pieces_of(models[0])}, key=len)
    new = with_new_pieces(old, [*SOURCE, *[foreign.strip("▁")] * 99], TARGET, 10)
    source, target = new.tokenizers.source, new.tokenizers.target
    assert source.symbols == target.symbols
    assert foreign in source.symbols
    assert len({*source.symbols}) == len(source)
    assert [source.symbols[i] for i in source.encode("Ж")][-1] == "Ж"
    assert "▁gattone" in [target.symbols[i] for i in target.encode("un gattone")]
    assert source.encode("gattone") == sides[0].encode("gattone")
    assert source.decode(target.encode("gattone")) == "gattone"
