"""Placement of items and terms: by hand, as properties, and on random models, which lose all of them."""

import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import RuntimeSettings
from nmt.decoding import engine
from nmt.decoding.alignment import Links
from nmt.decoding.beam import Hypothesis
from nmt.decoding.forced_decoding import Forced
from nmt.decoding.options import SearchOptions
from nmt.system.console import Console
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.normalize import normalize
from nmt.text.protection import NO_DIFF, compare, items
from nmt.text.words import words
from nmt.translation.pipeline import LineInput, translate_stream
from nmt.translation.placement import Phrase, cut_items, place
from nmt.translation.requirements import TranslateOptions
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Alternative, Segment, Translator
from tests.builders import LINES_WITH_ITEMS, PROTECTED_ITEMS, spelling_model

DIAGONAL: Links = [(i, i) for i in range(9)]


@pytest.mark.parametrize(
    ("line", "rest", "spans"),
    [
        ("Open {0} now.", "Open now.", [("{0}", 5)]),
        ("{0} of {1} files", "of files", [("{0}", 0), ("{1}", 3)]),
        ("Argument '{0}' is missing", "Argument is missing", [("'{0}'", 9)]),
        ("Save (%s)", "Save", [("(%s)", 5)]),
        ("{0} {1}", "", [("{0}", 0), ("{1}", 0)]),
        ("l'{0}!", "l'!", [("{0}", 2)]),
        ("打开{0}吗", "打开吗", [("{0}", 2)]),
    ],
)
def test_items_are_cut_out_with_their_brackets(line: str, rest: str, spans: list[tuple[str, int]]) -> None:
    found, phrases = cut_items(line)
    assert found == rest
    assert [(phrase.text, phrase.start) for phrase in phrases] == spans


@pytest.mark.parametrize(
    ("line", "text", "links", "expected"),
    [
        # behind the word aligned with the left neighbour, wherever that is
        ("Open {0} now.", "Ora apri.", [(0, 1), (1, 0)], "Ora apri {0}."),
        ("The file {0} of {1} is lost", "Il file di è perso", [(1, 1), (2, 2), (3, 3)], "Il file {0} di {1} è perso"),
        # before that of the right neighbour if there is no left one, or if the item is joined to the right one only
        ("{0} files", "file", DIAGONAL, "{0} file"),
        ("Show the {0}th page", "Mostra la pagina", [(0, 0), (2, 2), (3, 2)], "Mostra la {0}pagina"),
        # punctuation: as in the source before the item, and never behind the end of the sentence
        ("Error: {0}.", "Errore: .", DIAGONAL, "Errore: {0} ."),
        ("Hello, {0}!", "Ciao!", DIAGONAL, "Ciao {0}!"),
        ("Open {0}", "Apri.", DIAGONAL, "Apri {0}."),
        ("Done. {0}", "Fatto.", DIAGONAL, "Fatto. {0}"),
        ("See '{0}' and (%s)!", "Vedi e!", [(0, 0), (1, 1)], "Vedi '{0}' e (%s)!"),
        # words without links: the next neighbour that has one, else the end or the beginning
        ("Open the {0} now", "Apri ora", [(0, 0)], "Apri {0} ora"),
        ("Open {0}", "Apri tutto", [], "Apri tutto {0}"),
        ("{0}: open", "Apri", [], "{0} Apri"),
        ("l'{0} x", "l' x", [(0, 0), (1, 1)], "l'{0} x"),
    ],
)
def test_items_are_placed_by_hand(line: str, text: str, links: Links, expected: str) -> None:
    rest, phrases = cut_items(line)
    assert place(text, phrases, rest, links) == expected


def test_chinese_items_have_no_spaces() -> None:
    line, phrases = cut_items("Open {0} and {1}.")
    assert place("打开和。", phrases, line, [(0, 0), (0, 1), (1, 2), (2, 3)], spaced=False) == "打开{0}和{1}。"


@pytest.mark.parametrize(
    ("line", "term", "text", "links", "expected"),
    [
        ("A glass of wine.", "vino rosso", "Un bicchiere di vino.", DIAGONAL, "Un bicchiere di vino rosso."),
        ("The big wine is here", "vino", "Il grande liquido qui", [(1, 1), (2, 2), (4, 3)], "Il grande vino qui"),
        ("My wine", "amico", "L'altro, mio", [(1, 0), (0, 1)], "L'amico, mio"),
        ("My red wine", "vino", "Il mio", [(0, 1)], "Il mio vino"),
        ("I drink wine.", "酒", "我喝水。", [(0, 0), (1, 1), (2, 2)], "我喝酒。"),
    ],
)
def test_terms_replace_the_words_aligned_with_theirs(
    line: str, term: str, text: str, links: Links, expected: str
) -> None:
    start = line.index("wine")
    spaced = term.isascii()
    assert place(text, [Phrase(term, start, start + 4)], line, links, spaced) == expected


def test_phrases_follow_the_prefix() -> None:
    line, phrases = cut_items("Open {0} now")
    assert place("Ora apri subito", phrases, line, [(0, 0), (1, 2)], begin=8) == "Ora apri {0} subito"
    wine = [Phrase("vino", 0, 4)]
    assert place("Acqua e pane", wine, "wine and bread", DIAGONAL, begin=5) == "Acqua vino e pane"


@given(st.lists(st.sampled_from([*PROTECTED_ITEMS, "cat", "moon,", "mat"]), max_size=8).map(" ".join))
def test_items_return_to_a_line_that_is_its_own_translation(line: str) -> None:
    rest, phrases = cut_items(line)
    links = [(i, i) for i in range(len(words(rest)))]
    assert normalize(place(rest, phrases, rest, links)) == line


@given(LINES_WITH_ITEMS, st.lists(st.sampled_from(["il", "gatto,", "luna", "mai."]), max_size=5), st.data())
def test_every_item_is_placed_once_between_unchanged_words(line: str, target: list[str], data: st.DataObject) -> None:
    rest, phrases = cut_items(line)
    pairs = st.tuples(st.integers(0, max(0, len(words(rest)) - 1)), st.integers(0, max(0, len(target) - 1)))
    links = data.draw(st.lists(pairs, max_size=6)) if rest and target else []
    placed = place(" ".join(target), phrases, rest, links)
    assert Counter(item.text for item in items(placed)) == Counter(item.text for item in items(line))
    for phrase in phrases:
        placed = placed.replace(phrase.text, "", 1)
    assert "".join(placed.split()) == "".join(target)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(spelling_model(), RuntimeSettings(device="cpu"))


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


def test_only_lines_without_their_items_are_searched_again(
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
    assert together[3] == "%s %s", "a line without words is copied"


@pytest.mark.parametrize("sampling", ["null", "{}"])
def test_alternatives_and_samples_have_the_items_too(translator: Translator, sampling: str) -> None:
    options = translator.options(n_best=3, overrides=[f"decode.sampling={sampling}"])
    translation = translator.translate("the cat {0} sleeps", options)
    for text in (translation.text, *(one.text for one in translation.alternatives)):
        assert compare(translation.source, text) == NO_DIFF


@pytest.mark.parametrize(
    ("log_prob", "expected"),
    [  # the second text is the more probable one, and its end is translated anew behind the whole word
        (-9.0, [("il gatto ed il gattone", -8.0)]),
        # no text is: the model does not know the term, so the first hypothesis stays, without a new end
        (-90.0, [("lo gatto e il gattone", -99.0)]),
    ],
)
def test_terms_are_put_into_the_text_that_is_most_probable_with_them(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, log_prob: float, expected: list[tuple[str, float]]
) -> None:
    line, searched = "the cat and the big cat", list[str]()
    plain = Alternative("la micia e la grande micia", -1.0)
    texts = {plain.text: -1.0, "lo gatto e il gattone": -99.0, "il gatto e il gattone": log_prob}
    segment = Segment(line, line, [], "", line, found=[Alternative(text, 0.0) for text in list(texts)[1:]])

    def search(segments: list[Segment], _: TranslateOptions) -> None:
        for one in segments:
            searched.append(one.prefix)
            one.found = [Alternative(f"{one.prefix} ed il gattone", -8.0 if one.prefix == "il gatto" else -50.0)]

    monkeypatch.setattr(translator, "_search", search)
    monkeypatch.setattr(
        translator,
        "force",
        lambda pairs, _: [Forced([texts[text]], np.zeros((0, 0, 0), np.float32)) for _, text in pairs],
    )
    translator._choose_by_terms([(segment, plain)], options_for({"cat": "gatto"}))
    assert segment.found == expected
    assert searched == (["lo gatto", "il gatto"] if log_prob > -20 else [])


def test_log_prob_of_a_text_with_a_term_is_that_of_forced_decoding(translator: Translator) -> None:
    options = replace(translator.options(), glossary=Glossary({"cat": "gatto"}))
    (found,) = translator.translate(["the cat"], options)
    (forced,) = translator.force([(found.source, found.text)], options)
    assert found.log_prob == pytest.approx(sum(forced.token_log_probs), abs=1e-3)
    assert [*translator.translate(["no term"], options)] == [*translator.translate(["no term"])]


def options_for(terms: dict[str, str], **changes: bool) -> TranslateOptions:
    return TranslateOptions(search=SearchOptions(**changes), longest_source=50, glossary=Glossary(terms), to="it")


def test_typography_does_not_change_terms_and_items() -> None:
    options = replace(options_for({"cat": "猫 , 猫"}), to="zh")
    assert options.finished("cat", "", "猫 , 猫 , 好 ?") == "猫 , 猫，好？"
    assert replace(options_for({}, typography=False), to="zh").finished("cat", "", "好 ?") == "好 ?"


def test_diff_lists_missing_and_surplus_content() -> None:
    options = options_for({"cat": "gatto"})
    line = "The cat {0} in 1984"
    assert options.diff(line, "Il gatto {0} nel 1984") == NO_DIFF
    assert options.diff(line, "Il {1} nel 1984") == (("{0}", "gatto"), ("{1}",))
    assert options.diff(line, "Il gatto {0}").missing == ("1984",)
    assert options_for({"cat": "gatto"}, protect=False).diff(line, "x") == (("gatto",), ())


def test_lines_with_differences_are_counted_and_the_first_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """A random model does not know 1984."""
    translator = Translator(spelling_model())
    output, lines = io.BytesIO(), LineInput(io.BytesIO(b"the cat\n1984\n" * 11))
    translate_stream(translator, lines, StreamOutput(output), translator.options(), True, Console())
    found = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [one.get("missing") for one in found] == [None, ["1984"]] * 11
    warning = capsys.readouterr().err
    assert "11 lines whose translation differs from its source in URLs, placeholders, tags, terms or" in warning
    assert "numbers: 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, …; --json lists them" in warning


def test_warning_after_resuming_concerns_later_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator(spelling_model())
    output, lines = StreamOutput(io.BytesIO()), LineInput(io.BytesIO(b"the cat\n1984\n"))
    output.lines = 3  # as after resuming
    output.remaining = lambda lines: lines  # type: ignore[method-assign]
    translate_stream(translator, lines, output, translator.options(), False, Console())
    messages = capsys.readouterr().err
    assert "3 lines done before; continuing after them" in messages
    assert "after line 3, where this process continued, 1 line whose translation differs from its source" in messages
