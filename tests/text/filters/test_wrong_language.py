"""Untranslated targets by example; languages of lines, with the library and without it."""

from types import SimpleNamespace

import pytest

from nmt.text.filters import wrong_language
from nmt.text.filters.wrong_language import FREQUENT_WORDS, LanguageCheck, UntranslatedCheck, copy

ITALIAN = "Non riesco a capire perché non mi abbia detto niente della sua famiglia."
ENGLISH = "I cannot understand why he has not told me anything about his family."
FRENCH = "Je ne comprends pas pourquoi il ne m'a rien dit de sa famille."


@pytest.fixture(scope="module")
def italian() -> LanguageCheck:
    pytest.importorskip("py3langid")
    check = LanguageCheck.of("it")
    assert check is not None
    return check


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (FRENCH, "fr")])
def test_line_in_another_language_is_found(italian: LanguageCheck, text: str, language: str) -> None:
    found = italian.wrong(text)
    assert found is not None
    assert found.startswith(f"language {language}, probability ")


@pytest.mark.parametrize(
    "text",
    [
        ITALIAN,
        "The end.",  # too short
        "Tom Jackson, John Smith, Mary Miller, Boston, Chicago, New York",  # names
        "import numpy as np; print(np.zeros(10))",
        "123 456 789 101 112 131 415 161 718",
        "",
    ],
)
def test_line_without_clear_evidence_is_kept(italian: LanguageCheck, text: str) -> None:
    assert italian.wrong(text) is None


def test_related_languages_are_not_distinguished() -> None:
    pytest.importorskip("py3langid")
    check = LanguageCheck.of("nb")
    assert check is not None
    assert check.wrong("Jeg ved ikke hvorfor han ikke har fortalt mig noget om sin familie.") is None  # Danish


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "el", "tlh"])
def test_languages_known_by_their_script_or_unknown_have_no_check(language: str) -> None:
    pytest.importorskip("py3langid")
    assert LanguageCheck.of(language) is None


def test_the_library_has_the_languages_whose_words_are_listed() -> None:
    """So that its model is not loaded before a line is suspicious."""
    pytest.importorskip("py3langid")
    checks = [LanguageCheck.of(code) for code in [*FREQUENT_WORDS, "nn", "no", "ms", "bs"]]
    assert {check.language for check in checks if check is not None} <= set(wrong_language._identifier().labels)


def test_without_the_library_there_is_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_language, "LIBRARY", "a_library_that_is_not_installed")
    assert LanguageCheck.of("it") is None


def test_frequent_words_of_the_text_show_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line with them is not read by the library: `vado`, but neither the name `Sami` nor `les`, which is French."""
    pytest.importorskip("py3langid")
    text = ["Sami, non vado via les"] * 1000
    check = LanguageCheck.of("it", text)
    assert check is not None
    assert check.own_words - FREQUENT_WORDS["it"] == {"vado", "via"}
    few = LanguageCheck.of("it", text[1:])
    assert few is not None
    assert few.own_words == FREQUENT_WORDS["it"]

    read = []
    monkeypatch.setattr(wrong_language, "_identifier", lambda: SimpleNamespace(classify=lambda _: read.append(1)))
    assert check.wrong("Adesso vado subito nella grande città vecchia con Sami") is None
    assert read == []
    with pytest.raises(TypeError):  # the library is called
        check.wrong("Adesso Sami torna subito nella grande città vecchia insieme")
    assert read == [1]


def test_lines_in_another_language_do_not_make_its_words_frequent() -> None:
    pytest.importorskip("py3langid")
    check = LanguageCheck.of("it", ["non vado via", "the horse cannot stand on the grass"] * 1000)
    assert check is not None
    assert check.own_words - FREQUENT_WORDS["it"] == {"vado", "via"}
    without_list = LanguageCheck.of("sw", ["mimi na wewe"] * 1000)  # `na` is listed for several languages
    assert without_list is not None
    assert without_list.own_words == {"mimi", "wewe"}


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("No comment.", "No comment.", "identical"),
        ("Radio Roma", "radio roma", "identical apart from case"),
        ("Straße", "STRASSE", None),
        ("No.", "No!", None),
    ],
)
def test_copy_of_the_source_is_found(source: str, target: str, found: str | None) -> None:
    assert copy(source, target) == found


@pytest.mark.parametrize(
    ("languages", "source", "target", "found"),
    [
        (
            ("en", "it"),
            "we shall have to go the extra mile for it.",
            "we have to go the extra mile for it.",
            "words of the source language: for, have, the, to, we",
        ),
        (("en", "zh"), "Threads may share it", "线程可以共享Threads may share it", "contains the source"),
        (("en", "it"), "Eber, Peleg, Reu, and the rest", "Eber, Peleg, Reu", None),
        (("en", "it"), "CLI for AWS Glue.", "CLI per AWS Glue.", None),
        (("en", "it"), "Tom and Mary miss John.", "A Tom e Mary manca John.", None),
        (("en", "zh"), "Equivalent to ``not key in d``.", "等价于 ``not key in d``。", None),
        (("en", "sw"), "the cat is on the mat", "the cat is on a mat", None),  # Swahili has no list of words
        (("en", "it"), "iOS 14", "iOS 14 (beta)", None),
    ],
)  # fmt: skip
def test_untranslated_text_is_found(languages: tuple[str, str], source: str, target: str, found: str | None) -> None:
    assert UntranslatedCheck.of(*languages).found(source, target) == found
