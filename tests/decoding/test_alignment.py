"""Word links by hand, and from the attention of a model."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import RuntimeSettings
from nmt.decoding.alignment import align, word_links
from nmt.decoding.torch_engine import TorchEngine
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
        assert word_links(weights, SOURCE, target) == [(0, 0), (1, 1), (1, 2)]
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
        without_marks = [b" Well", b" yes"]
        assert word_links(weights[:, [0, 2, 4]], without_marks, target) == [(0, 0), (1, 2)]

    def test_empty_sides_have_no_links(self) -> None:
        assert word_links(np.zeros((0, 3)), [b" a", b" b"], []) == []
        assert word_links(np.ones((2, 1)), [], [b" a", b" b"]) == []
        assert word_links(np.ones((1, 2)), [b" "], [b" a"]) == []

    def test_word_that_attracts_many_leaves_a_link_to_its_neighbour(self) -> None:
        weights = np.array(
            [
                # big  house  is   </s>
                [0.5, 0.4, 0.0, 0.1],  # casa
                [0.7, 0.2, 0.0, 0.1],  # grande
                [0.1, 0.0, 0.8, 0.1],  # è
            ]
        )
        source, target = [b" big", b" house", b" is"], [b" casa", b" grande", " è".encode()]
        assert word_links(weights, source, target) == [(1, 0), (0, 1), (2, 2)]

    def test_heads_that_attend_to_the_end_do_not_count(self) -> None:
        weights = np.array([[0.2, 0.1, 0.7], [0.0, 0.05, 0.95]])
        assert word_links(weights, [b" big", b" house"], [b" grande", b" casa"]) == [(0, 0), (1, 1)]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_links_of_target_words_in_another_order_are_the_same(rows: int, columns: int, seed: int) -> None:
    """Also, a single target word is linked with the source word to which it attends most."""
    draw = np.random.default_rng(seed)
    one = draw.random((1, columns + 1)).astype(np.float32)
    one[:, -1] = 0
    source = [f" {chr(97 + i)}".encode() for i in range(columns)]
    assert word_links(one, source, [b" x"]) == [(int(one.argmax()), 0)]
    permutation = draw.permutation(rows)
    weights = draw.random((rows, columns + 1)).astype(np.float32)
    target = [b" x"] * rows
    links, permuted = ({j: i for i, j in word_links(w, source, target)} for w in (weights, weights[permutation]))
    assert {j: links[int(row)] for j, row in enumerate(permutation) if int(row) in links} == permuted


def test_links_follow_the_mean_of_all_heads_where_the_decoder_predicts_a_token() -> None:
    loaded = tiny_loaded_model()
    tokenizer = loaded.tokenizers.source
    pairs = [("the cat sleeps", "a dog"), ("a dog", ""), ("no", "we drink tea")]
    found = align(engine_of(loaded.model, tiny_model(1)), loaded, pairs, 10)
    for (line, text), links in zip(pairs, found, strict=True):
        cross = attention_weights(loaded.model, [*tokenizer.encode(line), EOS], [BOS, *tokenizer.encode(text)]).cross
        mean = cross[..., :-1, :].flatten(0, 1).mean(0).numpy()
        assert links == word_links(mean, tokenizer.spell_text(line), tokenizer.spell_text(text))
    assert found[0] != []
