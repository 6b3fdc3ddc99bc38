"""Warnings about texts whose scores are not meaningful."""

from nmt.evaluation.findings import diagnose
from nmt.evaluation.score_report import hypothesis_warnings, reference_warnings, table_warnings
from nmt.text.languages import detect_language, target_language

PLAIN = ["Non è venuto, credo.", "Dov'è il gatto?", "Sono qui!", "Va bene."] * 5


def warnings(hypotheses: list[str], references: list[str], source: list[str] | None = None) -> list[str]:
    findings = diagnose(hypotheses, detect_language(references), [references], source)
    return list(hypothesis_warnings("hyp", hypotheses, [references], findings))


def test_plain_text_gives_no_warning() -> None:
    assert warnings(PLAIN, PLAIN[1:] + PLAIN[:1], ["He did not come."] * 20) == []


def test_tokenized_text_gives_a_warning() -> None:
    tokenized = ["Non è venuto , credo .", "Dov' è il gatto ?", "Sono qui !", "Va bene ."] * 5
    (warning,) = warnings(tokenized, PLAIN)
    assert warning.startswith("hyp looks tokenized: 100% of its lines, but 0% of the references'")
    assert "detokenize" in warning


def test_pieces_and_spaced_chinese_give_a_warning() -> None:
    assert "tokenized" in warnings(["▁Non ▁è"] * 20, PLAIN)[0]
    assert "tokenized" in warnings(["ven@@ uto"] * 20, PLAIN)[0]
    assert "tokenized" in warnings(["他 没有 来。"] * 20, ["他没来。"] * 20)[0]


def test_spaces_that_also_occur_in_the_references_give_no_warning() -> None:
    french = ["Où est le chat ?", "Je suis là !"] * 10
    assert warnings(french, french[1:] + french[:1]) == []


def test_empty_references_give_a_warning_from_5_percent_on() -> None:
    italian = target_language("it")
    assert list(reference_warnings("ref", ["a"] * 19 + [""], italian)) == []
    assert list(reference_warnings("ref", ["a"] * 18 + ["", " "], italian)) == ["ref: 2 of 20 lines are empty"]


def test_table_gives_a_warning() -> None:
    assert list(table_warnings("ref", ["a\tb"] * 10 + ["c"] * 10)) == [
        "ref: 10 lines with tabs, as in a table; give one column: cut -f 2 FILE > NEWFILE"
    ]
    assert list(table_warnings("ref", ["a\tb"] * 9 + ["c"] * 10)) == []


def test_references_in_another_script_than_that_of_the_language_give_a_warning() -> None:
    (warning,) = reference_warnings("ref", ["猫在睡觉。"], target_language("it"))
    assert warning.startswith("target language given as it, but ref ")
    (warning,) = reference_warnings("ref", ["猫在睡觉。"], detect_language(["Il gatto dorme."]))
    assert warning.startswith("target language not given; the first reference does not look Chinese, ")


def test_a_fault_of_many_lines_gives_a_warning() -> None:
    source = ["Where is the cat?", "Here I am!"] * 10
    assert warnings(source, PLAIN, source) == ["hyp: 100% of its lines have the fault copy: a copy of the source"]
    assert "another language" in warnings(source, PLAIN)[0]
    assert warnings(PLAIN[:15] + source[15:], PLAIN, source) == [
        "hyp: 25% of its lines have the fault copy: a copy of the source"
    ]
    assert warnings(PLAIN[:16] + source[16:], PLAIN, source) == []
    cyrillic = [line.replace("a", "а") for line in PLAIN]
    assert "hyp: 50% of its lines have the fault script: another script than the language's" in warnings(
        cyrillic, PLAIN
    )
    assert warnings([*PLAIN[:15], *[""] * 5], PLAIN) == ["hyp: 25% of its lines have the fault empty: no translation"]


def test_copied_reference_gives_a_warning() -> None:
    assert warnings(PLAIN, PLAIN) == ["hyp is the reference, word for word"]


def test_invalid_bytes_give_a_warning() -> None:
    assert warnings(["perch\ufffd no?", *PLAIN[1:]], PLAIN) == [
        "hyp has 1 line with U+FFFD, which replaces bytes that are not UTF-8"
    ]


def test_another_language_gives_a_warning() -> None:
    english = ["He did not come, I think.", "Where is the cat?", "I am here!", "That is fine."] * 5
    (warning,) = warnings(english, PLAIN)
    assert warning == (
        "hyp looks like another language: 0% of its words are frequent words of the references, where 100% are"
    )
    assert warnings(english[:19], PLAIN[:19]) == []
    # other words of the same language
    assert warnings(["Non so, è vero.", "Dov'è la casa?", "Sono stanco!", "Va tutto male."] * 5, PLAIN) == []
    assert not any("another language" in warning for warning in warnings([""] * 20, PLAIN))
