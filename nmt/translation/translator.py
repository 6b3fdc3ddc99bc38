"""Stage 3: lines in, translations out. One for each line, in order, whatever the line.

>>> translator = Translator.load(Path("runs/demo-en-it"))
>>> [translation.text for translation in translator.translate(["Good morning."])]
['Buongiorno.']
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Literal, NamedTuple

from nmt.config import RuntimeSettings, Sampling, override_decode
from nmt.decoding.alignment import Links, align, joined_links
from nmt.decoding.batch_runner import BatchRunner, OnProgress
from nmt.decoding.engine import Engine, TorchEngine
from nmt.decoding.forced_decoding import force_texts
from nmt.decoding.hypothesis import NO_CONSTRAINTS, Constraints, Hypothesis
from nmt.decoding.mbr import by_utility
from nmt.decoding.options import SearchOptions
from nmt.decoding.step_model import check_same_vocabulary
from nmt.decoding.unknown import words_for_unknown
from nmt.errors import ConfigError
from nmt.export.ctranslate2_engine import ExportedModel, open_in_ctranslate2
from nmt.export.exported import is_export
from nmt.model.checkpoint import LoadedModel, load_model, resolve_model
from nmt.system.device import choose_device, computes_in_bf16
from nmt.text.glossary import Glossary
from nmt.text.normalize import normalize
from nmt.text.segment import split_line
from nmt.text.tokenizer import UNK
from nmt.translation.constraints import OutputConstraints
from nmt.translation.result import Alternative, Translation, join_ways

LINE_BATCH_SIZE = 2048
"""As many are read before any is translated: enough to sort by length, too few to fill the memory."""


@dataclass(frozen=True)
class TranslateOptions:
    """How to translate; what the model's own recipe says is a good start: `Translator.options`."""

    search: SearchOptions
    batch_tokens: int
    """Padded source tokens times beam in a batch."""
    max_source_tokens: int = 200
    """Longer lines are cut into pieces. Models know no sentences longer than those they were trained on."""
    glossary: Glossary | None = None
    """Terms that must be translated so."""
    protect: bool = True
    typography: bool = True
    """As in the recipe's `decode` section."""
    alignment: bool = False
    """Say which words belong together."""
    tag: str | None = None
    """A tag of the training text, put before each line, such as `backtranslated`."""
    most_alike: int | None = None
    """If set, only so many of what is found are kept: those that are most like all others (minimum Bayes risk)."""

    @property
    def n_best(self) -> int:
        """How many translations each line gets."""
        return self.search.n_best if self.most_alike is None else self.most_alike

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise ConfigError(f"decode.batch_tokens: found {self.batch_tokens}, expected 1 or more")
        if self.max_source_tokens < 1:
            raise ConfigError(f"max-source-tokens: found {self.max_source_tokens}, expected 1 or more")


class _Piece(NamedTuple):
    """A line, or what is translated at a time of a long one, and what its translation begins with."""

    text: str
    prefix: str = ""


class Translator:
    """A model in memory that translates text."""

    def __init__(
        self,
        loaded: LoadedModel | ExportedModel,
        runtime: RuntimeSettings | None = None,
        others: Sequence[LoadedModel] = (),
        process_count: int = 1,
    ) -> None:
        self._runtime = runtime or RuntimeSettings()
        self.models = (loaded, *others) if isinstance(loaded, LoadedModel) else ()
        """Our own models that translate together; none where another program computes."""
        self._tokenizers = loaded.tokenizers
        self._decode = loaded.decode
        self.languages = loaded.languages
        self._engine: Engine
        self._runner: BatchRunner | None = None
        self.computed_by = "CTranslate2"
        """The program, and where they matter to its rounding the device and the precision."""
        if isinstance(loaded, LoadedModel):
            engine = TorchEngine([one.model for one in self.models], self._runtime, process_count)
            self._engine, self._runner = engine, engine.runner
            device = loaded.model.device
            precision = "bf16" if computes_in_bf16(self._runtime, device) else "fp32"
            precision = "int8" if self._runtime.precision == "int8" else precision
            self.computed_by = f"torch, {device.type}, {precision}"
        else:
            self._engine = loaded.engine

    @classmethod
    def load(
        cls,
        directory: Path,
        runtime: RuntimeSettings | None = None,
        engine: Literal["torch", "ct2"] | None = None,
        others: Sequence[Path] = (),
        process_count: int = 1,
    ) -> "Translator":
        """Open a model directory, a run, or what `nmt export --to ctranslate2` wrote.

        The engine is the one that the directory is for; ct2 also translates with a model that is not exported. With
        others, the mean of all models' probabilities decides; languages and settings are those of the first. On a CPU
        large texts are shared out among so many copies of this process, if it does nothing else meanwhile; with one, as
        is safe in any program, among its threads.
        Raises ModelError, or ConfigError if the device or CTranslate2 is not there.
        """
        runtime = runtime or RuntimeSettings()
        if others and (engine == "ct2" or any(map(is_export, (directory, *others)))):
            raise ConfigError("--model: several models translate together only with torch; give none that was exported")
        if engine == "ct2" or (engine is None and is_export(directory)):
            return cls(open_in_ctranslate2(directory, runtime))
        if is_export(directory):
            raise ConfigError(f"--engine: found torch, but {directory} was exported; give the model itself")
        directories = (directory, *others)
        models = [load_model(resolve_model(each), choose_device(runtime)) for each in directories]
        check_same_vocabulary(directories, models)
        return cls(models[0], runtime, models[1:], process_count)

    def options(
        self,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        batch_tokens: int | None = None,
        overrides: Sequence[str] = (),
    ) -> TranslateOptions:
        """Return the model's own settings with these changes; an unsaid beam is as wide as n_best needs.

        `overrides` have the form decode.key=value; the other arguments count for more. Raises ConfigError.
        """
        given = {"beam": beam, "length_penalty": length_penalty, "batch_tokens": batch_tokens}
        changes = [f"decode.{key}={value}" for key, value in given.items() if value is not None]
        decode = override_decode(self._decode, [*overrides, *changes])
        if beam is None and decode.beam == self._decode.beam:
            decode = override_decode(decode, [f"decode.beam={max(decode.beam, n_best)}"])
        samples = decode.mbr
        if samples is None:
            search = SearchOptions.from_settings(decode, n_best)
        else:
            drawn = decode.model_copy(update={"sampling": decode.sampling or Sampling()})
            search = SearchOptions.from_settings(drawn, max(samples, n_best))
        return TranslateOptions(
            search,
            decode.batch_tokens,
            protect=decode.protect,
            typography=decode.typography,
            most_alike=None if samples is None else n_best,
        )

    def translate(self, lines: Iterable[str], options: TranslateOptions | None = None) -> Iterator[Translation]:
        """Yield one translation for each line, in order. Reads a window of lines ahead, never more."""
        options = options or self.options()
        remaining = iter(lines)
        while window := list(islice(remaining, LINE_BATCH_SIZE)):
            yield from self.translate_window(window, options)

    def translate_window(
        self,
        lines: Sequence[str],
        options: TranslateOptions,
        prefixes: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Translation]:
        """Translate lines together: like lengths in one batch, identical lines once, empty lines without the model.

        Each translation begins with its prefix, normalized, to the letter; of an empty line it is all there is. After
        each batch of a search, `on_progress` is called with the share of its batches that are done.
        """
        asked = [
            _Piece(line, normalize(prefix)) for line, prefix in zip(lines, prefixes or [""] * len(lines), strict=True)
        ]
        pieces_of = {line: self._pieces(line, options) for line in dict.fromkeys(asked)}
        encoded = {piece: ids for pieces in pieces_of.values() for piece, ids in pieces}
        survival = self._survival(options)
        constraints_of = {piece: self._beginning(piece) for piece, ids in encoded.items() if ids}
        ways = self._search(constraints_of, encoded, survival, options, on_progress)
        if options.most_alike is not None:
            ways = {piece: most_alike(found)[: options.most_alike] for piece, found in ways.items()}
        ways |= self._searched_again(ways, constraints_of, encoded, survival, options, on_progress)
        ways |= {piece: [Alternative(piece.prefix, 0.0)] for piece, ids in encoded.items() if not ids}
        done = {
            line: join_ways(line.text, [piece.text for piece, _ in pieces], [ways[piece] for piece, _ in pieces])
            for line, pieces in pieces_of.items()
        }
        done = {line: replace(one, loss=survival.report(line.text, one.text)) for line, one in done.items()}
        if options.alignment:
            best = [(piece.text, found[0].text) for piece, found in ways.items()]
            links = zip(best, self.align(best, options.batch_tokens, on_progress), strict=True)
            parts = {piece: (*pair, own) for piece, (pair, own) in zip(ways, links, strict=True)}
            done = {
                line: replace(one, alignment=joined_links([parts[piece] for piece, _ in pieces_of[line]]))
                for line, one in done.items()
            }
        return [done[line] for line in asked]

    def align(
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = 4096, on_progress: OnProgress | None = None
    ) -> list[Links]:
        """Return which words of sentences and of their translations, which are given, belong together.

        Raises ConfigError where another program computes.
        """
        return align(self.needs_own_model("--alignment"), self.models, pairs, batch_tokens, on_progress)

    def force(
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = 4096, on_progress: OnProgress | None = None
    ) -> list[list[tuple[str, float]]]:
        """Return the pieces of given translations with their log-probabilities, as `force_texts` does.

        Raises ConfigError where another program computes, DataError for what the model cannot read.
        """
        runner = self.needs_own_model("--reference")
        return force_texts(runner, self._tokenizers, pairs, batch_tokens, on_progress)

    def needs_own_model(self, option: str) -> BatchRunner:
        """Return the runner of our own models. Raises ConfigError, naming an option, where another program computes."""
        if self._runner is None:
            raise ConfigError(f"{option}: {self.computed_by} cannot do that; translate with the model itself")
        return self._runner

    def _survival(self, options: TranslateOptions) -> OutputConstraints:
        if options.glossary is not None:
            self.needs_own_model("--glossary")
        if UNK not in options.search.forbidden:
            self.needs_own_model("decode.unknown: copy")
        return OutputConstraints(
            self._tokenizers.target, self.languages.target, options.glossary, options.protect, options.typography
        )

    def _beginning(self, piece: _Piece) -> Constraints:
        """Return the demand to begin with the prefix. Raises ConfigError where another program computes."""
        if not piece.prefix:
            return NO_CONSTRAINTS
        self.needs_own_model("--prefixes")
        return Constraints(prefix=tuple(self._tokenizers.target.encode(piece.prefix)))

    def _search(
        self,
        constraints_of: Mapping[_Piece, Constraints],
        encoded: Mapping[_Piece, list[int]],
        survival: OutputConstraints,
        options: TranslateOptions,
        on_progress: OnProgress | None,
    ) -> dict[_Piece, list[Alternative]]:
        """Return what is found for each piece as text, best first; the tokenizer promises that each is one line."""
        sentences = [encoded[piece] for piece in constraints_of]
        constraints = list(constraints_of.values())
        found = self._engine.search(sentences, options.search, options.batch_tokens, constraints, on_progress)
        copies = UNK not in options.search.forbidden
        words = self._words_for_unknown(constraints_of, found, options) if copies else repeat(None)

        def alternative(piece: _Piece, hypothesis: Hypothesis) -> Alternative:
            rest = hypothesis.tokens[len(constraints_of[piece].prefix) :]
            text = survival.text(piece.text, rest, piece.prefix, next(words))
            return Alternative(text, hypothesis.log_prob)

        return {
            piece: [alternative(piece, hypothesis) for hypothesis in hypotheses]
            for piece, hypotheses in zip(constraints_of, found, strict=True)
        }

    def _words_for_unknown(
        self,
        constraints_of: Mapping[_Piece, Constraints],
        found: Sequence[Sequence[Hypothesis]],
        options: TranslateOptions,
    ) -> Iterator[list[str] | None]:
        """Yield for each hypothesis of each piece, in order, the source words for each `<unk>` behind the prefix.

        It is None where there is none.
        """
        said = [
            (piece.text, hypothesis.tokens, constraints.prefix)
            for (piece, constraints), hypotheses in zip(constraints_of.items(), found, strict=True)
            for hypothesis in hypotheses
        ]
        pairs = [(text, tokens) for text, tokens, _ in said if UNK in tokens]
        runner = self.needs_own_model("decode.unknown: copy")
        words = iter(words_for_unknown(runner, self.models, pairs, options.batch_tokens))
        for _, tokens, prefix in said:
            yield next(words)[prefix.count(UNK) :] if UNK in tokens else None

    def _searched_again(
        self,
        ways: Mapping[_Piece, list[Alternative]],
        plain: Mapping[_Piece, Constraints],
        encoded: Mapping[_Piece, list[int]],
        survival: OutputConstraints,
        options: TranslateOptions,
        on_progress: OnProgress | None,
    ) -> dict[_Piece, list[Alternative]]:
        """Search once more, for all that must be there, where something was lost; return what is better for it.

        `<unk>` is then said as a stand-in only.
        """
        if not self.models or options.search.sampling is not None:
            return {}  # neither can be made to say something
        lossy = [
            piece for piece, found in ways.items() if any(any(survival.loss(piece.text, way.text)) for way in found)
        ]
        wanted = {piece: replace(survival.constraints(piece.text), prefix=plain[piece].prefix) for piece in lossy}
        constraints_of = {piece: constraints for piece, constraints in wanted.items() if constraints.phrases}
        strict = options.search.model_copy(update={"forbidden": (*options.search.forbidden, UNK)})
        again = self._search(constraints_of, encoded, survival, replace(options, search=strict), on_progress)
        return {
            piece: best
            for piece, best in again.items()
            if _losses(survival, piece.text, best) < _losses(survival, piece.text, ways[piece])
        }

    def _pieces(self, line: _Piece, options: TranslateOptions) -> list[tuple[_Piece, list[int]]]:
        """Return the parts of a line that the model can take, with their ids; the first has the line's prefix."""
        source = self._tokenizers.source
        mark = [] if options.tag is None else [source.tag_id(options.tag)]

        def encode(text: str) -> list[int]:
            return [*mark, *source.encode(text)]

        ids = encode(line.text)
        limit = options.max_source_tokens
        if self._engine.longest is not None:
            limit = max(1, min(limit, self._engine.longest - 1))
        if len(ids) <= limit:
            return [(line, ids)]
        texts = split_line(line.text, limit, lambda text: len(encode(text)))
        prefixes = chain([line.prefix], repeat("", len(texts) - 1))
        return [(_Piece(text, prefix), encode(text)) for text, prefix in zip(texts, prefixes, strict=True)]


def most_alike(ways: Sequence[Alternative]) -> list[Alternative]:
    """Return different texts only, the one that is most like all others first (minimum Bayes risk)."""
    return [ways[i] for i in by_utility([way.text for way in ways])]


def _losses(survival: OutputConstraints, text: str, ways: Sequence[Alternative]) -> int:
    """Count what the best way has lost or has too often."""
    return sum(map(len, survival.loss(text, ways[0].text)))
