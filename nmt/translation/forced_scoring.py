"""Forced scoring: the log-probabilities that the model assigns to given translations, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.alignment import Links, pharaoh
from nmt.decoding.batch_runner import OnProgress
from nmt.decoding.forced_decoding import force_texts
from nmt.text.normalize import normalize
from nmt.translation.pipeline import BatchResult, LineBatch
from nmt.translation.result import plain_json
from nmt.translation.translator import TranslateOptions, Translator


@dataclass(frozen=True)
class ScoredTranslation:
    """A given translation with its log-probabilities. `text` is normalized, as the model reads it."""

    source: str
    text: str
    tokens: list[tuple[str, float]]  # pieces, the last `</s>`, and the natural logarithms of their probabilities
    alignment: Links | None = None

    @property
    def log_prob(self) -> float:
        """Return the log-probability of the whole translation."""
        return sum(log_prob for _, log_prob in self.tokens)

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "tokens": [{"token", "log_prob"}, …]}, maybe "alignment"."""
        tokens = [{"token": token, "log_prob": round(log_prob, 4)} for token, log_prob in self.tokens]
        content = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4), "tokens": tokens}
        return plain_json(content if self.alignment is None else {**content, "alignment": self.alignment})

    def as_text(self) -> str:
        """Return log_prob, number of tokens with `</s>`, text, and the alignment if requested, tab-separated."""
        row = [f"{self.log_prob:.4f}", str(len(self.tokens)), self.text]
        return "\t".join(row if self.alignment is None else [*row, pharaoh(self.alignment)])


def score_given(
    translator: Translator,
    lines: Sequence[str],
    texts: Sequence[str],
    options: TranslateOptions,
    on_progress: OnProgress | None = None,
) -> list[ScoredTranslation]:
    """Score a given translation of each line; lines are never split, however long they are.

    Raises ConfigError if another program translates, DataError for text that the model cannot represent.
    """
    pairs, batch_tokens = list(zip(lines, map(normalize, texts), strict=True)), options.search.batch_tokens
    runner = translator.require_torch("--reference")
    tokens = force_texts(runner, translator.tokenizers, pairs, batch_tokens, on_progress)
    links: Sequence[Links | None] = [None] * len(pairs)
    if options.alignment:
        links = translator.align(pairs, batch_tokens, on_progress)
    return [ScoredTranslation(*pair, own, linked) for pair, own, linked in zip(pairs, tokens, links, strict=True)]


def score_batch(
    translator: Translator, options: TranslateOptions, as_json: bool, batch: LineBatch, on_progress: OnProgress
) -> BatchResult:
    """Return a row, or with `as_json` a JSON object, for each line and its parallel line, as `score_given` does."""
    scored = score_given(translator, batch.texts, batch.parallel, options, on_progress)
    return BatchResult("".join((one.as_json() if as_json else one.as_text()) + "\n" for one in scored))
