"""Places of items and terms: by hand, as properties, and on random models."""

import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import RuntimeSettings
from nmt.decoding import torch_engine
from nmt.decoding.forced_decoding import Forced
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Hypothesis
from nmt.decoding.search import Models, search
from nmt.system.console import Console
from nmt.text.content import NO_DIFF, content_diff
from nmt.text.glossary import Glossary, Term, missing_terms
from nmt.text.items import ITEM, NO_TEXT, Item, Line, joined, pairs_of, read, with_signs
from nmt.text.words import Links, words
from nmt.translation import placing
from nmt.translation import translator as translating
from nmt.translation.options import TranslateOptions
from nmt.translation.pipeline import LineInput, translate_stream
from nmt.translation.placing import edges, gap, place, place_terms, recased
from nmt.translation.result import Alternative, Unit, joined_units
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator
from tests.builders import LINES_WITH_ITEMS, SHORT_OUTPUT, spelling_model, tiny_loaded_model, tiny_tokenizers
from tests.time_limit import seconds_of_the_processor

DIAGONAL: Links = [(i, i) for i in range(9)]
PARTS = ["<b>", "</b>", "<i>", "</i>", "<br/>", "{\\an8}", "{0}", "{1}", "%s", "%d", "cat", "moon.", " ", "(", "我"]
LINES = st.lists(st.sampled_from(PARTS), max_size=12).map(lambda parts: read("".join(parts)))


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("{0}: <b>files</b> ", ("{0}: <b>", "files", "</b> ")),
        ("{0} - <b>a</b> file", ("{0} - ", "<b>a</b> file", "")),
        ("<b><i>a</i> file</b>!", ("", "<b><i>a</i> file</b>!", "")),
        ("<a></a>{0}-based <i>b</i>", ("<a></a>{0}", "-based <i>b</i>", "")),
        ("{0} {1}", ("{0} {1}", "", "")),
    ],
)
def test_edges_have_items_and_spaces_but_no_part_of_a_pair(line: str, parts: tuple[str, str, str]) -> None:
    assert tuple(map(str, edges(read(line)))) == parts


@given(LINES)
def test_edges_join_to_the_line(line: Line) -> None:
    assert joined(edges(line)) == line


@pytest.mark.parametrize(
    ("line", "text", "links", "expected"),
    [
        ("the <b>red</b> house", "la casa rossa", [(0, 0), (1, 2), (2, 1)], "la casa <b>rossa</b>"),
        ("the <b>red</b>, old house", "la vecchia casa, rossa", [(0, 0), (2, 1), (3, 2), (1, 3)],
         "la vecchia casa, <b>rossa</b>"),
        ('the "<b>cat</b>" and "<i>dog"</i>', 'il "gatto" e "cane"', DIAGONAL, 'il "<b>gatto</b>" e "<i>cane"</i>'),
        ("<b>Note:</b> it rains.", "Nota: piove.", [(0, 0), (2, 1)], "<b>Nota:</b> piove."),
        ("a <b><i>b</i> c</b> d", "d c b a", [(3, 0), (2, 1), (1, 2), (0, 3)], "d <b>c <i>b</i></b> a"),
        ("a <b>b</b> <i>c</i>", "c b a", [(2, 0), (1, 1), (0, 2)], "<i>c</i> <b>b</b> a"),
        ("the <b>cat</b>", "वह बिल्ली बेचता है।", [(0, 0), (1, 2)], "वह बिल्ली <b>बेचता</b> है।"),
        ("A <b>cat</b>.", "一只猫。", [(0, 0), (1, 2), (1, 3)], "一只<b>猫</b>。"),
        ("我<b>喜欢</b>猫。", "Amo i gatti.", [(1, 0), (3, 1), (3, 2)], "<b>Amo</b> i gatti."),
        ("The Intel® <b>chip<wbr></b> heats", "Scalda il chip Intel", [(3, 0), (0, 1), (2, 2), (1, 3)],
         "Scalda il <b>chip<wbr></b> Intel®"),
        # in a word
        ("H<sub>2</sub>O, a<i>b</i>", "H2O, c", DIAGONAL, "H<sub>2</sub>O, <i>c</i>"),
        # without links: at the same share of the words
        ("See <a href='x>y'>this</a>.", "Vedi questo.", [], "Vedi <a href='x>y'>questo</a>."),
        ("x <b>y</b>", "", [], "<b></b>"),
        # without a word in it
        ("one <b></b> two", "due uno", [(0, 1), (1, 0)], "due uno<b></b>"),
        # items of a term
        ("a <b>cat</b>", "un gatto <i> qui", [(0, 0), (1, 1), (1, 2)], "un <b>gatto <i></b> qui"),
        ("a <b>cat</b>", "un <a href='x y'>gatto</a>.", [(0, 0), (1, 3)], "un <b><a href='x y'>gatto</a></b>."),
    ],
)  # fmt: skip
def test_pairs_are_placed_by_hand(line: str, text: str, links: Links, expected: str) -> None:
    assert str(place(read(line), text, links)) == expected


@given(LINES, st.sampled_from(["", "uno", "uno due, tre. quattro", "我们两"]), st.integers(0, 3), st.data())
def test_every_item_is_placed_once_and_nested(line: Line, text: str, begin: int, data: st.DataObject) -> None:
    links = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)))) if text else []
    begin = min(begin, len(text))
    placed = place(line, text, [(i, j) for i, j in links if j < len(words(text))], begin)
    assert Counter(placed.items) == Counter(line.items)
    assert placed.text.replace(ITEM, "") == text or " " in line.text  # whose spaces beside items stay
    assert placed.text.replace(ITEM, "").replace(" ", "") == text.replace(" ", "")
    assert ITEM not in placed.text[:begin]
    pairs = [sorted((each.items[a], each.items[b]) for a, b in pairs_of(each.items).items()) for each in (line, placed)]
    assert pairs[0] == pairs[1] or not is_nested(line)
    assert is_nested(placed) or not is_nested(line)


def is_nested(line: Line) -> bool:
    try:
        ElementTree.fromstring(f"<text>{''.join(item.text for item in line.items)}</text>")
    except ElementTree.ParseError:
        return False
    return True


def test_many_pairs_take_linear_time() -> None:
    line = read(" ".join(f"<b>word{index}</b>" for index in range(10_000)))
    text = placing.text_and_places(line)[0]
    with seconds_of_the_processor():
        assert place(line, text, [(index, index) for index in range(10_000)]) == line


def test_many_nested_pairs_are_placed() -> None:
    line = read("a " + "<b>" * 3000 + "cat" + "</b>" * 3000 + " b")
    assert Counter(place(line, "x gatto y", DIAGONAL).items) == Counter(line.items)
    assert joined(edges(line)) == line


LINKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(LINKS, st.integers(0, 5), st.integers(0, 5))
def test_pair_is_around_all_words_that_are_linked_with_those_inside(links: Links, one: int, other: int) -> None:
    first, last = min(one, other), max(one, other)
    letters = list("abcdef")
    source = " ".join([*letters[:first], f"<b>{' '.join(letters[first : last + 1])}</b>", *letters[last + 1 :]])
    placed = str(place(read(source), " ".join(letters), links))
    linked = [j for i, j in links if first <= i <= last] or [first]
    inside = placed.partition("<b>")[2].partition("</b>")[0]
    assert inside.split() == letters[min(linked) : max(linked) + 1]


@pytest.mark.parametrize(
    ("line", "term", "text", "links", "expected"),
    [
        ("A glass of wine.", "vino rosso", "Un bicchiere di vino.", DIAGONAL, "Un bicchiere di vino rosso."),
        ("The big wine is here", "vino", "Il grande liquido qui", [(1, 1), (2, 2), (4, 3)], "Il grande vino qui"),
        ("My wine", "amico", "L'altro, mio", [(1, 0), (0, 1)], "L'amico, mio"),
        ("My red wine", "vino", "Il mio", [(0, 1)], "Il mio vino"),
        ("I drink wine.", "酒", "我喝水。", [(0, 0), (1, 1), (2, 2)], "我喝酒。"),
        ("I drink wine.", "ไวน์", "ฉันดื่มน้ำ", [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)], "ฉันดื่มไวน์"),
        ("My wine", "ग्रंथ", "किताब मेरी", [(0, 1), (1, 0)], "ग्रंथ मेरी"),
    ],
)
def test_terms_replace_the_words_aligned_with_theirs(
    line: str, term: str, text: str, links: Links, expected: str
) -> None:
    start = line.index("wine")
    assert place_terms(text, [Term(term, start, start + 4)], line, links) == expected


def test_spaces_beside_an_item_of_a_word_stay() -> None:
    for line, expected in (
        ("Tom ® is here.", "Tom ® è qui."), ("Tom® is here.", "Tom® è qui."), ("Tom is here ®.", "Tom è qui ®."),
    ):  # fmt: skip
        assert str(place(read(line), "Tom è qui.", DIAGONAL)) == expected


def test_items_follow_the_word_that_a_prefix_begins() -> None:
    assert str(place(read("{0} Hello"), "Ciao a te", [(0, 0)], begin=2)) == "Ciao{0} a te"


def test_pairs_and_terms_follow_the_prefix() -> None:
    placed = place(read("Open <b>it</b> now"), "Ora apri subito", [(0, 0), (1, 1)], begin=8)
    assert str(placed) == "Ora apri<b></b> subito"
    assert place_terms("Acqua e pane", [Term("vino", 0, 4)], "wine and bread", DIAGONAL, 5) == "Acqua vino e pane"


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
        assert not content_diff(translation.source, translation.text).missing
        assert translation.diff.surplus == content_diff(translation.source, translation.text).surplus


@pytest.mark.parametrize("target", ["gatto", "MICIO", "☃ Ünï-çødé", "狗", "l'altra", "x y z"])
def test_translations_contain_target_terms_exactly(translator: Translator, target: str) -> None:
    options = replace(translator.options(), glossary=Glossary({"cat": target, "the mat": "tappeto"}))
    lines = ["the cat and the Cat", "a cat {0}", "on the mat", "no term", "cat" * 3, ""]
    found = list(translator.translate(lines, options))
    term = Term(target, 0, 1)
    assert not missing_terms([term, term], found[0].text)
    assert not missing_terms([term], found[1].text)
    assert "{0}" in found[1].text
    assert not missing_terms([Term("tappeto", 0, 1)], found[2].text)
    assert [one.text for one in found[3:]] == [one.text for one in translator.translate(lines[3:])]
    assert not any(one.diff.missing for one in found)


def test_generated_character_of_items_is_left_out(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    generated = [Hypothesis(translator.tokenizers.target.encode("il \ufffcgatto \ufffc"), 0.0)]
    monkeypatch.setattr(translator.engine, "search", lambda sentences, *_: [generated for _ in sentences])
    assert translator.translate("the <b>cat</b>").text.replace("<b>", "").replace("</b>", "") == "il gatto"


def test_spaces_within_a_pair_stay_around_it(translator: Translator) -> None:
    lines = ["Use `x`<b> ba ab</b>.", "Use <b>ba </b>`x`", "`x` <b> ba</b> ab"]
    texts = [translation.text for translation in translator.translate(lines)]
    for text, part in zip(texts, ("`x` <b>", " `x`", "`x` "), strict=True):
        assert part in text


def test_each_text_between_items_is_searched_once(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counting(models: Models, sentences: Sequence[Sequence[int]], *rest: Any) -> list[list[Hypothesis]]:
        searched.append(len(sentences))
        return search(models, sentences, *rest)

    monkeypatch.setattr(torch_engine, "search", counting)
    list(translator.translate(["the cat", "the moon {0} sleeps", "a mat. The cat!", "{1} %s", "12:30 -", "the cat"]))
    assert sum(searched) == 5


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
        assert not content_diff(translation.source, text).missing


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
    texts |= {"lo gatto ed il gattone": -50.0, "il gatto ed il gattone": -8.0}
    found = [Alternative(text, 0.0) for text in list(texts)[1:3]]
    unit = Unit(Line(""), Line(line), Line(""), Line(""), line, found)

    def search(units: list[Unit], _: TranslateOptions) -> None:
        for one in units:
            searched.append(one.begin)
            one.alternatives = [Alternative(f"{one.begin} ed il gattone", 0.0)]

    monkeypatch.setattr(translator, "_search", search)
    monkeypatch.setattr(
        translator,
        "force",
        lambda pairs, _: [Forced([texts[text]], np.zeros((0, 0), np.float32)) for _, text in pairs],
    )
    translator._choose_by_terms([(unit, plain)], options_for({"cat": "gatto"}))
    assert unit.alternatives == expected
    assert searched == (["lo gatto", "il gatto"] if log_prob > -20 else [])


def test_log_prob_of_a_text_with_a_term_is_that_of_forced_decoding(translator: Translator) -> None:
    options = replace(translator.options(), glossary=Glossary({"cat": "gatto"}))
    (found,) = translator.translate(["the cat"], options)
    (forced,) = translator.force([(found.source, found.text)], options)
    assert found.log_prob == pytest.approx(sum(forced.token_log_probs), abs=1e-3)
    assert [*translator.translate(["no term"], options)] == [*translator.translate(["no term"])]


@pytest.mark.parametrize("beam", [1, 2])
def test_texts_with_terms_are_compared_by_their_log_probs(monkeypatch: pytest.MonkeyPatch, beam: int) -> None:
    """A greedy search whose log-probabilities nobody asked for finds sums of logits, and one of an ensemble others."""
    monkeypatch.setattr(translating, "_KNOWN_TERM", math.inf)  # ends are always translated anew
    members = [tiny_loaded_model(dim=64, feed_forward=64, heads=4) for _ in range(2)]
    for weight in members[1].model.parameters():
        weight.data.mul_(1.1)
    translator = Translator(members[0], RuntimeSettings(device="cpu"), members[1:])
    options = translator.options(beam=beam, glossary={"cat": "gatto"}, overrides=SHORT_OUTPUT)
    options = replace(options, search=options.search.model_copy(update={"log_probs": False}))
    for found in translator.translate(["the cat", "a cat sleeps", "the cat and the dog"], options):
        (forced,) = translator.force([(found.source, found.text)], options)
        assert found.log_prob == pytest.approx(sum(forced.token_log_probs), abs=1e-3)


def options_for(terms: dict[str, str], **changes: bool) -> TranslateOptions:
    return TranslateOptions(search=SearchOptions(**changes), longest_source=50, glossary=Glossary(terms), to="it")


def test_typography_does_not_change_terms() -> None:
    options = replace(options_for({"cat": "猫 , 猫"}), to="zh")
    assert options.finished("cat?", "", "猫 , 猫 , 好 ?") == "猫 , 猫，好？"
    assert replace(options_for({}, typography=False), to="zh").finished("cat?", "", "好 ?") == "好 ?"
    # the prefix, with the space that an item at its end has before a word
    assert str(options.typeset("", read("“ {0}{1} 猫"), Line("“ \ufffc ", read("{0}").items))) == "“ {0}{1} 猫"


def test_terms_keep_their_case_as_whole_words() -> None:
    made = recased(Line("un gatto, il gatto rosso, gattone"), "A CAT, CATS", ["gatto", "gatto rosso"], "it")
    assert made.text == "UN gatto, IL gatto rosso, GATTONE"
    terms = [chr(97 + index // 26) + chr(97 + index % 26) for index in range(100)]
    with seconds_of_the_processor():  # patterns are compiled for each term, not for all terms of each line
        for index in range(30):
            assert recased(Line(" ".join(terms)), "A CAT", terms[index:], "it").text.split()[index:] == terms[index:]


def test_no_space_is_inside_of_brackets_that_are_items() -> None:
    for signs, expected in [("《", " 《"), ("》", "》 "), ("，", "， "), ("，《", "，《"), ("{0}", " {0} ")]:
        item = Line(ITEM, (Item(signs),))
        assert str(gap(item, ("猫", "t"), ("我", "M"))) == expected
    assert str(gap(Line(ITEM, (Item("{0}"),)), ("。", "."), ("我", "M"))) == " {0} "


@pytest.mark.parametrize(("before", "after", "space"), [("猫", "我", " "), ("ม", "เ", " "), ("a", "b", "")])
def test_halves_of_a_text_without_spaces_have_a_space_between_translations(before: str, after: str, space: str) -> None:
    assert str(gap(NO_TEXT, (before, "t"), (after, "M"))) == space


@pytest.mark.parametrize(
    ("to", "source", "expected"),
    [
        ("zh", "cat {0}. cat {1}? {2}!", "猫 {0}。猫 {1}？{2}！"),
        ("zh", 'cat "{0}, cat" ({1} cat)', "猫“{0}，猫”（{1} 猫）"),
        ("zh", "cat {0}:{1}, {2}", "猫 {0}:{1}，{2}"),
        ("en", "猫{0}。猫{1} ？", "cat {0}. cat {1}?"),
        ("en", "（{0}）猫", "({0}) cat"),
        ("zh", "（{0}）猫", "（{0}）猫"),
        ("en", "猫{0}，猫{1}：3：30，猫{2}、{3}；“猫”", "cat {0}, cat {1}: 3:30, cat {2}, {3}; “cat”"),
    ],
)
def test_final_marks_after_items_are_those_of_the_language(to: str, source: str, expected: str) -> None:
    units = [Unit(*edges(part), NO_TEXT, "") for part in translating.units(read(source), 99, len, "zh")]
    for unit in units:
        unit.text = placing.text_and_places(unit.core)[0]
        translated = unit.core.text.translate({ord("猫"): "cat"}).replace("cat", "猫" if to == "zh" else "cat")
        unit.alternatives, unit.lines = [Alternative("", 0)], [Line(translated)]
    assert joined_units(source, units, replace(options_for({}), to=to)).text == expected


@pytest.mark.parametrize(("before", "space"), [("猫", " "), ("t", "")])
def test_a_space_beside_a_chinese_name_stays(before: str, space: str) -> None:
    assert str(gap(Line(" "), (before, "猫"), ("i", "M"))) == space


@pytest.mark.parametrize(
    ("source", "prefix", "text", "expected"),
    [
        ("save changes", "", "Salva le modifiche.", "salva le modifiche"),
        ("Save changes", "", "Salva le modifiche!", "Salva le modifiche"),
        ("It rains.", "", "Piove.", "Piove."),
        ("and so on", "", "E così via...", "e così via..."),
        ("by Tom", "", "Tom l'ha fatto.", "Tom l'ha fatto"),
        ("the cat", "", "Micio. Gatto.", "Micio. Gatto"),
        ("in the USA", "", "USA.", "USA"),
        ("now", "Apri", " Adesso.", "Apri Adesso"),
        ("Open...", "", "Apri.", "Apri..."),
        ("Really?!", "", "Davvero?", "Davvero?!"),
        ("Well…", "", "Bene...", "Bene…"),
        ("走吧……", "", "Andiamo.", "Andiamo…"),
        ("真的？！", "", "Davvero?", "Davvero?!"),
        ("Where is a cat", "", "¿Dónde está un gato?", "Dónde está un gato"),
        ("หมอขายรถยนต์ทุกวัน", "", "Il medico vende auto.", "Il medico vende auto."),  # Thai has no full stop
        ("ฉันรักแม่", "", "Ti amo.", "Ti amo."),
        ("हिन्दी", "", "Hindi.", "Hindi"),  # ends in a vowel sign
        ("settings", "", "सेटिंग्स।", "सेटिंग्स"),
        ("What?!", "", "ماذا؟", "ماذا?!"),
    ],
)
def test_titles_and_labels_begin_and_end_as_their_sources(source: str, prefix: str, text: str, expected: str) -> None:
    assert options_for({"cat": "Micio"}).finished(source, prefix, text) == expected
    assert replace(options_for({}), to="de").finished("the cat", "", "Katze") == "Katze"
    assert replace(options_for({}), to="zh").finished("Open...", "", "打开。") == "打开……"
    assert replace(options_for({}), to="en").finished("sono stanco.", "", "I'm tired.") == "I'm tired."


def test_diff_lists_missing_and_surplus_content() -> None:
    options = options_for({"cat": "gatto"})
    line = read("The cat {0} in &1984")
    assert options.diff(line, read("Il gatto {0} nel &1984")) == NO_DIFF
    assert options.diff(line, read("Il {0} nel &1984 &o")) == (("gatto",), ("&",))
    assert options.diff(line, read("Il gatto {0}")).missing == ("&", "1984")
    assert options_for({"cat": "gatto"}, protect=False).diff(line, Line("x")) == (("gatto",), ())


def test_diff_lists_items_that_only_the_translation_has() -> None:
    options = options_for({"cat": "gatto #1"})
    assert options.diff(read("The {0} cat"), read("Il {0} gatto #1")) == NO_DIFF
    assert options.diff(read("§ 5. The cat"), read("§ 5. Il gatto #1")) == NO_DIFF  # no list
    assert options.diff(read("The {0} cat"), Line("Il \ufffc gatto #1 > {1}", read("{0}").items)).surplus == ("{1}",)


def test_signs_without_a_piece_are_kept(translator: Translator) -> None:
    assert re.sub("[^½№²]", "", translator.translate("№ the cat ½ x²").text) == "№½²"


@pytest.mark.parametrize(("known", "typed"), ["'’", "’'", "'´", "'`"])
def test_an_apostrophe_without_a_piece_divides_no_word(known: str, typed: str) -> None:
    loaded = tiny_loaded_model(tiny_tokenizers([f"it{known}s a cat"], 268))
    translator = Translator(loaded, RuntimeSettings(device="cpu"))
    assert translator.translate(f"it{typed}s a cat").text == translator.translate(f"it{known}s a cat").text


def test_an_apostrophe_with_a_piece_stays_beside_another_sign() -> None:
    translator = Translator(tiny_loaded_model(tiny_tokenizers(["it's it’s a cat"], 268)), RuntimeSettings(device="cpu"))
    assert "it’s" in "".join(unit.text for unit in translator._units("it’s ½ a cat", "", translator.options()))


def test_full_width_forms_without_a_piece_are_narrow(translator: Translator) -> None:
    units = translator._units("a ｃat, ２．５", "", translator.options())
    assert "".join(f"{unit.before}{unit.core}{unit.after}" for unit in units) == "a cat, 2.5"
    assert translator.translate("（{0}）：{1}，").text == "（{0}）：{1}，", "without a letter it is copied"


@pytest.mark.parametrize(
    ("to", "text", "expected"),
    [
        ("zh", '猫: "好", 他(猫); {0}: {1}', "猫:“好”，他（猫）；{0}：{1}"),
        ("en", "cat：{0}，{1}、a （b） :) 1，299", "cat: {0}, {1}, a (b) :) 1,299"),
        ("en", "cat 《{0}》，the “cat”，I ：）", "cat 《{0}》, the “cat”, I :)"),
        ("en", "<b>cat，</b>a <i><b>cat，</b></i>a <b>cat。</b>", "<b>cat,</b> a <i><b>cat,</b></i> a <b>cat.</b>"),
        ("en", "<b>cat，a</b>，<i>b</i>，{0}", "<b>cat, a</b>, <i>b</i>, {0}"),
    ],
)
def test_marks_without_a_piece_are_those_of_the_language(to: str, text: str, expected: str) -> None:
    options = replace(options_for({}), to=to)
    line = with_signs(read(text), ',.:;()"，：、（）。》”')
    assert str(options.typeset("", line, with_signs(Line("猫:"), ":"))) == expected
    assert options.diff(line, line) == ((), ())


def test_half_of_a_pair_is_beside_the_same_word() -> None:
    assert str(place(read("See the <b>page"), "Vedi la pagina", [(0, 0), (1, 1), (2, 2)])) == "Vedi la <b>pagina"


def test_a_part_of_a_sentence_is_no_title(translator: Translator) -> None:
    options = replace(translator.options(), longest_source=14)
    units = translator._units("the cat saw Tom York Bank", "", options)
    assert [unit.text for unit in units] == ["the cat saw", "Tom York Bank"]


@pytest.fixture
def without_invented_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model writes what looks like code."""
    monkeypatch.setattr("nmt.translation.options.invented_items", lambda text: [])


@pytest.mark.usefixtures("without_invented_items")
def test_lines_with_differences_are_counted_and_the_first_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """A random model does not know 1984."""
    translator = Translator(spelling_model())
    output, lines = io.BytesIO(), LineInput(io.BytesIO(b"the cat\nin 1984\n" * 11))
    translate_stream(translator, lines, StreamOutput(output), translator.options(), True, Console())
    found = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [one.get("missing") for one in found] == [None, ["1984"]] * 11
    warning = capsys.readouterr().err
    assert "11 lines whose translation differs from its source in terms, items, accelerators or" in warning
    assert "numbers: 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, …; --json lists them" in warning


@pytest.mark.usefixtures("without_invented_items")
def test_warning_after_resuming_concerns_later_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator(spelling_model())
    output, lines = StreamOutput(io.BytesIO()), LineInput(io.BytesIO(b"the cat\nin 1984\n"))
    output.lines = 3  # as after resuming
    output.remaining = lambda lines: lines  # type: ignore[method-assign]
    translate_stream(translator, lines, output, translator.options(), False, Console())
    messages = capsys.readouterr().err
    assert "3 lines done before; continuing after them" in messages
    assert "after line 3, where this process continued, 1 line whose translation differs from its source" in messages
