"""Glossaries: the terms found in a line, by hand, and the errors of invalid files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.glossary import Glossary, Term, missing_terms
from tests.builders import write_lines

TERMS = {"cat": "gatto", "cat food": "cibo per gatti", "US": "Stati Uniti", "C++": "C++"}
GLOSSARY = Glossary({**TERMS, "机器": "macchina", "机器翻译": "MT"})


def targets_of(glossary: Glossary, line: str) -> list[str]:
    return [target for target, *_ in glossary.matches(line)]


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ("The cat eats.", ["gatto"]),
        ("Cat! CAT? a  cat. Cat Food", ["gatto", "gatto", "cibo per gatti"]),
        ("cats concatenate", []),
        ("cat food for a cat", ["cibo per gatti", "gatto"]),
        ("The US lets us go.", ["Stati Uniti"]),
        ("the cat's tail", ["gatto"]),
        ("C++ and C", ["C++"]),
        ("我用机器翻译和机器", ["MT", "macchina"]),
        ("catा caटt", []),  # a vowel sign and letters of another script are parts of a word
    ],
)
def test_longest_terms_of_whole_words_are_found(line: str, targets: list[str]) -> None:
    assert targets_of(GLOSSARY, line) == targets


def test_terms_in_text_without_spaces_begin_and_end_with_whole_characters() -> None:
    """In Thai กา is a crow, and ก่า is another syllable."""
    glossary = Glossary({"กา": "crow", "แมว": "cat"})
    assert targets_of(glossary, "แมวกับกา กำก่า") == ["cat", "crow"]
    assert missing_terms([Term("แมว", 0, 3), Term("กา", 0, 3)], "แมวกับก่า") == [Term("กา", 0, 3)]


def test_exact_case_has_priority() -> None:
    glossary = Glossary({"may": "potere", "May": "maggio"})
    assert targets_of(glossary, "May we come in May? We may. MAY") == ["maggio", "maggio", "potere"]
    assert targets_of(Glossary({"Tom’s": "di Tom"}), "Tom's and Tom’s") == ["di Tom", "di Tom"]
    assert targets_of(Glossary({"us": "noi"}), "She lives in the US. Us?") == ["noi"]


@given(words=st.lists(st.sampled_from(["cat", "food", "dog", "US", "us", "机", "器", ","]), max_size=8))
def test_terms_equal_those_of_a_slow_search(words: list[str]) -> None:
    """The slow search tries every sequence of words at every position, the longest first."""
    line, place, expected = " ".join(words), 0, []
    while place < len(words):
        for end in range(len(words), place, -1):
            run = words[place:end]
            known = [
                t for s, t in GLOSSARY.terms.items() if s.split() == run or (len(s) == len(run) and list(s) == run)
            ]
            if known:
                expected.append(known[0])
                place = end
                break
        else:
            place += 1
    assert targets_of(GLOSSARY, line) == expected


@pytest.mark.parametrize(
    ("targets", "text", "missing"),
    [
        (["gatto"], "Il gattone", ["gatto"]),
        (["gatto", "gatto"], "un gatto", ["gatto"]),
        (["l'altra"], "l'altra’", []),
        (["机器"], "大机器人", []),
        (["C++"], "in C++11", []),
    ],
)
def test_missing_terms_by_hand(targets: list[str], text: str, missing: list[str]) -> None:
    terms = [Term(target, place, place + 1) for place, target in enumerate(targets)]
    assert [term.text for term in missing_terms(terms, text)] == missing
    assert not terms or missing_terms(terms, "") == terms


def test_read_accepts_valid_files(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "terms.tsv", "cat\tgatto", "", "  hot dog \t cane  caldo \r")
    assert Glossary.read(path).terms == {"cat": "gatto", "hot dog": "cane caldo"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc\n", r"terms\.tsv:2: found 1 column, expected the source term, one tab, the target term"),
        ("a\tb\tc\n", r"terms\.tsv:1: found 3 columns, expected "),
        ("\tb\n", r"terms\.tsv:1: '': 'b': expected a term and its translation, not empty"),
        ("a b\tb\na  b\tb\n", r"terms\.tsv:2: 'a  b' is on line 1 already"),
        ("a\tb\ncat\tgat \ufffc to\n", r"terms\.tsv:2: found U\+FFFC, .* in 'gat .*; remove this character"),
        ("\n\n", r"terms\.tsv: there are no terms"),
    ],
)
def test_read_reports_mistakes_with_their_lines(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Glossary.read(write_lines(tmp_path / "terms.tsv", content))


def test_long_terms_are_refused() -> None:
    """To look for them in every line would take minutes."""
    for terms in ({"b " * 200: "x"}, {"x": "b" * 201}):
        with pytest.raises(DataError, match=r"glossary: found [24]0[01] characters in 'b.*at most 200 a term"):
            Glossary(terms)


@pytest.mark.parametrize("terms", [{"watch": ""}, {"": "x"}, {" ": "x"}, {"watch": 5}, {5: "x"}])
def test_terms_of_a_mapping_are_not_empty(terms: dict[str, str]) -> None:
    with pytest.raises(DataError, match=r"glossary: .*: expected a term and its translation, not empty"):
        Glossary(terms)


def test_terms_of_a_mapping_have_no_item() -> None:
    with pytest.raises(DataError, match=r"glossary: found U\+FFFC"):
        Glossary({"cat": "gat \ufffc to"})


def test_fingerprint_depends_on_the_terms_and_not_on_their_order() -> None:
    assert Glossary({"a": "b", "c": "d"}).fingerprint() == Glossary({"c": "d", "a": "b"}).fingerprint()
    assert Glossary({"a": "b"}).fingerprint() != Glossary({"a": "c"}).fingerprint()
