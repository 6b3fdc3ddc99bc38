"""BLEU, chrF and TER by sacreBLEU, so that they are comparable with published scores, and tests of differences.

BLEU (Papineni et al. 2002), chrF2 and chrF2++ (Popović 2015, 2017), TER (Snover et al. 2006), by sacreBLEU (Post 2018).
All are functions of the sum of statistics of the lines: `measure` computes these once, and a `Measurement` gives the
scores of the text, of any part of it, and of single lines.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.text.languages import TargetLanguage, detect_language
from nmt.text.normalize import normalize
from nmt.text.words import words

if TYPE_CHECKING:  # importing these is slow, and `nmt score --help` does not need them
    import numpy as np
    import numpy.typing as npt
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "chrf++", "ter")
RESAMPLES = 1000  # bootstrap samples, as in sacreBLEU's own command line

_SEED = 12345  # the default of sacreBLEU
_DRAWN_AT_ONCE = 1_000_000  # lines of bootstrap samples that are drawn at once
_LINES_AT_ONCE = 20  # lines between two reports of progress: TER takes about a second for 50 lines of Chinese
_EXTRA_PACKAGES = {"ja-mecab": ("Japanese", "sacrebleu[ja]"), "ko-mecab": ("Korean", "sacrebleu[ko]")}


@dataclass(frozen=True, slots=True)
class Confidence:
    """The 95 % interval mean ± margin, from bootstrap resampling of the sentences (Koehn 2004)."""

    mean: float
    margin: float


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over one corpus, with the signature that identifies how it was computed."""

    name: str
    value: float
    signature: str
    confidence: Confidence | None = None

    @property
    def text(self) -> str:
        """The value, with its interval if there is one: `34.21 ± 1.05`."""
        return f"{self.value:.2f}" + (f" ± {self.confidence.margin:.2f}" if self.confidence else "")

    @property
    def lower_is_better(self) -> bool:
        """Whether it counts errors."""
        return self.name == "TER"


@dataclass(frozen=True)
class Measurement:
    """The statistics of each line of a text under one metric."""

    scorer: "Metric"
    # The same metric for single lines: BLEU without the n-gram orders that are longer than the line.
    sentence_scorer: "Metric"
    statistics: list[list[float]]
    # The results of `resampled`, which intervals and comparisons of one system have in common.
    _resampled: "dict[int, npt.NDArray[np.float64]]" = field(default_factory=dict, init=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the metric with its parameters, such as chrF2."""
        return str(self.scorer._aggregate_and_compute(self.statistics[:1]).name)

    def score(self, resamples: int = 0) -> Score:
        """Return the score of the text; with bootstrap samples also its confidence interval."""
        result = self.scorer._aggregate_and_compute(self.statistics)
        signature, confidence = self.scorer.get_signature(), None
        if resamples:
            from sacrebleu.significance import estimate_ci

            signature.update("bs", resamples)
            signature.update("seed", _SEED)
            mean, margin = estimate_ci(self.resampled(resamples))
            confidence = Confidence(float(mean), float(margin))
        return Score(result.name, float(result.score), str(signature), confidence)

    def resampled(self, resamples: int) -> "npt.NDArray[np.float64]":
        """Return the scores of bootstrap samples of the lines, computed once.

        The samples are those of sacreBLEU, which holds the statistics of all samples in RAM: 70 MB for 1,000 lines.
        """
        import numpy as np

        if resamples in self._resampled:
            return self._resampled[resamples]
        statistics = np.array(self.statistics, dtype=np.float64)
        generator, scores = np.random.default_rng(_SEED), []
        at_once = max(1, _DRAWN_AT_ONCE // len(statistics))
        for start in range(0, resamples, at_once):
            drawn = generator.choice(len(statistics), size=(min(at_once, resamples - start), len(statistics)))
            counts = np.stack([np.bincount(sample, minlength=len(statistics)) for sample in drawn])
            scores += [float(self.scorer._aggregate_and_compute([sums]).score) for sums in counts @ statistics]
        self._resampled[resamples] = np.array(scores)
        return self._resampled[resamples]

    def score_of(self, lines: Sequence[int]) -> float:
        """Return the score of the lines with these indices as one text; there must be at least one."""
        return float(self.scorer._aggregate_and_compute([self.statistics[line] for line in lines]).score)

    def line_scores(self) -> list[float]:
        """Return the score of each line alone, as `sacrebleu --sentence-level` prints it."""
        return [float(self.sentence_scorer._aggregate_and_compute([line]).score) for line in self.statistics]


def measure(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    language: TargetLanguage,
    advance: Callable[[int], None] = lambda lines: None,
) -> Measurement:
    """Compute the statistics of each line for one of `METRICS`.

    `references` holds one sequence for each reference translation, each as long as `hypotheses`. `advance` is
    called with the number of lines just done.
    Raises ConfigError for an unknown metric, or if a package that it needs is not installed.
    """
    assert hypotheses, "callers refuse an empty corpus"
    assert all(len(lines) == len(hypotheses) for lines in references)
    scorer = make_scorer(metric, language)
    statistics = []
    for start in range(0, len(hypotheses), _LINES_AT_ONCE):
        part = slice(start, start + _LINES_AT_ONCE)
        statistics += scorer._extract_corpus_statistics(hypotheses[part], [lines[part] for lines in references])
        advance(len(hypotheses[part]))
    return Measurement(scorer, make_scorer(metric, language, effective_order=True), statistics)


def make_scorer(metric: str, language: TargetLanguage, effective_order: bool = False) -> "Metric":
    """Return the sacreBLEU metric for the target language, BLEU optionally with the effective n-gram order."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    match metric.lower():
        case "bleu":
            try:
                # force: no warning of tokenized text, for which `hypothesis_warnings` has a better one
                return BLEU(tokenize=language.tokenizer, force=True, effective_order=effective_order)
            except RuntimeError:
                name, package = _EXTRA_PACKAGES[language.tokenizer]
                raise ConfigError(
                    f"BLEU for {name} needs the tokenizer {language.tokenizer}, which is not installed; "
                    f"run: pip install '{package}' (nmt score --metric chrf needs none)"
                ) from None
        case "chrf" | "chrf2":
            return CHRF()
        case "chrf++" | "chrf2++":
            return CHRF(word_order=2)
        case "ter":
            # Tercom splits Han into characters only when it also normalizes
            return TER(normalized=language.unspaced, asian_support=language.unspaced)
        case _:
            expected = f"expected one of {', '.join(METRICS)}; docs/translating.md has the command of COMET"
            raise ConfigError(f"--metric {metric}: no such metric, {expected}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a system and of its baseline."""

    name: str
    value: float
    baseline: float
    # Probability of a difference at least as large between equally good systems (paired bootstrap, Koehn 2004).
    p_value: float
    signature: str
    lower_is_better: bool = False

    @property
    def difference(self) -> float:
        """The value of the system minus that of the baseline."""
        return self.value - self.baseline

    @property
    def verdict(self) -> str:
        """The comparison in words, from the view of the system."""
        if not self.significant:
            return "no significant difference"
        return "better" if (self.difference > 0) != self.lower_is_better else "worse"

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 5 %."""
        return self.p_value < 0.05


def compare(system: Measurement, baseline: Measurement) -> Comparison:
    """Test the difference of two systems under one metric by paired bootstrap resampling, as sacreBLEU does.

    The seed is sacreBLEU's and part of the signature: the same files always give the same p-value.
    """
    differences = abs(system.resampled(RESAMPLES) - baseline.resampled(RESAMPLES))
    score, baseline_score = system.score(RESAMPLES), baseline.score()
    larger = int((differences - differences.mean() > abs(score.value - baseline_score.value)).sum())
    # samples that do not vary, as for a single line or for two copies of a system, are no evidence
    is_evidence = score.value != baseline_score.value and differences.max() > differences.min()
    p_value = (larger + 1) / (RESAMPLES + 1) if is_evidence else 1.0
    return Comparison(score.name, score.value, baseline_score.value, p_value, score.signature, score.lower_is_better)


LENGTHS = (5, 10, 20, 30, 40, 60)  # the largest number of words of a line in each bucket except the last


@dataclass(frozen=True, slots=True)
class Bucket:
    """The lines of a text whose lengths are in one range."""

    name: str
    lines: tuple[int, ...]  # indices, from 0


def length_buckets(lines: Sequence[str]) -> list[Bucket]:
    """Group lines by their number of words (Chinese: characters); empty buckets are left out.

    >>> [bucket.name for bucket in length_buckets(["Yes.", "a " * 12, "a " * 99])]
    ['1–5', '11–20', '> 60']
    """
    names = [f"{low + 1}–{high}" for low, high in zip((0, *LENGTHS), LENGTHS, strict=False)] + [f"> {LENGTHS[-1]}"]
    groups: list[list[int]] = [[] for _ in names]
    for index, line in enumerate(lines):
        groups[bisect_left(LENGTHS, len(words(normalize(line))))].append(index)
    return [Bucket(name, tuple(group)) for name, group in zip(names, groups, strict=True) if group]


def length_unit(lines: Sequence[str]) -> str:
    """Return the name of what `length_buckets` counts.

    >>> length_unit(["我喜欢猫。"]), length_unit(["Yes."])
    ('characters', 'words')
    """
    return "characters" if detect_language(lines).unspaced else "words"
