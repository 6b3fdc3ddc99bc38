"""The replacement of `<unk>`: by hand from given attention, and in a translator with given outputs."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import RuntimeSettings, TokenizerSettings
from nmt.decoding import unknown
from nmt.decoding.beam import Hypothesis
from nmt.decoding.engine import TorchEngine, search_all
from nmt.decoding.forced_decoding import Pair
from nmt.decoding.models import BatchRunner
from nmt.decoding.options import SearchOptions
from nmt.decoding.unknown import text_with_words, words_attended, words_for_unknown
from nmt.errors import ConfigError
from nmt.export.ctranslate2_engine import ExportedModel
from nmt.text.protection import compare
from nmt.text.tokenizer import UNK, Tokenizer
from nmt.translation.translator import Translator
from tests.builders import LINES_WITH_ITEMS, SHORT_OUTPUT, spelling_model

COPY = ["decode.unknown=copy"]
MANY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A random model that sometimes generates `<unk>`: its vocabulary has no capitals, few letters, and no bytes."""
    model = spelling_model(byte_fallback=False)
    ((usual,),) = search_all(
        BatchRunner([model.model]), [model.tokenizers.source.encode("ŁÜ ÇÉ")], SearchOptions(beam=1)
    )
    weight = model.model.output.weight
    with torch.no_grad():
        weight[UNK] = weight[usual.tokens[0]] * 1.5
    return Translator(model, RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def spelling() -> Translator:
    """A random model with the same vocabulary that seldom generates `<unk>`."""
    return Translator(spelling_model(byte_fallback=False), RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the cat sleeps , l'anima di un gatto .", "«il cane» (dorme) ."]
    return Tokenizer.train(lines * 20, TokenizerSettings(vocab_size=32, byte_fallback=False))


def attended(source: list[bytes], *weights: float) -> str:
    (word,) = words_attended(torch.tensor([weights]), source)
    return word


class TestWords:
    def test_weights_of_the_tokens_of_a_word_are_added(self) -> None:
        source = [b" the", b" ", "Łó".encode(), b"d", "ź".encode(), b",", b" it"]
        assert attended(source, 0.25, 0.1, 0.1, 0.1, 0.1, 0.2, 0.1, 0.05) == "Łódź"
        assert attended(source, 0.45, 0.1, 0.1, 0.1, 0.1, 0.0, 0.1, 0.05) == "the"
        assert attended(source, 0.0, 0.5, 0.0, 0.0, 0.0, 0.4, 0.1, 0.0) == "Łódź", (
            "the token that only begins a word belongs to it"
        )

    def test_punctuation_is_not_part_of_a_word(self) -> None:
        source = [b" (", "«Łódź»".encode(), b").", b" O", b"'", b"Neill"]
        assert attended(source, 0, 0.9, 0, 0, 0, 0, 0.1) == "«Łódź»", "a token is never split"
        assert attended(source, 0, 0, 0, 0, 0, 0.9, 0.1) == "Neill"
        assert attended([b" the", b" ", "😀".encode(), b"!"], 0, 0, 0.9, 0, 0.1) == "😀"

    def test_tokens_are_words_in_languages_without_spaces(self) -> None:
        source = [" 我喜欢".encode(), "曦晟".encode(), "。".encode()]
        assert attended(source, 0.2, 0.5, 0.2, 0.1) == "曦晟"

    def test_the_sentence_end_is_no_word(self) -> None:
        assert attended([b" a", b" b"], 0.01, 0.02, 0.97) == "b"
        assert attended([], 1.0) == ""


class TestText:
    @pytest.mark.parametrize(
        ("text", "word", "expected"),
        [
            ("il Ł .", "Łódź", "il Łódź ."),
            ("l'Łódź .", "Łódź", "l'Łódź ."),
            ("«Łódź»", "Łódź", "«Łódź»"),
            ("il gatto Łódź (dorme)", "Müß", "il gatto Müß (dorme)"),
        ],
    )
    def test_the_whole_word_is_replaced(self, tokenizer: Tokenizer, text: str, word: str, expected: str) -> None:
        ids = tokenizer.encode(text)
        assert UNK in ids
        assert text_with_words(tokenizer, ids, [word] * ids.count(UNK)).strip() == expected

    def test_each_unknown_is_replaced_by_its_word(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode("Ł gatto Ü 曦")
        assert text_with_words(tokenizer, ids, ["Łukasz", "Ümit", "曦"]).strip() == "Łukasz gatto Ümit 曦"
        assert text_with_words(tokenizer, [UNK, UNK], ["A", "B"]) == "A B"


class FixedOutput:
    """An engine that translates every sentence into the same ids."""

    longest = None

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)

    def search(self, sentences: Sequence[Sequence[int]], *rest: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.ids, -1.0, -1.0)] for _ in sentences]


def test_unknown_words_are_those_that_the_heads_attend_to(monkeypatch: pytest.MonkeyPatch) -> None:
    model = spelling_model(byte_fallback=False)
    tokenizer = model.tokenizers.target
    translator = Translator(model, RuntimeSettings(device="cpu"))
    text = tokenizer.encode("il Wu dorme sul Xi")
    monkeypatch.setattr(translator, "engine", FixedOutput(text))
    line = "the ŁÜ sleeps on the ÇÉ"

    def diagonal(runner: object, heads: object, pairs: Sequence[Pair], budget: int) -> list[Tensor]:
        """Return attention of the n-th `<unk>` of the target to the n-th of the source."""
        tables = []
        for source, target in pairs:
            table = torch.zeros(len(target), len(source) + 1)
            places = [i for i, token in enumerate(source) if token == UNK]
            for row in [i for i, token in enumerate(target) if token == UNK]:
                table[row, places.pop(0)] = 1
            tables.append(table)
        return tables

    monkeypatch.setattr(unknown, "token_alignments", diagonal)
    options = translator.options(overrides=COPY)
    (first, second) = translator.translate([line, "a ß b Ç"], options)
    assert first.text == "il ŁÜ dorme sul ÇÉ"
    assert second.text == "il ß dorme sul Ç"
    assert first.log_prob == -1.0


def test_words_for_unknown_use_token_alignments(translator: Translator) -> None:
    (model,) = translator.models
    line, ids = "cat Łódź moon", [UNK, 5, UNK]
    runner, heads = BatchRunner([model.model]), unknown.alignment_heads_of([model])
    (table,) = unknown.token_alignments(runner, heads, [(model.tokenizers.source.encode(line), ids)], 10)
    spelled = model.tokenizers.source.spell_text(line)
    assert words_for_unknown(runner, [model], [("", []), (line, ids)], 10) == [
        None,
        words_attended(table[[0, 2]], spelled),
    ]


@MANY
@given(st.lists(st.text(max_size=20) | st.sampled_from(["the Łódź cat", "曦晟。", "{0} Ü <b>"]), max_size=6))
def test_every_translation_is_one_line(translator: Translator, lines: list[str]) -> None:
    for beam in (1, 2):
        options = translator.options(beam=beam, overrides=[*SHORT_OUTPUT, *COPY])
        translations = list(translator.translate(lines, options))
        assert [one.source for one in translations] == lines
        for one in translations:
            assert len(one.text.splitlines()) <= 1
            assert "<unk>" not in one.text
            assert "\ufdd1" not in one.text


def test_unknown_words_are_copied_only_with_unknown_copy(translator: Translator) -> None:
    line = "ŁÜ ÇÉ"
    copied, forbidden = (
        next(translator.translate([line], translator.options(overrides=overrides))).text for overrides in (COPY, ())
    )
    assert {"ŁÜ", "ÇÉ"} & set(copied.split())
    assert not set(line) - {" "} & set(forbidden)


@MANY
@given(LINES_WITH_ITEMS)
def test_copying_keeps_protected_text(spelling: Translator, line: str) -> None:
    copying, usual = (
        next(spelling.translate([line], spelling.options(overrides=[*SHORT_OUTPUT, *overrides])))
        for overrides in (COPY, [])
    )
    assert len(compare(line, copying.text).missing) <= len(compare(line, usual.text).missing)


def test_other_engines_refuse_unknown_copy() -> None:
    own = spelling_model(byte_fallback=False)
    engine = TorchEngine([own.model], RuntimeSettings(device="cpu"))  # in place of an engine of another program
    exported = Translator(ExportedModel(own.languages, own.decode, own.tokenizers, None, None, engine))
    with pytest.raises(ConfigError, match=r"decode\.unknown: copy: CTranslate2 cannot do that; translate with"):
        list(exported.translate(["a"], exported.options(overrides=COPY)))
