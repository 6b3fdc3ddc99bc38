"""Check on lines of the user that a translation does not depend on the other lines."""

import heapq
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from nmt.errors import DataError, ModelError
from nmt.system.console import Console, counted
from nmt.text.readers.opening import decode_line
from nmt.translation.translator import TranslateOptions, Translation, Translator

SAMPLE_LINES = 500  # the number of different lines, sampled from the whole input, that are translated three times


Pair = tuple[Translation, Translation]
"""The translation of a line in the usual batches, and in others."""


class Comparison(NamedTuple):
    """Translations in other batches, beside those in the usual batches."""

    batches: str  # the other batches, as a phrase of the report
    pairs: list[Pair]

    @property
    def different(self) -> list[Pair]:
        """The pairs whose texts differ."""
        return [pair for pair in self.pairs if pair[0].text != pair[1].text]

    @property
    def largest(self) -> float:
        """The largest difference of log_prob between translations of the same text, in nats."""
        return max((abs(one.log_prob - two.log_prob) for one, two in self.pairs if one.text == two.text), default=0.0)


@dataclass(frozen=True)
class Verification:
    """The result of all comparisons."""

    lines: int  # the number of different nonblank lines in the sample
    computed_by: str
    is_fp32: bool  # whether rounding explains no more than a tie
    comparisons: tuple[Comparison, ...]

    @property
    def different(self) -> list[Pair]:
        """The pairs whose texts differ, of all comparisons."""
        return [pair for comparison in self.comparisons for pair in comparison.different]

    def check(self) -> None:
        """Raise ModelError if texts differ in fp32."""
        if self.different and self.is_fp32:
            raise ModelError(
                f"translations depend on the other lines: {len(self.different):,} texts differ, though in fp32 "
                "only two of the same probability may change places; please report the lines and the model"
            )

    def as_text(self) -> str:
        """Return the report: a line for each comparison, then the first difference."""
        rows = [f"{counted(self.lines, 'line')} in the usual batches ({self.computed_by}), and again:"]
        for one in self.comparisons:
            same = len(one.pairs) - len(one.different)
            rows.append(
                f"  {one.batches}: the same text for {same:,} of {len(one.pairs):,} ({same / len(one.pairs):.1%}), "
                f"log_prob within {one.largest:.1e}"
            )
        for usual, other in self.different[:1]:
            rows += [f"  for example: {usual.source}"]
            rows += [f"    {one.log_prob:.6f}\t{one.text}" for one in (usual, other)]
        return "\n".join(rows)


def verify_lines(
    translator: Translator, lines: Iterable[bytes], options: TranslateOptions, console: Console
) -> Verification:
    """Translate a sample of lines in the usual batches, each alone, and shuffled in smaller batches.

    Raises DataError if all lines are blank.
    """
    sample = list(dict.fromkeys(filter(str.strip, map(decode_line, _sample(lines, SAMPLE_LINES)))))
    if not sample:
        raise DataError("--verify: no line to verify: the input is empty or blank; give lines that you would translate")
    order = random.Random(1).sample(range(len(sample)), len(sample))
    tokens = max(1, options.search.batch_tokens // 3)
    smaller = replace(options, search=options.search.model_copy(update={"batch_tokens": tokens}))
    with console.progress("verifying", 3 * len(sample), "translations") as advance:
        usual = translator.translate_lines(sample, options)
        advance(len(sample))
        alone = []
        for line in sample:
            alone += translator.translate_lines([line], options)
            advance(1)
        shuffled = translator.translate_lines([sample[i] for i in order], smaller)
        advance(len(sample))
    restored = dict(zip(order, shuffled, strict=True))
    comparisons = (
        Comparison("each alone", list(zip(usual, alone, strict=True))),
        Comparison("in another order, in smaller batches", [(one, restored[i]) for i, one in enumerate(usual)]),
    )
    return Verification(len(sample), translator.engine.description, translator.engine.precision == "fp32", comparisons)


def _sample(lines: Iterable[bytes], count: int) -> list[bytes]:
    """Return `count` lines, each with the same probability, in order: those with the smallest random numbers."""
    random_source = random.Random(1)
    numbered = ((random_source.random(), number, line) for number, line in enumerate(lines))
    return [line for _, number, line in sorted(heapq.nsmallest(count, numbered), key=itemgetter(1))]
