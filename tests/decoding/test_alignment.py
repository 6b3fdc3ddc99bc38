"""Word links by hand, and the choice of alignment heads with known accuracy."""

import random
from dataclasses import replace

import numpy as np
import pytest

from nmt.config import RuntimeSettings
from nmt.decoding.alignment import align, anchors, best_heads, default_heads, word_links
from nmt.decoding.results import Forced, Head, Pair
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ModelError
from nmt.model.stored import AlignmentHeads
from nmt.model.transformer import Transformer, attention_weights
from nmt.text.tokenizer import BOS, EOS
from tests.builders import tiny_loaded_model, tiny_model


def engine_of(*models: Transformer) -> TorchEngine:
    return TorchEngine.of_models(models, RuntimeSettings(device="cpu", precision="fp32"))


SOURCE = [b" The", b" ca", b"ts", b" sleep", b"."]


class TestWordLinks:
    def test_weights_of_the_tokens_of_a_word_are_added(self) -> None:
        weights = np.array(
            [
                # The  ca   ts   sleep .   </s>
                [0.6, 0.1, 0.1, 0.1, 0.0, 0.1],  # I
                [0.1, 0.3, 0.3, 0.4, 0.0, 0.0],  # gatti: none of its tokens has the most attention, the word has
                [0.0, 0.0, 0.1, 0.3, 0.3, 0.3],  # dorm
                [0.2, 0.2, 0.2, 0.0, 0.0, 0.4],  # ono: counts together with dorm
            ]
        )
        target = [b" I", b" gatti", b" dorm", b"ono"]
        assert word_links(weights, SOURCE, target) == [(0, 0), (1, 1), (2, 2)][:2]
        weights[3] = np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.0])
        assert word_links(weights, SOURCE, target) == [(0, 0), (1, 1), (2, 2)]

    def test_chinese_token_is_aligned_as_several_words(self) -> None:
        weights = np.array([[0.0, 0.9, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
        assert word_links(weights, [b" Good", b" morning"], [" 早上".encode(), "好".encode(), "。".encode()]) == [
            (1, 0), (1, 1), (0, 2),
        ]  # fmt: skip
        reverse = np.array([[0.7, 0.1, 0.2]])
        assert word_links(reverse, ["早上".encode(), "好".encode()], [b" Good"]) == [(0, 0)]

    def test_punctuation_neither_aligns_a_word_nor_attracts_links(self) -> None:
        source, target = [b" Where", b" is", b" Anna", b"?"], [b" Dov", b"'", b" \xc3\xa8", b" Anna", b"?"]
        weights = np.array(
            [
                # Where  is   Anna  ?   </s>
                [0.3, 0.1, 0.0, 0.6, 0.0],  # Dov: a head without a task attends to the question mark
                [0.0, 0.9, 0.0, 0.0, 0.1],  # '
                [0.1, 0.3, 0.0, 0.6, 0.0],  # è
                [0.0, 0.0, 0.5, 0.4, 0.1],  # Anna
                [0.9, 0.0, 0.0, 0.0, 0.1],  # ?
            ]
        )
        assert word_links(weights, source, target) == [(0, 0), (1, 1), (2, 2)]

    def test_word_of_punctuation_is_linked_with_the_punctuation_of_a_word(self) -> None:
        source, target = [b" Well", b",", b" yes", b"."], ["好".encode(), "，".encode(), "是".encode(), "。".encode()]
        weights = np.array(
            [
                # Well  ,   yes   .   </s>
                [0.8, 0.0, 0.0, 0.0, 0.2],
                [0.7, 0.2, 0.0, 0.0, 0.1],
                [0.0, 0.0, 0.9, 0.0, 0.1],
                [0.0, 0.1, 0.3, 0.5, 0.1],
            ]
        )
        assert word_links(weights, source, target) == [(0, 0), (0, 1), (1, 2), (1, 3)]
        weights[3] = np.array([0.0, 0.0, 0.2, 0.1, 0.7])
        assert word_links(weights, source, target) == [(0, 0), (0, 1), (1, 2)]

    def test_empty_sides_have_no_links(self) -> None:
        assert word_links(np.zeros((0, 3)), [b" a", b" b"], []) == []
        assert word_links(np.ones((2, 1)), [], [b" a", b" b"]) == []
        assert word_links(np.ones((1, 2)), [b" "], [b" a"]) == []


class TestAttention:
    @pytest.mark.parametrize("head", [(0, 99), (99, 0), (-1, 0), (0, -1)])
    def test_heads_that_the_model_lacks_are_refused(self, head: tuple[int, int]) -> None:
        loaded = replace(tiny_loaded_model(), alignment=AlignmentHeads(heads=(head,)))
        with pytest.raises(
            ModelError, match=r"alignment\.heads: found .*, expected layers from 0 to 0 and heads from 0"
        ):
            align(engine_of(loaded.model), loaded, [("a", "b")], 512)

    def test_links_follow_the_chosen_heads_where_the_decoder_predicts_a_token(self) -> None:
        loaded = replace(tiny_loaded_model(), alignment=AlignmentHeads(heads=((0, 0), (0, 1))))
        tokenizer = loaded.tokenizers.source
        pairs = [("the cat sleeps", "a dog"), ("a dog", ""), ("no", "we drink tea")]
        found = align(engine_of(loaded.model, tiny_model(1)), loaded, pairs, 10)
        for (line, text), links in zip(pairs, found, strict=True):
            cross = attention_weights(
                loaded.model, [*tokenizer.encode(line), EOS], [BOS, *tokenizer.encode(text)]
            ).cross
            mean = ((cross[0, 0, :-1] + cross[0, 1, :-1]) / 2).numpy()
            assert links == word_links(mean, tokenizer.spell_text(line), tokenizer.spell_text(text))
        assert found[0] != []

    @pytest.mark.parametrize(("layers", "expected"), [(1, 0), (2, 0), (6, 4)])
    def test_default_heads_are_those_of_the_second_last_layer(self, layers: int, expected: int) -> None:
        settings = tiny_model(0, decoder_layers=layers).settings
        assert default_heads(settings) == AlignmentHeads(heads=((expected, 0), (expected, 1)))


def anchor_text(draw: random.Random) -> list[Pair]:
    """Return pairs where token t of the source is t + 100 of the target, in another order."""
    pairs: list[Pair] = []
    for _ in range(200):
        source = draw.sample(range(10, 40), 6)
        pairs.append((source, [token + 100 for token in draw.sample(source, 6)]))
    return pairs


def test_anchors_are_translations_that_occur_once() -> None:
    pairs = anchor_text(random.Random(1))
    found = anchors([*pairs, ([11, 11, 12], [111, 112])])
    assert found[-1] == [] or [anchor.kind for anchor in found[-1]] == [(12, 112)], "11 occurs twice"
    kinds = [anchor.kind for own in found for anchor in own]
    assert {b - a for a, b in kinds} == {100}
    assert len(set(kinds)) == 30
    assert max(kinds.count(kind) for kind in kinds) == 10
    for (source, target), own in zip(pairs, found, strict=False):
        for anchor in own:
            assert (source[anchor.source], target[anchor.target]) == anchor.kind


class KnownHeads:
    """In place of an engine: of four heads, two are accurate for one half of the tokens each, the others are random."""

    def __init__(self) -> None:
        self.noise = np.random.default_rng(0)

    def force(self, pairs: list[Pair], budget: int, heads: list[Head]) -> list[Forced]:
        found = []
        for source, target in pairs:
            weights = self.noise.random((len(heads), len(target) + 1, len(source) + 1), np.float32) / 10
            for place, token in enumerate(target):
                weights[1 if token % 2 else 2, place, source.index(token - 100)] += 1
            found.append(Forced([], weights))
        return found


def test_best_heads_are_the_accurate_ones() -> None:
    pairs, settings, engine = anchor_text(random.Random(2)), tiny_model(0).settings, KnownHeads()
    assert best_heads(engine, settings, pairs, 100) == AlignmentHeads(heads=((0, 1), (1, 0)))  # type: ignore[arg-type]


def test_best_heads_of_a_text_without_anchors_is_none() -> None:
    model = tiny_model(0, vocabulary=12)
    assert best_heads(engine_of(model), model.settings, [([4, 5], [6, 7])] * 3, 100) is None
    assert best_heads(engine_of(model), model.settings, [], 100) is None


def test_tags_are_no_anchors() -> None:
    """A tag that precedes every source moves the places of its tokens, and nothing else."""
    model, pairs = tiny_model(0, vocabulary=150), anchor_text(random.Random(3))
    tagged = [([149, *source], target) for source, target in pairs]
    assert anchors([(source[1:], target) for source, target in tagged]) == anchors(pairs)
    assert best_heads(engine_of(model), model.settings, tagged, 100, tags=1) is not None
