"""Untranslated targets by example."""

import pytest

from nmt.text.filters.untranslated import UntranslatedCheck, copy


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
