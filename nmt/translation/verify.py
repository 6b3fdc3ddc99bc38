"""Show on a user's own lines that what a line becomes does not depend on the lines beside it."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nmt.errors import DataError, ModelError
from nmt.system.console import Console, counted
from nmt.text.corpus import decode_line
from nmt.translation.result import Translation
from nmt.translation.translator import TranslateOptions, Translator

SAMPLE_LINES = 500
"""So many different lines, spread over the input, are translated three times."""


@dataclass(frozen=True)
class Trial:
    """How translations in other company compare with those in the usual one."""

    company: str
    lines: int
    different: tuple[tuple[Translation, Translation], ...]
    """The usual and the other translation, where their texts differ."""
    largest: float
    """The largest difference of log_prob between translations of the same text, in nats."""


@dataclass(frozen=True)
class Verification:
    """What verifying found."""

    lines: int
    """Different lines that are not blank in the sample."""
    computed_by: str
    trials: tuple[Trial, ...]

    @property
    def different(self) -> list[tuple[Translation, Translation]]:
        """The usual and the other translation, where the texts differ, of all trials."""
        return [pair for trial in self.trials for pair in trial.different]

    def check(self) -> None:
        """Raise ModelError if texts differ in fp32, where rounding is too small to explain more than a tie."""
        if self.different and self.computed_by.endswith("fp32"):
            raise ModelError(
                f"translations depend on the lines beside them: {len(self.different):,} texts differ, though in fp32 "
                "only two of the same probability may change places; please report the lines and the model"
            )

    def as_text(self) -> str:
        """Return the report, a line for each trial, with the first difference below."""
        rows = [f"{counted(self.lines, 'line')} in the usual batches ({self.computed_by}), and again:"]
        for trial in self.trials:
            same = trial.lines - len(trial.different)
            rows.append(
                f"  {trial.company}: the same text for {same:,} of {trial.lines:,} ({same / trial.lines:.1%}), "
                f"log_prob within {trial.largest:.1e}"
            )
        for usual, other in self.different[:1]:
            rows += [f"  for example: {usual.source}"]
            rows += [f"    {said.log_prob:.6f}\t{said.text}" for said in (usual, other)]
        return "\n".join(rows)


def verify_lines(
    translator: Translator, lines: Iterable[bytes], options: TranslateOptions, console: Console
) -> Verification:
    """Translate a sample of lines together as ever, each alone, and in another order in smaller batches.

    Raises DataError if there is none that is not blank.
    """
    sample = list(dict.fromkeys(filter(str.strip, map(decode_line, _spread(lines, SAMPLE_LINES)))))
    if not sample:
        raise DataError("--verify: no line to verify: the input is empty or blank; give lines that you would translate")
    order = random.Random(1).sample(range(len(sample)), len(sample))
    smaller = replace(options, batch_tokens=max(1, options.batch_tokens // 3))
    with console.progress("verifying", 3 * len(sample), "translations") as advance:
        usual = translator.translate_window(sample, options)
        advance(len(sample))
        alone = []
        for line in sample:
            alone += translator.translate_window([line], options)
            advance(1)
        shuffled = translator.translate_window([sample[i] for i in order], smaller)
        advance(len(sample))
    mixed = dict(zip(order, shuffled, strict=True))
    trials = (
        _compared("each alone", usual, alone),
        _compared("in another order, in smaller batches", usual, [mixed[i] for i in range(len(sample))]),
    )
    return Verification(len(sample), translator.computed_by, trials)


def _compared(company: str, usual: Sequence[Translation], other: Sequence[Translation]) -> Trial:
    pairs = list(zip(usual, other, strict=True))
    different = tuple(pair for pair in pairs if pair[0].text != pair[1].text)
    same = [abs(one.log_prob - two.log_prob) for one, two in pairs if one.text == two.text]
    return Trial(company, len(pairs), different, max(same, default=0.0))


def _spread(lines: Iterable[bytes], count: int) -> list[bytes]:
    """Return so many lines, each as likely as the others, in order (reservoir sampling; Vitter 1985, algorithm R)."""
    draw = random.Random(1)
    kept: dict[int, tuple[int, bytes]] = {}
    for number, line in enumerate(lines):
        place = number if number < count else draw.randrange(number + 1)
        if place < count:
            kept[place] = number, line
    return [line for _, line in sorted(kept.values())]
