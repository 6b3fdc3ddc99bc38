"""Verification reports whether translations depend on the other lines of their batch."""

from collections.abc import Sequence

import pytest

from nmt.errors import DataError, ModelError
from nmt.system.console import Console
from nmt.translation.translator import TranslateOptions, Translation, Translator
from nmt.translation.verify import SAMPLE_LINES, _sample, verify_lines
from tests.builders import SENTENCES

QUIET = Console(quiet=True)
LINES = [" ".join(sentence.split()[:count]).encode() for sentence in SENTENCES for count in range(6)]


def test_translations_do_not_depend_on_batches(translator: Translator) -> None:
    found = verify_lines(translator, [*LINES, *LINES, b" "], translator.options(), QUIET)
    found.check()
    assert found.lines == len({line for line in LINES if line})
    assert [len(one.pairs) for one in found.comparisons] == [found.lines] * 2
    assert all(one.largest < 1e-4 for one in found.comparisons)
    assert f"each alone: the same text for {found.lines} of {found.lines} (100.0%)" in found.as_text()
    assert found.as_text().startswith(f"{found.lines} lines in the usual batches (torch, cpu, fp32)")


@pytest.mark.parametrize("precision", ["fp32", "bf16", None])
def test_differences_are_reported_and_refused_in_fp32(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, precision: str | None
) -> None:
    def depending_on_the_batch(lines: Sequence[str], options: TranslateOptions) -> list[Translation]:
        together = len(lines) > 1 and options.search.batch_tokens > 1
        return [Translation(line, line[: 3 if together else 9], -1.0 - 0.25 * together) for line in lines]

    monkeypatch.setattr(translator, "translate_lines", depending_on_the_batch)
    monkeypatch.setattr(translator.engine, "precision", precision)
    found = verify_lines(
        translator, [b"one", b"two", b"three"], translator.options(overrides=["decode.batch_tokens=3"]), QUIET
    )
    assert [(len(one.different), one.largest) for one in found.comparisons] == [(1, 0.25), (1, 0.25)]
    assert found.as_text().endswith("  for example: three\n    -1.250000\tthr\n    -1.000000\tthree")
    assert "the same text for 2 of 3 (66.7%), log_prob within 2.5e-01" in found.as_text()
    if precision == "fp32":
        with pytest.raises(ModelError, match="depend on the other lines: 2 texts differ"):
            found.check()
    else:
        found.check()


def test_blank_input_is_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="--verify: no line to verify: the input is empty or blank; give lines that"):
        verify_lines(translator, [b"", b" "], translator.options(), QUIET)


def test_report_on_one_line(translator: Translator) -> None:
    found = verify_lines(translator, [b"a dog"], translator.options(), QUIET)
    assert found.as_text().startswith("1 line in the usual batches")


def test_sample_is_uniform_and_in_order() -> None:
    lines = [b"%05d" % number for number in range(20 * SAMPLE_LINES)]
    assert _sample(iter(lines[:7]), 10) == lines[:7]
    sample = _sample(iter(lines), SAMPLE_LINES)
    assert sample == sorted(set(sample))
    assert len(sample) == SAMPLE_LINES
    for part in range(4):  # of each quarter about a quarter: 5 standard deviations
        count = sum(part * len(lines) // 4 <= int(line) < (part + 1) * len(lines) // 4 for line in sample)
        assert abs(count - SAMPLE_LINES / 4) < 5 * (SAMPLE_LINES * 3 / 16) ** 0.5
