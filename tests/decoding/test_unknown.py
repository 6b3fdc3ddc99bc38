"""What `<unk>` becomes: by hand on made-up attention, and through a translator whose model says what it is told."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import RuntimeSettings, TokenizerSettings
from nmt.decoding import unknown
from nmt.decoding.batched_search import search_all
from nmt.decoding.engine import TorchEngine
from nmt.decoding.forced_decoding import Pair
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.unknown import text_with_words, words_attended, words_for_unknown
from nmt.errors import ConfigError
from nmt.export.ctranslate2_engine import ExportedModel
from nmt.text.protection import compare
from nmt.text.tokenizer import UNK, Tokenizer
from nmt.translation.translator import Translator
from tests.translation.test_constraints import LINES, loaded

COPY = ["decode.unknown=copy"]
MANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A random model whose vocabulary knows no capitals, few letters, and no bytes; it says `<unk>` now and then."""
    model = loaded(byte_fallback=False)
    ((usual,),) = search_all(model.model, [model.tokenizers.source.encode("ŁÜ ÇÉ")], SearchOptions(beam=1), 100)
    weight = model.model.output.weight
    with torch.no_grad():
        weight[UNK] = weight[usual.tokens[0]] * 1.5
    return Translator(model, RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the cat sleeps , l'anima di un gatto .", "«il cane» (dorme) ."]
    return Tokenizer.train(lines * 20, TokenizerSettings(vocab_size=32, byte_fallback=False))


def attended(source: list[bytes], *weights: float) -> str:
    (word,) = words_attended(torch.tensor([weights]), source)
    return word


class TestWords:
    def test_tokens_of_a_word_count_together(self) -> None:
        source = [b" the", b" ", "Łó".encode(), b"d", "ź".encode(), b",", b" it"]
        assert attended(source, 0.25, 0.1, 0.1, 0.1, 0.1, 0.2, 0.1, 0.05) == "Łódź"
        assert attended(source, 0.45, 0.1, 0.1, 0.1, 0.1, 0.0, 0.1, 0.05) == "the"
        assert attended(source, 0.0, 0.5, 0.0, 0.0, 0.0, 0.4, 0.1, 0.0) == "Łódź", (
            "the mark of its beginning is its own"
        )

    def test_marks_around_a_word_are_no_part_of_it(self) -> None:
        source = [b" (", "«Łódź»".encode(), b").", b" O", b"'", b"Neill"]
        assert attended(source, 0, 0.9, 0, 0, 0, 0, 0.1) == "«Łódź»", "one token is never cut"
        assert attended(source, 0, 0, 0, 0, 0, 0.9, 0.1) == "Neill"
        assert attended([b" the", b" ", "😀".encode(), b"!"], 0, 0, 0.9, 0, 0.1) == "😀"

    def test_without_spaces_a_token_is_a_word(self) -> None:
        source = [" 我喜欢".encode(), "曦晟".encode(), "。".encode()]
        assert attended(source, 0.2, 0.5, 0.2, 0.1) == "曦晟"

    def test_the_sentence_end_is_no_word(self) -> None:
        assert attended([b" a", b" b"], 0.01, 0.02, 0.97) == "b"
        assert attended([], 1.0) == ""


class TestText:
    @pytest.mark.parametrize(
        ("said", "word", "expected"),
        [
            ("il Ł .", "Łódź", "il Łódź ."),
            ("l'Łódź .", "Łódź", "l'Łódź ."),
            ("«Łódź»", "Łódź", "«Łódź»"),
            ("il gatto Łódź (dorme)", "Müß", "il gatto Müß (dorme)"),
        ],
    )
    def test_it_takes_the_place_of_the_whole_word(
        self, tokenizer: Tokenizer, said: str, word: str, expected: str
    ) -> None:
        ids = tokenizer.encode(said)
        assert UNK in ids
        assert text_with_words(tokenizer, ids, [word] * ids.count(UNK)).strip() == expected

    def test_each_has_its_own(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode("Ł gatto Ü 曦")
        assert text_with_words(tokenizer, ids, ["Łukasz", "Ümit", "曦"]).strip() == "Łukasz gatto Ümit 曦"
        assert text_with_words(tokenizer, [UNK, UNK], ["A", "B"]) == "A B"


class Saying:
    """Translates every sentence into the same ids, and may say `<unk>`."""

    longest = None

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)

    def search(self, sentences: Sequence[Sequence[int]], *rest: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.ids, -1.0, [], -1.0)] for _ in sentences]


def test_a_sentence_has_the_words_that_the_chosen_heads_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(byte_fallback=False)
    tokenizer = model.tokenizers.target
    translator = Translator(model, RuntimeSettings(device="cpu"))
    said = tokenizer.encode("il Wu dorme sul Xi")
    monkeypatch.setattr(translator, "_engine", Saying(said))
    line = "the ŁÜ sleeps on the ÇÉ"

    def diagonal(models: object, pairs: Sequence[Pair], budget: int, workers: object = None) -> list[Tensor]:
        """Let the unknown look at the unknown, the first at the first."""
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


def test_attention_is_that_of_forced_decoding(translator: Translator) -> None:
    (model,) = translator.models
    line, ids = "cat Łódź moon", [UNK, 5, UNK]
    table = unknown.token_alignments(unknown.with_heads([model]), [(model.tokenizers.source.encode(line), ids)], 10)[0]
    spelled = model.tokenizers.source.spell_text(line)
    assert words_for_unknown([model], [("", []), (line, ids)], 10) == [[], words_attended(table[[0, 2]], spelled)]


@MANY
@given(st.lists(st.text(max_size=20) | st.sampled_from(["the Łódź cat", "曦晟。", "{0} Ü <b>"]), max_size=6))
def test_every_line_is_one_line(translator: Translator, lines: list[str]) -> None:
    for beam in (1, 2):
        options = translator.options(beam=beam, overrides=COPY)
        translations = list(translator.translate(lines, options))
        assert [one.source for one in translations] == lines
        for one in translations:
            assert len(one.text.splitlines()) <= 1
            assert "<unk>" not in one.text
            assert "\ufdd1" not in one.text


def test_unknown_words_are_copied_only_if_wanted(translator: Translator) -> None:
    line = "ŁÜ ÇÉ"
    copied, forbidden = (
        next(translator.translate([line], translator.options(overrides=overrides))).text for overrides in (COPY, ())
    )
    assert {"ŁÜ", "ÇÉ"} & set(copied.split())
    assert not set(line) - {" "} & set(forbidden)


@MANY
@given(LINES)
def test_what_must_survive_does_so_all_the_same(line: str) -> None:
    translator = Translator(loaded(byte_fallback=False), RuntimeSettings(device="cpu"))
    copying, usual = (
        next(translator.translate([line], translator.options(overrides=overrides))) for overrides in (COPY, ())
    )
    assert len(compare(line, copying.text).missing) <= len(compare(line, usual.text).missing)


def test_other_programs_refuse_it() -> None:
    own = loaded(byte_fallback=False)
    engine = TorchEngine(own.model, RuntimeSettings(device="cpu"))  # stands for any other program's
    exported = Translator(ExportedModel(engine, own.tokenizers, own.languages, own.decode))
    with pytest.raises(ConfigError, match=r"decode\.unknown: copy: CTranslate2 cannot do that; translate with"):
        list(exported.translate(["a"], exported.options(overrides=COPY)))
