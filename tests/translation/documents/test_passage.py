"""Messages of ICU: branches are complete sentences, and their translations are put back without broken syntax."""

import pytest

from nmt.translation.documents.passage import Branch, Passage, TranslatedLine, message_parts


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("{n, plural, =0 {no file} one {# file} other {# files}}", ["no file", "# file", "# files"]),
        ("You have {n,plural,offset:1 one{a {thing}}other{things}} in {x}.",
         ["You have a {thing} in {x}.", "You have things in {x}."]),
        ("{g, select, male {{n, plural, one {his cat} other {his cats}}} other {theirs}}!",
         ["his cat!", "his cats!", "theirs!"]),
        ("{a, plural, other {x}} and {b, plural, one {y} other {z}}", ["x and y", "x and z"]),
    ],
)  # fmt: skip
def test_branches_are_complete_messages(text: str, branches: list[str]) -> None:
    assert [part.text for part in message_parts(text) if isinstance(part, Branch)] == branches


@pytest.mark.parametrize(
    "text",
    [
        "{n, plural, one {file}",
        "{n, plural, }",
        "{n, plural, one {a '{' b} other {c}}",
        "{n, plural, other {x}}" * 9,
        "{n, plural, one {a} other {b}}" * 7,
        "{n, plural, other {" * 500,
    ],
)
def test_damaged_quoted_and_large_messages_stay(text: str) -> None:
    assert Passage.of(text).lines == []
    assert Passage.of(text).joined([]).text == text


def test_translations_of_branches_keep_the_syntax() -> None:
    passage = Passage.of("It''s in {n, plural, one {# file} other {<b># files</b>}} {x}")
    assert passage.lines == ["It's in <x1/> file {x}", "It's in <x1/> files {x}"]
    made = passage.joined([TranslatedLine("È nell'{x} file <x1/>"), TranslatedLine("Sono negli <x1/> po'", [(2, 2)])])
    assert made.text == "{n, plural, one {È nell''{x} file #} other {Sono negli <b>#</b> po''}}"
    assert not made.tags_lost
    assert passage.joined([TranslatedLine(line) for line in passage.lines]).text == passage.text


def test_other_texts_keep_their_apostrophes_and_numbers() -> None:
    passage = Passage.of("Item # of {x}")
    assert passage.joined([TranslatedLine("L'{x} è #")]).text == "L'{x} è #"
