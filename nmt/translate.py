"""Stage 3: lines in, translations out. One for each line, in order, whatever the line.

>>> translator = Translator.load(Path("runs/demo-en-it"))
>>> [translation.text for translation in translator.translate(["Good morning."])]
['Buongiorno.']
"""

import json
import os
import re
import select
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

from nmt.config import RuntimeSettings
from nmt.console import Advance, Console
from nmt.decoding.engine import Engine, TorchEngine
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError, DataError, ModelError
from nmt.exchange.ct2_engine import ExportedModel, open_in_ctranslate2
from nmt.exchange.exported import is_export
from nmt.model.checkpoint import LoadedModel, load_model, resolve_model
from nmt.runtime import choose_device
from nmt.text.corpus import decode_line
from nmt.text.segment import join_pieces, split_line

WINDOW_LINES = 2048
WINDOW_BYTES = 1 << 20
"""As much is read before any of it is translated: enough to sort by length, too little to fill the memory."""
_CHUNK_BYTES = 1 << 16
# what JSON lets stand in a string, though readers of lines and encoders of UTF-8 stumble on it
_NOT_PLAIN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Alternative:
    """One way to say it."""

    text: str
    log_prob: float


@dataclass(frozen=True)
class Translation:
    """What became of one line. `text` is one line itself, without tabs, and valid UTF-8.

    `log_prob` is the natural logarithm of the probability of the tokens; of a line in several pieces, their sum. Of an
    empty line it is 0. `alternatives` are the next best, other texts than this and than each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    pieces: int = 1
    """Into how many pieces a long line was cut."""

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}."""
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content = {
            "source": self.source,
            "text": self.text,
            "log_prob": round(self.log_prob, 4),
            "alternatives": alternatives,
        }
        plain = json.dumps(content, ensure_ascii=False)
        return _NOT_PLAIN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)

    def as_table(self, line: int) -> str:
        """Return the n best as rows of line number, rank, log_prob and text, with tabs between; ranks begin at 1."""
        ranked = [Alternative(self.text, self.log_prob), *self.alternatives]
        return "\n".join(f"{line}\t{rank}\t{way.log_prob:.4f}\t{way.text}" for rank, way in enumerate(ranked, start=1))


@dataclass(frozen=True)
class TranslateOptions:
    """How to translate; what the model's own recipe says is a good start: `Translator.options`."""

    search: SearchOptions
    batch_tokens: int
    """Padded source tokens times beam in a batch."""
    max_source_tokens: int = 200
    """Longer lines are cut into pieces. Models know no sentences longer than those they were trained on."""

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise ConfigError(f"decode.batch_tokens: found {self.batch_tokens}, expected 1 or more")
        if self.max_source_tokens < 1:
            raise ConfigError(f"max-source-tokens: found {self.max_source_tokens}, expected 1 or more")


@dataclass(frozen=True)
class TranslateStats:
    """What a stream came to."""

    lines: int
    split_lines: int
    """Lines too long for the model, translated in pieces."""
    seconds: float


class Translator:
    """A model in memory that translates text."""

    def __init__(self, loaded: LoadedModel | ExportedModel, runtime: RuntimeSettings | None = None) -> None:
        self._engine: Engine = (
            TorchEngine(loaded.model, runtime or RuntimeSettings())
            if isinstance(loaded, LoadedModel)
            else loaded.engine
        )
        self._tokenizers = loaded.tokenizers
        self._decode = loaded.decode
        self.languages = loaded.languages

    @classmethod
    def load(
        cls, directory: Path, runtime: RuntimeSettings | None = None, engine: Literal["torch", "ct2"] | None = None
    ) -> "Translator":
        """Open a model directory, a run, or what `nmt export --to ctranslate2` wrote.

        The engine is the one that the directory is for; ct2 also translates with a model that is not exported.
        Raises ModelError, or ConfigError if the device or CTranslate2 is not there.
        """
        runtime = runtime or RuntimeSettings()
        if engine == "ct2" or (engine is None and is_export(directory)):
            return cls(open_in_ctranslate2(directory, runtime))
        if is_export(directory):
            raise ConfigError(f"--engine: found torch, but {directory} was exported; give the model itself")
        return cls(load_model(resolve_model(directory), choose_device(runtime)), runtime)

    def options(
        self,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        batch_tokens: int | None = None,
    ) -> TranslateOptions:
        """Return the model's own settings with these changes; an unsaid beam is as wide as n_best needs."""
        search = SearchOptions.from_settings(self._decode)
        search = replace(
            search,
            beam=max(search.beam, n_best) if beam is None else beam,
            n_best=n_best,
            length_penalty=search.length_penalty if length_penalty is None else length_penalty,
        )
        return TranslateOptions(search, self._decode.batch_tokens if batch_tokens is None else batch_tokens)

    def translate(self, lines: Iterable[str], options: TranslateOptions | None = None) -> Iterator[Translation]:
        """Yield one translation for each line, in order. Reads a window of lines ahead, never more."""
        options = options or self.options()
        remaining = iter(lines)
        while window := list(islice(remaining, WINDOW_LINES)):
            yield from self.translate_window(window, options)

    def translate_window(self, lines: Sequence[str], options: TranslateOptions) -> list[Translation]:
        """Translate lines together: like lengths in one batch, identical lines once, empty lines without the model."""
        pieces_of = {line: self._pieces(line, options) for line in dict.fromkeys(lines)}
        encoded = {piece: ids for pieces in pieces_of.values() for piece, ids in pieces}
        texts = [piece for piece, ids in encoded.items() if ids]
        found = self._engine.search([encoded[text] for text in texts], options.search, options.batch_tokens)
        ways = {text: self._ways(hypotheses) for text, hypotheses in zip(texts, found, strict=True)}
        done = {
            line: _join(line, [piece for piece, _ in pieces], [ways.get(piece, _NOTHING) for piece, _ in pieces])
            for line, pieces in pieces_of.items()
        }
        return [done[line] for line in lines]

    def _pieces(self, line: str, options: TranslateOptions) -> list[tuple[str, list[int]]]:
        """Return the parts of a line that the model can take, with their ids."""
        encode = self._tokenizers.source.encode
        ids = encode(line)
        limit = options.max_source_tokens
        if self._engine.longest is not None:
            limit = max(1, min(limit, self._engine.longest - 1))
        if len(ids) <= limit:
            return [(line, ids)]
        return [(piece, encode(piece)) for piece in split_line(line, limit, lambda text: len(encode(text)))]

    def _ways(self, hypotheses: Sequence[Hypothesis]) -> list[Alternative]:
        """Return hypotheses as text, best first; the tokenizer promises that each is one line."""
        decode = self._tokenizers.target.decode
        return [Alternative(decode(found.tokens), found.log_prob) for found in hypotheses]


def translate_stream(
    translator: Translator,
    source: BinaryIO,
    output: BinaryIO,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> TranslateStats:
    """Translate the lines of one byte stream to another, a window at a time.

    Plain output is one line for each line. With n_best above 1 it is rows of line number, rank, log_prob and text;
    with `as_json` a JSON object a line. Raises BrokenPipeError when nobody reads on, DataError when a disk fails.
    """
    started = time.monotonic()
    lines = split_lines = 0
    if source.isatty():
        console.say("type or paste text, one sentence a line; Ctrl-D ends")
    with _progress(source, output, console) as advance:
        for window in read_available(source):
            translations = translator.translate_window([decode_line(raw) for raw in window], options)
            rendered = [
                _render(translation, number, options, as_json)
                for number, translation in enumerate(translations, start=lines + 1)
            ]
            _write(output, "".join(line + "\n" for line in rendered))
            lines += len(window)
            split_lines += sum(translation.pieces > 1 for translation in translations)
            advance(len(window))
    return TranslateStats(lines, split_lines, time.monotonic() - started)


@contextmanager
def opened(source: Path | None, output: Path | None) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open the files to read and to write, where none is named stdin and stdout.

    Raises DataError if one cannot be opened, ConfigError if both are one, which writing would empty.
    """
    if (source is None and sys.stdin is None) or (output is None and sys.stdout is None):
        raise DataError("standard input or output is closed; name files with --input and --output")
    if source is not None and output is not None and output.is_file() and source.exists() and source.samefile(output):
        raise ConfigError(f"{output}: the input and the output are the same file; name another output")
    with ExitStack() as files:
        yield (
            files.enter_context(_open(source, "rb")) if source is not None else sys.stdin.buffer,
            files.enter_context(_open(output, "wb")) if output is not None else sys.stdout.buffer,
        )


def _open(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return path.open(mode)
    except OSError as error:
        verb = "read" if mode == "rb" else "write"
        raise DataError(f"{path}: cannot {verb} it: {error.strerror or error}") from None


def read_available(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines without `\\n` in windows: from a file full ones, from a pipe or a terminal what is there.

    So whoever types a line, or writes one to a pipe and waits, is answered at once.
    """
    # one system call each: read1 returns what is there instead of waiting for more
    read = getattr(stream, "read1", stream.read)
    window: list[bytes] = []
    unfinished: list[bytes] = []
    size = 0
    while chunk := read(_CHUNK_BYTES):
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            window.append(b"".join([*unfinished, line]))
            unfinished.clear()
        if rest:
            unfinished.append(rest)
        size += len(chunk)
        full = len(window) >= WINDOW_LINES or size >= WINDOW_BYTES
        if window and (full or not _more_waits(stream)):
            yield window
            window, size = [], 0
    if unfinished:
        window.append(b"".join(unfinished))
    if window:
        yield window


def default_model() -> Path:
    """Return the model to use when none is named: $NMT_MODEL, else runs/latest. Raises ModelError if there is none."""
    named = os.environ.get("NMT_MODEL")
    if named:
        if not Path(named).exists():
            raise ModelError(f"$NMT_MODEL: {named}: no such directory; correct the variable, or give --model DIR")
        return Path(named)
    latest = Path("runs", "latest")
    if not latest.exists():
        raise ModelError(
            "no model named, $NMT_MODEL is not set, and runs/latest is not there; give --model DIR (a run or a model "
            "directory), or train one: nmt train --config RECIPE"
        )
    return latest


_NOTHING = [Alternative("", 0.0)]


def _join(line: str, pieces: Sequence[str], ways: Sequence[Sequence[Alternative]]) -> Translation:
    """Put the best ways of all pieces together, then the second best, and so on; leave out texts that come again."""
    joined: dict[str, float] = {}
    for rank in range(max(map(len, ways))):
        chosen = [way[min(rank, len(way) - 1)] for way in ways]
        text = join_pieces(pieces, [way.text for way in chosen])
        joined.setdefault(text, sum(way.log_prob for way in chosen))
    best, *others = [Alternative(text, log_prob) for text, log_prob in joined.items()]
    return Translation(line, best.text, best.log_prob, tuple(others), len(pieces))


def _render(translation: Translation, line: int, options: TranslateOptions, as_json: bool) -> str:
    if as_json:
        return translation.as_json()
    return translation.as_table(line) if options.search.n_best > 1 else translation.text


def _write(output: BinaryIO, text: str) -> None:
    """Write all of a text past the buffer, where what a full disk refused would wait and fail again at exit."""
    raw = getattr(output, "raw", output)
    rest = memoryview(text.encode())
    try:
        while rest:
            rest = rest[raw.write(rest) or 0 :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"cannot write the translations: {error.strerror or error}") from None


def _more_waits(stream: BinaryIO) -> bool:
    """Whether reading would return at once: always for files, and for what cannot be asked."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _progress(source: BinaryIO, output: BinaryIO, console: Console) -> AbstractContextManager[Advance]:
    """Show progress where no person sees the translations themselves."""
    if source.isatty() or output.isatty():
        return nullcontext(lambda amount: None)
    return console.progress("translating", None, "lines")
