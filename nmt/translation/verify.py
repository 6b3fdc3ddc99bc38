"""Check on lines of the user that a translation does not depend on the other lines."""

import heapq
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from nmt.errors import DataError, ModelError
from nmt.system.console import Console, counted
from nmt.text.readers.opening import decode_line
from nmt.translation.translator import TranslateOptions, Translation, Translator

SAMPLE_LINES = 500  # the number of different lines, sampled from the whole input, that are translated three times


@dataclass(frozen=True)
class Trial:
    """A comparison of translations in other batches with those in the usual batches."""

    batches: str  # the other batches, as a phrase of the report
    lines: int
    different: tuple[tuple[Translation, Translation], ...]
    """The usual and the other translation of each line whose texts differ."""
    largest: float  # the largest difference of log_prob between translations of the same text, in nats


@dataclass(frozen=True)
class Verification:
    """The result of all trials."""

    lines: int  # the number of different nonblank lines in the sample
    computed_by: str
    is_fp32: bool  # whether rounding explains no more than a tie
    trials: tuple[Trial, ...]

    @property
    def different(self) -> list[tuple[Translation, Translation]]:
        """The usual and the other translation where texts differ, of all trials."""
        return [pair for trial in self.trials for pair in trial.different]

    def check(self) -> None:
        """Raise ModelError if texts differ in fp32."""
        if self.different and self.is_fp32:
            raise ModelError(
                f"translations depend on the other lines: {len(self.different):,} texts differ, though in fp32 "
                "only two of the same probability may change places; please report the lines and the model"
            )

    def as_text(self) -> str:
        """Return the report: a line for each trial, then the first difference."""
        rows = [f"{counted(self.lines, 'line')} in the usual batches ({self.computed_by}), and again:"]
        for trial in self.trials:
            same = trial.lines - len(trial.different)
            rows.append(
                f"  {trial.batches}: the same text for {same:,} of {trial.lines:,} ({same / trial.lines:.1%}), "
                f"log_prob within {trial.largest:.1e}"
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
    trials = (
        _compare("each alone", usual, alone),
        _compare("in another order, in smaller batches", usual, [restored[i] for i in range(len(sample))]),
    )
    return Verification(len(sample), translator.engine.description, translator.engine.precision == "fp32", trials)


def _compare(batches: str, usual: Sequence[Translation], other: Sequence[Translation]) -> Trial:
    pairs = list(zip(usual, other, strict=True))
    different = tuple(pair for pair in pairs if pair[0].text != pair[1].text)
    same = [abs(one.log_prob - two.log_prob) for one, two in pairs if one.text == two.text]
    return Trial(batches, len(pairs), different, max(same, default=0.0))


def _sample(lines: Iterable[bytes], count: int) -> list[bytes]:
    """Return `count` lines, each with the same probability, in order: those with the smallest random numbers."""
    random_source = random.Random(1)
    numbered = ((random_source.random(), number, line) for number, line in enumerate(lines))
    return [line for _, number, line in sorted(heapq.nsmallest(count, numbered), key=itemgetter(1))]
