"""Translations that are given, a line for each line of a source: how probable the model finds them, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.alignment import Links, pharaoh
from nmt.decoding.batch_runner import OnProgress
from nmt.system.console import Console
from nmt.text.corpus import decode_line
from nmt.text.normalize import normalize
from nmt.translation.lines import LineBatch, LineReader
from nmt.translation.pipeline import through
from nmt.translation.result import plain_json
from nmt.translation.sinks import Output
from nmt.translation.translator import TranslateOptions, Translator


@dataclass(frozen=True)
class GivenTranslation:
    """What the model makes of one given translation. `text` is normalized, as the model reads it."""

    source: str
    text: str
    tokens: list[tuple[str, float]]
    """Pieces, the last `</s>`, and the natural logarithms of their probabilities."""
    alignment: Links | None = None

    @property
    def log_prob(self) -> float:
        """Return the logarithm of the probability of the whole translation."""
        return sum(log_prob for _, log_prob in self.tokens)

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "tokens": [{"token", "log_prob"}, …]}, maybe "alignment"."""
        tokens = [{"token": token, "log_prob": round(log_prob, 4)} for token, log_prob in self.tokens]
        content = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4), "tokens": tokens}
        return plain_json(content if self.alignment is None else {**content, "alignment": self.alignment})

    def as_text(self) -> str:
        """Return log_prob, number of tokens with `</s>`, text, and the alignment if it was asked for; tabs between."""
        row = [f"{self.log_prob:.4f}", str(len(self.tokens)), self.text]
        return "\t".join(row if self.alignment is None else [*row, pharaoh(self.alignment)])


def score_given(
    translator: Translator,
    lines: Sequence[str],
    texts: Sequence[str],
    options: TranslateOptions,
    on_progress: OnProgress | None = None,
) -> list[GivenTranslation]:
    """Return what the model makes of a given translation of each line, whole lines, however long.

    Raises ConfigError where another program computes, DataError for what the model cannot read.
    """
    pairs = list(zip(lines, map(normalize, texts), strict=True))
    tokens = translator.force(pairs, options.batch_tokens, on_progress)
    links: Sequence[Links | None] = [None] * len(pairs)
    if options.alignment:
        links = translator.align(pairs, options.batch_tokens, on_progress)
    return [
        GivenTranslation(line, text, own, linked)
        for (line, text), own, linked in zip(pairs, tokens, links, strict=True)
    ]


def score_given_stream(
    translator: Translator,
    lines: LineReader,
    output: Output,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> None:
    """Write a row, or with `as_json` a JSON object, for each line of a stream and the text that stands beside it.

    Raises as `score_given` and `through` do.
    """

    def judged(window: LineBatch, on_progress: OnProgress) -> tuple[str, list[int]]:
        texts = [decode_line(raw) for raw in window.lines]
        found = score_given(translator, texts, window.beside or (), options, on_progress)
        return "".join((one.as_json() if as_json else one.as_text()) + "\n" for one in found), []

    through("judging", lines, output, judged, console)
