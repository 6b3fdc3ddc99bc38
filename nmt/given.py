"""Translations that are given, a line for each line of a source: how probable the model finds them, token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nmt import processes
from nmt.decoding.alignment import Links, pharaoh
from nmt.output import Output, Work
from nmt.stream import LineByLine, opened, read_available
from nmt.text.corpus import decode_line
from nmt.text.normalize import normalize
from nmt.translate import TranslateOptions, Translator, plain_json


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


def judge(
    translator: Translator, lines: Sequence[str], texts: Sequence[str], options: TranslateOptions
) -> list[GivenTranslation]:
    """Return what the model makes of a given translation of each line, whole lines, however long.

    Raises ConfigError where another program computes, DataError for what the model cannot read.
    """
    pairs = list(zip(lines, map(normalize, texts), strict=True))
    tokens = translator.force(pairs, options.batch_tokens)
    links = translator.align(pairs, options.batch_tokens) if options.alignment else [None] * len(pairs)
    return [
        GivenTranslation(line, text, own, linked)
        for (line, text), own, linked in zip(pairs, tokens, links, strict=True)
    ]


def judge_file(
    translator: Translator,
    reference: Path,
    files: tuple[Path | None, Path | None],
    work: Work,
    options: TranslateOptions,
    as_json: bool,
) -> None:
    """Do as `judge_stream` with the texts of a file, and files to read and to write, else stdin and stdout.

    `work` is what a translation of the same lines would be. Raises DataError for files that cannot be used.
    """
    translator.needs_own_model("--reference")
    texts = LineByLine.read("--reference", reference)
    with opened(*files, {**work, **texts.work}) as (lines, sink):
        judge_stream(translator, lines, texts, sink, options, as_json)


def judge_stream(
    translator: Translator,
    source: BinaryIO,
    texts: LineByLine,
    output: Output,
    options: TranslateOptions,
    as_json: bool,
) -> None:
    """Write a row, or with `as_json` a JSON object, for each line of a stream and the text that stands beside it.

    Raises DataError if there are not as many lines as texts, and as `judge` does.
    """

    def judged(window: tuple[int, list[bytes]]) -> tuple[list[bytes], str]:
        before, raw = window
        lines = [decode_line(line) for line in raw]
        found = judge(translator, lines, texts.beside(before, len(raw)), options)
        return raw, "".join((one.as_json() if as_json else one.as_text()) + "\n" for one in found)

    windows = _numbered(output.rest(read_available(source)), output.lines)
    for raw, text in processes.dealt_out(windows, judged):
        output.add(raw, text)
    texts.check_end(output.lines)


def _numbered(windows: Iterator[list[bytes]], before: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield windows with the number of lines before each."""
    for lines in windows:
        yield before, lines
        before += len(lines)
