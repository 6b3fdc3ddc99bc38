"""BLEU, chrF and TER, computed by sacreBLEU so that they are comparable with published scores.

BLEU (Papineni et al. 2002), chrF2 and chrF2++ (Popović 2015, 2017), TER (Snover et al. 2006), by sacreBLEU (Post 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.text.languages import TargetLanguage

if TYPE_CHECKING:  # importing sacrebleu is slow, and `nmt score --help` does not need it
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU

METRICS = ("bleu", "chrf", "chrf++", "ter")
RESAMPLES = 1000
"""Bootstrap samples, as in sacreBLEU's own command line."""

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
    def lower_is_better(self) -> bool:
        """Whether it counts errors."""
        return self.name == "TER"


def compute(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    language: TargetLanguage,
    resamples: int = 0,
) -> Score:
    """Score a corpus with one of `METRICS`.

    `references` holds one sequence for each reference translation, each as long as `hypotheses`.
    `resamples` is the number of bootstrap samples for `confidence`; 0 leaves it out.
    Raises ConfigError for an unknown metric, or if the language's tokenizer is not installed.
    """
    assert hypotheses, "callers refuse an empty corpus"
    assert all(len(lines) == len(hypotheses) for lines in references)
    scorer = make_scorer(metric, language)
    result = scorer.corpus_score(hypotheses, references, n_bootstrap=resamples or 1)
    # the bootstrap returns NumPy numbers
    confidence = Confidence(float(result._mean), float(result._ci)) if resamples else None
    return Score(result.name, float(result.score), str(scorer.get_signature()), confidence)


def make_scorer(metric: str, language: TargetLanguage) -> "Metric":
    """Return the sacreBLEU metric for the target language."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    match metric.lower():
        case "bleu":
            return _make_bleu(language)
        case "chrf" | "chrf2":
            return CHRF()
        case "chrf++" | "chrf2++":
            return CHRF(word_order=2)
        case "ter":
            # Tercom splits Han into characters only when it also normalizes
            return TER(normalized=language.unspaced, asian_support=language.unspaced)
        case _:
            raise ConfigError(f"unknown metric '{metric}'; known: {', '.join(METRICS)}")


def _make_bleu(language: TargetLanguage) -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    try:
        # force: no warning of tokenized text, for which `diagnosis` has a better one
        return BLEU(tokenize=language.tokenizer, force=True)
    except RuntimeError:
        name, package = _EXTRA_PACKAGES[language.tokenizer]
        raise ConfigError(
            f"BLEU for {name} needs the tokenizer {language.tokenizer}, which is not installed; "
            f"run: pip install '{package}' (or choose --metric chrf, which needs none)"
        ) from None
