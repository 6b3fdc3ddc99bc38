"""Constraints on random models: required content is in every translation, whatever the model predicts."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import RuntimeSettings
from nmt.decoding import engine
from nmt.decoding.beam import Hypothesis
from nmt.system.console import Console
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.protection import NO_DIFF, compare
from nmt.text.tokenizer import UNK, Tokenizer
from nmt.translation.constraints import LONGEST_PHRASE, OutputConstraints
from nmt.translation.pipeline import LineInput, translate_stream
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import IMPROBABLE_COST, Alternative, TranslateOptions, Translator, join_alternatives
from tests.builders import LINES_WITH_ITEMS, spelling_model, tiny_tokenizers


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(spelling_model(), RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return spelling_model().tokenizers.target


def constraints_for(
    tokenizer: Tokenizer, language: str = "it", terms: dict[str, str] | None = None
) -> OutputConstraints:
    return OutputConstraints(tokenizer, language, Glossary(terms) if terms else None, protect=True, typography=True)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(LINES_WITH_ITEMS, max_size=4))
def test_translations_contain_all_items(translator: Translator, lines: list[str]) -> None:
    translations = list(translator.translate(lines, translator.options()))
    assert [translation.source for translation in translations] == lines
    for translation in translations:
        assert not compare(translation.source, translation.text).missing
        assert translation.diff.surplus == compare(translation.source, translation.text).surplus


@pytest.mark.parametrize("target", ["gatto", "MICIO", "☃ Ünï-çødé", "狗", "l'altra", "x y z"])
def test_translations_contain_target_terms_exactly(translator: Translator, target: str) -> None:
    options = replace(translator.options(), glossary=Glossary({"cat": target, "the mat": "tappeto"}))
    lines = ["the cat and the Cat", "a cat {0}", "on the mat", "no term", "cat" * 3, ""]
    found = list(translator.translate(lines, options))
    assert not missing_terms([target, target], found[0].text)
    assert not missing_terms([target], found[1].text)
    assert "{0}" in found[1].text
    assert not missing_terms(["tappeto"], found[2].text)
    assert [one.text for one in found[3:]] == [one.text for one in translator.translate(lines[3:])]
    assert not any(any(one.diff) for one in found)


def test_only_lines_with_missing_content_are_searched_again(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = engine.search

    def counting(decoder: object, source: torch.Tensor, *rest: object) -> list[list[Hypothesis]]:
        searched.append(source.size(0))
        return search(decoder, source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "search", counting)
    list(translator.translate(["the cat", "the moon {0}", "a mat"]))
    assert sum(searched) == 4
    searched.clear()
    unprotected = translator.options(overrides=["decode.protect=false"])
    list(translator.translate(["the cat", "the moon {0}", "a mat"], unprotected))
    assert sum(searched) == 3


def test_translation_of_a_line_does_not_depend_on_the_others(translator: Translator) -> None:
    lines = ["cat {0}", "the {1} mat https://x.org", "moon", "%s %s"]
    together = [one.text for one in translator.translate(lines)]
    assert together == [next(iter(translator.translate([line]))).text for line in lines]


def spellings(constraints: OutputConstraints, line: str) -> list[str]:
    pieces = constraints.tokenizer.pieces
    return ["".join(pieces[i] for i in phrase) for phrase in constraints.phrases(line, "").phrases]


def test_phrases_include_brackets_and_word_boundaries(tokenizer: Tokenizer) -> None:
    """Items are `<unk>`, with the quotes that enclose them; a Chinese term has no word boundary."""
    italian, chinese = (constraints_for(tokenizer, language, {"cat": "QX"}) for language in ("it", "zh"))
    assert spellings(italian, "the cat {0}") == ["▁<0x51><0x58>", "<unk>"]
    assert spellings(chinese, "the cat") == ["<0x51><0x58>"]
    gatto = tokenizer.encode("gatto")
    assert italian.text("a '{0}' {1}, x", [*gatto, UNK, *gatto, UNK]) == "gatto '{0}' gatto {1}"
    assert italian.text("({0} cats)", [*gatto, UNK]) == "gatto ({0}"
    assert italian.text("cat</b>", [*gatto, UNK]) == "gatto</b>"
    assert chinese.text("cat {0}", [*gatto, UNK]) == "gatto{0}"


def test_long_items_are_searched_as_unk(tokenizer: Tokenizer) -> None:
    long = "https://x.org/" + "a" * LONGEST_PHRASE
    constraints = constraints_for(tokenizer)
    assert constraints.phrases(f"see {long} or {{0}}", "").phrases[0] == (UNK,)
    ids = [*tokenizer.encode("il gatto"), UNK, *tokenizer.encode("dorme ."), UNK]
    line = f"see {long} or {long}b"
    assert constraints.text(line, ids) == f"il gatto {long} dorme. {long}b"
    assert constraints.text("nothing", ids) == "il gatto dorme."


def test_typography_does_not_change_terms_and_items(tokenizer: Tokenizer) -> None:
    constraints = constraints_for(tokenizer, terms={"cat": "perche' ,"})
    text = constraints.text("cat", tokenizer.encode("perche' , e perche' no ?"))
    assert text == "perche' , e perché no?"
    plain = replace(constraints, typography=False)
    assert plain.text("cat", tokenizer.encode("no ?")) == "no ?"


def test_diff_lists_missing_and_surplus_content(tokenizer: Tokenizer) -> None:
    constraints = constraints_for(tokenizer, terms={"cat": "gatto"})
    line = "The cat {0} in 1984"
    assert constraints.diff(line, "Il gatto {0}") == NO_DIFF
    assert constraints.diff(line, "Il {1}") == (("{0}", "gatto"), ("{1}",))
    assert constraints.diff_with_numbers(line, "Il gatto {0}").missing == ("1984",)
    assert replace(constraints, protect=False).diff_with_numbers(line, "x") == (("gatto",), ())


@pytest.mark.parametrize(
    ("line", "ends_before", "begins_sentence"),
    [
        ("The cat sleeps.", 0, False),
        ("It rains. The cat sleeps. We go.", 1, True),
        ("Mr. Mat has a cat.", 0, False),
        ("Version 3.5 of {0}!", 1, False),
        ("Look! It rains. Open {0}", 2, True),
    ],
)
def test_sentences_before_a_phrase_are_those_of_the_line(
    tokenizer: Tokenizer, line: str, ends_before: int, begins_sentence: bool
) -> None:
    found = constraints_for(tokenizer, terms={"cat": "gatto"}).phrases(line, "")
    assert (found.max_final_punctuation, found.may_begin_sentence) == (ends_before, begins_sentence)


def test_tokens_of_word_boundaries_are_those_of_the_vocabulary() -> None:
    text = ["il gatto ... dorme . . .", "dov'è l'amico ? no ! sì … è un' amica - ex-re ."]
    tokenizer = tiny_tokenizers(text, 288).target
    constraints = constraints_for(tokenizer, terms={"cat": "amico"})
    pieces = tokenizer.table.surfaces

    def found(line: str, name: str) -> set[str]:
        return {pieces[i] for i in getattr(constraints.phrases(line, ""), name) if pieces[i]}

    assert {"."} <= found("a cat", "final_punctuation")
    assert not {"...", "…", ".."} & found("a cat", "final_punctuation")
    assert {"'"} <= found("a cat", "word_continuations")
    assert not {"'"} & found("a 'cat'", "word_continuations"), "a closing quote may follow"
    assert found("a cat", "elisions") == {piece for piece in pieces if piece.endswith("'")}
    consonant = constraints_for(tokenizer, terms={"cat": "gatto"}).phrases("a cat", "")
    assert consonant.elisions == frozenset()


@pytest.mark.parametrize("line", ["the cat sleeps .", "the cat {0}"])
def test_cost_is_the_difference_of_log_probabilities(translator: Translator, line: str) -> None:
    terms = Glossary({"cat": "QX"})
    plain = next(iter(translator.translate([line], translator.options(overrides=["decode.protect=false"]))))
    options = replace(translator.options(), glossary=terms)
    found, other = translator.translate([line, "the moon"], options)
    assert plain.constraint_cost is None
    assert other.constraint_cost is None
    assert found.constraint_cost == pytest.approx(plain.log_prob - found.log_prob, abs=1e-4)
    assert found.is_improbable == (found.constraint_cost > IMPROBABLE_COST)
    assert json.loads(found.as_json())["constraint_cost"] == pytest.approx(found.constraint_cost, abs=1e-3)
    assert json.loads(found.as_json())["improbable"] == found.is_improbable
    assert "constraint_cost" not in json.loads(other.as_json())


def test_cost_of_a_line_is_the_sum_of_its_segments() -> None:
    found = [[Alternative("a", -1.0, 2.0)], [Alternative("b", -1.0)], [Alternative("c", -1.0, 7.0)]]
    line = join_alternatives("A. B. C.", ["A. ", "B. ", "C."], found)
    assert (line.constraint_cost, line.is_improbable) == (9.0, False)
    assert join_alternatives("B.", ["B."], found[1:2]).constraint_cost is None


def test_improbable_constraints_are_marked_with_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator(spelling_model(), RuntimeSettings(device="cpu"))
    options = replace(translator.options(), glossary=Glossary({"cat": "☃ Ünï-çødé", "mat": "tappeto"}))
    lines, output = ["the moon", "the cat", "a mat"], io.BytesIO()
    costs = [one.constraint_cost or 0.0 for one in translator.translate(lines, options)]
    assert costs[1] > IMPROBABLE_COST
    source = LineInput(io.BytesIO("\n".join(lines).encode()))
    translate_stream(translator, source, StreamOutput(output), options, False, Console())
    marked = [f"{number} ({cost:.1f})" for number, cost in enumerate(costs, 1) if cost > IMPROBABLE_COST]
    noun = "line" if len(marked) == 1 else "lines"
    warning = " ".join(capsys.readouterr().err.split())
    problem = "has terms or placeholders that lower its log-probability by more than 10"
    assert f"{len(marked)} {noun} whose translation {problem}: {', '.join(marked)}; check" in warning


class UnconstrainedEngine:
    """An engine that ignores the constraints and returns the same translation of every sentence."""

    longest = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def search(self, sentences: Sequence[Sequence[int]], *rest: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(self._tokenizer.encode("il gatto ."), -1.0, -1.0)] for _ in sentences]


def test_translate_stream_warns_of_lines_with_missing_content(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator(spelling_model())
    translator.engine = UnconstrainedEngine(tokenizer)
    output = io.BytesIO()
    source = io.BytesIO(b"the cat\nthe {0}\n2 cats\n1984\n")
    options = translator.options()
    translate_stream(translator, LineInput(source), StreamOutput(output), options, True, Console())
    found = [json.loads(line) for line in output.getvalue().splitlines()]
    assert ["missing" in one for one in found] == [False, True, False, True]
    assert (found[1]["missing"], found[1]["surplus"]) == (["{0}"], [])
    assert "2 lines whose translation differs from its source in URLs" in (warning := capsys.readouterr().err)
    assert "terms or numbers: 2, 4; --json lists them" in warning


def test_of_many_lines_with_differences_the_first_are_listed(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator(spelling_model())
    translator.engine = UnconstrainedEngine(tokenizer)
    lines = LineInput(io.BytesIO(b"1984\n" * 11))
    translate_stream(translator, lines, StreamOutput(io.BytesIO()), translator.options(), False, Console())
    warning = capsys.readouterr().err
    assert "11 lines whose translation differs from its source in URLs, placeholders, tags, terms or" in warning
    assert "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …; --json lists" in warning


def test_warning_after_resuming_concerns_later_lines_only(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator(spelling_model())
    translator.engine = UnconstrainedEngine(tokenizer)
    output = StreamOutput(io.BytesIO())
    output.lines = 3  # as after resuming
    lines = LineInput(io.BytesIO(b"the cat\nthe {0}\n"))
    translate_stream(translator, lines, output, translator.options(), False, Console())
    messages = capsys.readouterr().err
    assert "3 lines done before; continuing after them" in messages
    assert (
        "after line 3, where this process continued, 1 line whose translation differs from its source in URLs"
        in messages
    )
    assert "numbers: 5;" in messages


def test_options_apply_overrides(translator: Translator) -> None:
    options = translator.options(overrides=["decode.protect=false", "decode.typography=false"])
    assert (options.search.protect, options.search.typography) == (False, False)
    assert isinstance(options, TranslateOptions)
