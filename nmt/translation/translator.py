"""The translator: lines in, one translation for each line out, in order.

>>> translator = Translator.load(Path("runs/demo-en-it"))
>>> [translation.text for translation in translator.translate(["Good morning."])]
['Buongiorno.']
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Literal

from nmt.config import RuntimeSettings, Sampling, override_decode
from nmt.decoding.alignment import Links, align, joined_links
from nmt.decoding.engine import TorchEngine
from nmt.decoding.mbr import ranked_by_utility
from nmt.decoding.models import BatchRunner, OnProgress, check_same_vocabulary
from nmt.decoding.options import Constraints, SearchOptions
from nmt.decoding.unknown import words_for_unknown
from nmt.errors import ConfigError
from nmt.export.ctranslate2_engine import CTranslate2Engine, ExportedModel, open_in_ctranslate2
from nmt.export.exported import is_export
from nmt.model.checkpoint import LoadedModel, load_model, resolve_model
from nmt.system.device import choose_device
from nmt.text.glossary import Glossary
from nmt.text.normalize import normalize, normalizer_of
from nmt.text.segment import split_line
from nmt.text.tokenizer import UNK
from nmt.translation.constraints import OutputConstraints
from nmt.translation.result import Alternative, Translation, join_alternatives

LINE_BATCH_SIZE = 2048
"""Lines read before any is translated: enough to sort by length, few enough to need little RAM."""
_GPU_SCALE = 16
"""How many times as many lines and tokens as a CPU a GPU takes at a time."""
_LONGEST_SOURCE = 200  # the longest source, in tokens, of models that do not record the longest one in their training

_SECOND_SEARCH, _ALIGNMENT = 3.0, 0.5
"""The time that a line takes in a search with constraints, and to be aligned, as a multiple of the first search."""


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How to translate. `Translator.options` returns those that the model's recipe sets."""

    search: SearchOptions
    n_best: int  # the number of translations of each line: with minimum Bayes risk, fewer than the search returns
    longest_source: int
    """Lines of more tokens are split into segments: models translate longer input than in their training badly."""
    glossary: Glossary | None = None
    alignment: bool = False  # whether to align words of source and translation
    tag: str | None = None  # a tag of the training text to put before each segment, such as `backtranslated`
    to: str  # the target language

    def __post_init__(self) -> None:
        if self.longest_source < 1:
            raise ConfigError(f"the longest source: found {self.longest_source} tokens, expected 1 or more")

    def fingerprint(self) -> dict[str, Any]:
        """Return the value of every option, as JSON, by its name in recipes and options."""
        own = {key: value for key, value in vars(self).items() if key != "search"}
        glossary = None if self.glossary is None else self.glossary.fingerprint()
        return {**self.search.model_dump(mode="json"), **own, "glossary": glossary}


@dataclass(frozen=True)
class Segment:
    """A line, or a part of a long one, and the required start of its translation."""

    text: str
    prefix: str
    ids: list[int] = field(compare=False)  # source tokens without `</s>`


AlternativesOf = dict[Segment, list[Alternative]]  # the translations of each segment, best first
PrefixedLine = tuple[str, str]  # a line and the required start of its translation


@dataclass(frozen=True)
class _Task:
    """The settings of one call of `translate_lines`."""

    options: TranslateOptions
    constraints: OutputConstraints
    on_progress: Sequence[OnProgress | None]
    """The progress of the search, of the second search and of the alignment."""

    def errors(self, segment: Segment, translation: Alternative) -> int:
        """Return how often required content is missing or surplus."""
        return sum(map(len, self.constraints.diff(segment.text, translation.text)))


def shares_of(on_progress: OnProgress, costs: Sequence[float]) -> list[OnProgress | None]:
    """Return a function for each of successive parts of a task that reports its progress as that of the whole task.

    >>> shown = []
    >>> first, second = shares_of(shown.append, [1, 3])
    >>> first(0.5), second(0.5), shown
    (None, None, [0.125, 0.625])
    """
    starts, whole = accumulate(costs, initial=0.0), sum(costs) or 1.0
    return [
        lambda share, start=start, cost=cost: on_progress((start + share * cost) / whole)  # type: ignore[misc]
        for start, cost in zip(starts, costs, strict=False)
    ]


class Translator:
    """A loaded model, or several that translate together, with their tokenizers."""

    def __init__(
        self,
        loaded: LoadedModel | ExportedModel,
        runtime: RuntimeSettings | None = None,
        others: Sequence[LoadedModel] = (),
        process_count: int = 1,
    ) -> None:
        runtime = runtime or RuntimeSettings()
        self.models = (loaded, *others) if isinstance(loaded, LoadedModel) else ()
        """The torch models; empty if another program translates."""
        self.tokenizers, self.languages, self._decode = loaded.tokenizers, loaded.languages, loaded.decode
        self.engine: TorchEngine | CTranslate2Engine
        self._runner: BatchRunner | None = None
        if isinstance(loaded, LoadedModel):
            self.engine = engine = TorchEngine([one.model for one in self.models], runtime, process_count)
            self._runner = engine.runner
        else:
            self.engine = loaded.engine
        self.scale = _GPU_SCALE if self._runner is not None and self._runner.device.type == "cuda" else 1
        """The size of line batches and of batches, as a multiple of those on a CPU."""
        recorded = [model.longest_source for model in (loaded, *others) if model.longest_source is not None]
        self._longest_source = min(recorded, default=_LONGEST_SOURCE)
        """The most source tokens, without `</s>`, of a segment."""
        if self.engine.longest is not None:
            self._longest_source = max(1, min(self._longest_source, self.engine.longest - 1))

    @classmethod
    def load(
        cls,
        directory: Path,
        runtime: RuntimeSettings | None = None,
        engine: Literal["torch", "ct2"] | None = None,
        others: Sequence[Path] = (),
        process_count: int = 1,
    ) -> "Translator":
        """Load a model directory, a run, or a directory written by `nmt export --to ctranslate2`.

        The engine defaults to the one that the directory is for; ct2 also loads models that are not exported. With
        `others`, the probabilities of all models are averaged; languages and settings are those of the first. On a CPU,
        `process_count` forks translate large texts together, which needs a process without other threads; 1 is always
        safe and uses threads.
        Raises ModelError, or ConfigError if the device or CTranslate2 is not available.
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
        self, beam: int | None = None, n_best: int = 1, overrides: Sequence[str] = (), to: str | None = None
    ) -> TranslateOptions:
        """Return the model's settings with these changes; the beam defaults to at least `n_best`.

        `overrides` have the form decode.key=value; the other arguments take precedence. `to` is the target language; it
        is required if the model has several. Raises ConfigError.
        """
        to = self.languages.chosen_target(to, "--to")
        decode = override_decode(self._decode, overrides)
        if beam is None and decode.beam == self._decode.beam:
            beam = max(decode.beam, n_best)
        if beam is not None:
            decode = override_decode(decode, [f"decode.beam={beam}"])
        samples = max(decode.mbr or 0, n_best)
        if decode.mbr is not None:
            decode = decode.model_copy(update={"sampling": decode.sampling or Sampling()})
        search = SearchOptions.from_settings(decode, samples)
        if decode.batch_tokens is None:
            search = search.model_copy(update={"batch_tokens": search.batch_tokens * self.scale})
        return TranslateOptions(search=search, n_best=n_best, longest_source=self._longest_source, to=to)

    def translate(
        self, lines: Iterable[str], options: TranslateOptions | None = None, to: str | None = None
    ) -> Iterator[Translation]:
        """Yield one translation for each line, in order. Reads at most one line batch ahead.

        `to` is the target language, unless `options` has it. Raises ConfigError as `options` does.
        """
        options = options or self.options(to=to)
        remaining = iter(lines)
        while line_batch := list(islice(remaining, self.scale * LINE_BATCH_SIZE)):
            yield from self.translate_lines(line_batch, options)

    def translate_lines(
        self,
        lines: Sequence[str],
        options: TranslateOptions,
        prefixes: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Translation]:
        """Translate lines in batches of similar length; equal lines once, blank lines without the model.

        Each translation starts with its prefix, normalized; that of a blank line is the prefix.
        """
        prefixed = [
            (line, normalize(prefix)) for line, prefix in zip(lines, prefixes or [""] * len(lines), strict=True)
        ]
        segments_of = {line: self._split(*line, options) for line in dict.fromkeys(prefixed)}
        segments = list(chain.from_iterable(segments_of.values()))
        constraints = self._output_constraints(options)
        searched_again = sum(constraints.has_phrases(one.text) for one in segments) * self._can_repair(options)
        costs = len(segments), _SECOND_SEARCH * searched_again, _ALIGNMENT * len(segments) * options.alignment
        task = _Task(options, constraints, [None] * 3 if on_progress is None else shares_of(on_progress, costs))
        found = self._search(segments, task)
        found |= self._repair(found, task)
        translations = self._assemble(segments_of, found, task)
        return [translations[line] for line in prefixed]

    def tag_ids(self, options: TranslateOptions) -> list[int]:
        """Return the ids that precede each source: the tag of the target language, if there are several, then its own.

        Raises ModelError for a tag that the training text did not have.
        """
        return self.tokenizers.source.tag_ids((self.languages.target_tag(options.to), options.tag))

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        options: TranslateOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Links]:
        """Return the word alignments of sentences and their given translations.

        Raises ConfigError if another program translates, and as `options` does.
        """
        options = options or self.options()
        runner, budget = self.require_torch("--alignment"), options.search.batch_tokens
        return align(runner, self.models, pairs, budget, on_progress, self.tag_ids(options))

    def require_torch(self, option: str) -> BatchRunner:
        """Return the runner of the torch models. Raises ConfigError about the option if another program translates."""
        if self._runner is None:
            raise ConfigError(f"{option}: CTranslate2 cannot do that; translate with the model itself")
        return self._runner

    def _output_constraints(self, options: TranslateOptions) -> OutputConstraints:
        if options.glossary is not None:
            self.require_torch("--glossary")
        if options.search.unknown == "copy":
            self.require_torch("decode.unknown: copy")
        target, search = self.tokenizers.target, options.search
        return OutputConstraints(target, options.to, options.glossary, search.protect, search.typography)

    def _split(self, line: str, prefix: str, options: TranslateOptions) -> list[Segment]:
        """Step 1: split a line into segments of at most `longest_source` tokens; the first has the line's prefix."""
        if prefix:
            self.require_torch("--prefixes")
        source, line = self.tokenizers.source, normalizer_of(self.languages.source)(line)
        tags = self.tag_ids(options)

        def encode(text: str) -> list[int]:
            ids = source.encode(text)
            return [*tags, *ids] if ids else []

        ids = encode(line)
        if len(ids) <= options.longest_source:
            return [Segment(line, prefix, ids)]
        texts = split_line(line, options.longest_source, lambda text: len(encode(text)))
        return [Segment(text, "" if i else prefix, encode(text)) for i, text in enumerate(texts)]

    def _search(self, segments: Sequence[Segment], task: _Task) -> AlternativesOf:
        """Step 2: search for translations that start with the prefix; returns those of each segment, best first."""
        required = {segment: task.constraints.prefix(segment.prefix) for segment in segments if segment.ids}
        found = self._alternatives(required, task.options.search, task, task.on_progress[0])
        if task.options.search.mbr is not None:
            for segment, samples in found.items():
                ranked = ranked_by_utility([sample.text for sample in samples])
                found[segment] = [samples[i] for i in ranked[: task.options.n_best]]
        return found | {segment: [Alternative(segment.prefix, 0.0)] for segment in segments if not segment.ids}

    def _repair(self, found: AlternativesOf, task: _Task) -> AlternativesOf:
        """Step 3: search with constraints where content is missing or surplus; returns only what is better.

        In this search `<unk>` represents a required phrase and nothing else.
        """
        search = task.options.search
        if not self._can_repair(task.options):
            return {}
        errors = {segment: [task.errors(segment, one) for one in found[segment]] for segment in found}
        constraints_of = {one: task.constraints.phrases(one.text, one.prefix) for one in found if any(errors[one])}
        required = {segment: constraints for segment, constraints in constraints_of.items() if constraints.phrases}
        search = search.model_copy(update={"forbidden": (*search.forbidden, UNK)})
        repaired = self._alternatives(required, search, task, task.on_progress[1])
        return {
            one: [replace(each, constraint_cost=found[one][0].log_prob - each.log_prob) for each in alternatives]
            for one, alternatives in repaired.items()
            if task.errors(one, alternatives[0]) < errors[one][0]
        }

    def _can_repair(self, options: TranslateOptions) -> bool:
        """Whether lines can be searched again: CTranslate2 and sampling support no constraints."""
        return bool(self.models) and options.search.sampling is None

    def _assemble(
        self, segments_of: Mapping[PrefixedLine, Sequence[Segment]], found: AlternativesOf, task: _Task
    ) -> dict[PrefixedLine, Translation]:
        """Step 4: join the segments of each line, compare the content of both sides, and align words if requested."""
        links_of: dict[Segment, tuple[str, str, Links]] = {}
        if task.options.alignment:
            best = [(segment.text, alternatives[0].text) for segment, alternatives in found.items()]
            links = self.align(best, task.options, task.on_progress[2])
            links_of = {segment: (*texts, of_pair) for segment, texts, of_pair in zip(found, best, links, strict=True)}
        translations = {}
        for (line, prefix), segments in segments_of.items():
            joined = join_alternatives(line, [one.text for one in segments], [found[one] for one in segments])
            diff = task.constraints.diff_with_numbers(line, joined.text)
            alignment = joined_links([links_of[one] for one in segments]) if links_of else None
            translations[line, prefix] = replace(joined, diff=diff, alignment=alignment)
        return translations

    def _alternatives(
        self,
        required: Mapping[Segment, Constraints],
        search: SearchOptions,
        task: _Task,
        on_progress: OnProgress | None,
    ) -> AlternativesOf:
        """Search under constraints; returns the translations of each segment as text, best first."""
        sentences = [segment.ids for segment in required]
        found = self.engine.search(sentences, search, list(required.values()), on_progress)
        ranked = [(segment, one) for segment, of_one in zip(required, found, strict=True) for one in of_one]
        words_of: Sequence[list[str] | None] = [None] * len(ranked)
        if UNK not in search.forbidden:
            runner, tags = self.require_torch("decode.unknown: copy"), self.tag_ids(task.options)
            pairs = [(segment.text, one.tokens) for segment, one in ranked]
            words_of = words_for_unknown(runner, self.models, pairs, search.batch_tokens, tags)
        alternatives: AlternativesOf = {segment: [] for segment in required}
        for (segment, one), words in zip(ranked, words_of, strict=True):
            prefix = required[segment].prefix
            words = words and words[prefix.count(UNK) :]
            text = task.constraints.text(segment.text, one.tokens[len(prefix) :], segment.prefix, words)
            alternatives[segment].append(Alternative(text, one.log_prob))
        return alternatives
