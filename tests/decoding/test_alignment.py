"""Word links worked out by hand, and heads that are known to point right."""

import random

import pytest
import torch

from nmt.config import DecodeSettings, Languages, TokenizerSettings
from nmt.decoding import alignment_heads
from nmt.decoding.alignment import attention, token_alignments, usual_heads, word_links
from nmt.decoding.alignment_heads import anchors, best_heads
from nmt.decoding.forced_decoding import Forced, Head, Pair, force_all
from nmt.model.checkpoint import AlignmentHeads, LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import Tokenizer, Tokenizers
from tests.decoding.test_search import tiny_model

SOURCE = [b" The", b" ca", b"ts", b" sleep", b"."]


class TestWordLinks:
    def test_tokens_of_a_word_count_together(self) -> None:
        weights = torch.tensor(
            [
                # The  ca   ts   sleep .   </s>
                [0.6, 0.1, 0.1, 0.1, 0.0, 0.1],  # I
                [0.1, 0.3, 0.3, 0.4, 0.0, 0.0],  # gatti: no token of it has the most, the word has
                [0.0, 0.0, 0.1, 0.3, 0.3, 0.3],  # dorm
                [0.2, 0.2, 0.2, 0.0, 0.0, 0.4],  # ono: counts together with dorm
            ]
        )
        target = [b" I", b" gatti", b" dorm", b"ono"]
        assert word_links(weights, SOURCE, target) == [(0, 0), (1, 1), (2, 2)][:2]
        weights[3] = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5, 0.0])
        assert word_links(weights, SOURCE, target) == [(0, 0), (1, 1), (2, 2)]

    def test_a_chinese_token_is_several_words(self) -> None:
        weights = torch.tensor([[0.0, 0.9, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
        assert word_links(weights, [b" Good", b" morning"], [" 早上".encode(), "好".encode(), "。".encode()]) == [
            (1, 0), (1, 1), (0, 2),
        ]  # fmt: skip
        reverse = torch.tensor([[0.7, 0.1, 0.2]])
        assert word_links(reverse, ["早上".encode(), "好".encode()], [b" Good"]) == [(0, 0)]

    def test_nothing_to_link(self) -> None:
        assert word_links(torch.zeros(0, 3), [b" a", b" b"], []) == []
        assert word_links(torch.ones(2, 1), [], [b" a", b" b"]) == []
        assert word_links(torch.ones(1, 2), [b" "], [b" a"]) == []


class TestRows:
    def test_output_and_input_rows_and_the_mean_over_heads_and_models(self) -> None:
        one, two = tiny_model(1, vocabulary=12), tiny_model(2, vocabulary=12)
        pair: Pair = ([4, 5, 6], [7, 8])
        a = force_all(one, [pair], 10, [(1, 0), (0, 1)])[0].attention
        b = force_all(two, [pair], 10, [(0, 0)])[0].attention
        models = [
            (one, AlignmentHeads(heads=((1, 0), (0, 1)))),
            (two, AlignmentHeads(heads=((0, 0),), at_input=True)),
        ]
        (found,) = token_alignments(models, [pair], 10)
        torch.testing.assert_close(found, (a[0, :2] + a[1, :2]) / 2 + b[0, 1:])

    @pytest.mark.parametrize(("layers", "expected"), [(1, 0), (2, 0), (6, 4)])
    def test_usual_heads_are_the_last_layer_but_one(self, layers: int, expected: int) -> None:
        settings = tiny_model(0, decoder_layers=layers).settings
        assert usual_heads(settings) == AlignmentHeads(heads=((expected, 0), (expected, 1)))

    def test_all_of_the_attention_of_a_pair(self) -> None:
        tokenizer = Tokenizer.train(["the cat sleeps il gatto dorme"] * 20, TokenizerSettings(vocab_size=275))
        model = tiny_model(3, vocabulary=len(tokenizer))
        languages = Languages(source="en", target="it")
        loaded = LoadedModel(model, Tokenizers(tokenizer, tokenizer), languages, DecodeSettings())
        found = attention(loaded, "the cat", "gatto")
        ids, said = tokenizer.encode("the cat"), tokenizer.encode("gatto")
        assert "".join(found.source) == "▁the▁cat"
        assert "".join(found.target) == "▁gatto"
        assert found.weights.shape == (2, 2, len(said) + 1, len(ids) + 1)
        (forced,) = force_all(model, [(ids, said)], 1, [(1, 0)])
        torch.testing.assert_close(found.weights[1, 0], forced.attention[0])


def a_text(draw: random.Random) -> list[Pair]:
    """Return pairs where token t of the source is t + 100 of the target, in another order."""
    pairs: list[Pair] = []
    for _ in range(200):
        source = draw.sample(range(10, 40), 6)
        pairs.append((source, [token + 100 for token in draw.sample(source, 6)]))
    return pairs


def test_anchors_are_translations_that_stand_once() -> None:
    pairs = a_text(random.Random(1))
    found = anchors([*pairs, ([11, 11, 12], [111, 112])])
    assert found[-1] == [] or [anchor.kind for anchor in found[-1]] == [(12, 112)], "11 stands twice"
    kinds = [anchor.kind for own in found for anchor in own]
    assert {b - a for a, b in kinds} == {100}
    assert len(set(kinds)) == 30
    assert max(kinds.count(kind) for kind in kinds) == 10
    for (source, target), own in zip(pairs, found, strict=False):
        for anchor in own:
            assert (source[anchor.source], target[anchor.target]) == anchor.kind


@pytest.mark.parametrize("at_input", [False, True])
def test_heads_that_point_right_are_found(monkeypatch: pytest.MonkeyPatch, at_input: bool) -> None:
    """Of four heads, one points right from half of the tokens, one from the other half, two anywhere."""
    pairs = a_text(random.Random(2))
    noise = torch.Generator().manual_seed(0)

    def pretending(model: Transformer, pairs: list[Pair], budget: int, heads: list[Head]) -> list[Forced]:
        found = []
        for source, target in pairs:
            weights = torch.rand(len(heads), len(target) + 1, len(source) + 1, generator=noise) / 10
            for place, token in enumerate(target):
                weights[1 if token % 2 else 2, place + at_input, source.index(token - 100)] += 1
            found.append(Forced([], weights))
        return found

    monkeypatch.setattr(alignment_heads, "force_all", pretending)
    assert best_heads(tiny_model(0), pairs, 100) == AlignmentHeads(heads=((0, 1), (1, 0)), at_input=at_input)


def test_a_text_without_anchors_decides_nothing() -> None:
    assert best_heads(tiny_model(0, vocabulary=12), [([4, 5], [6, 7])] * 3, 100) is None
    assert best_heads(tiny_model(0, vocabulary=12), [], 100) is None


def test_a_real_model_gives_heads_that_exist() -> None:
    model = tiny_model(0, vocabulary=150)
    found = best_heads(model, a_text(random.Random(3)), 100)
    assert found is not None
    assert set(found.heads) <= {(layer, head) for layer in range(2) for head in range(2)}
