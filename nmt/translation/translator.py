"""The translator: lines in, one translation for each line out, in order.

>>> translator = Translator.load("runs/demo-en-it")
>>> translator.translate("Good morning.").text
'Buongiorno.'
>>> [translation.text for translation in translator.translate(["Good morning."])]
['Buongiorno.']
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

from nmt.config import RuntimeSettings, override_decode
from nmt.decoding.alignment import Links, align, joined_links, pharaoh
from nmt.decoding.engine import TorchEngine
from nmt.decoding.models import check_same_vocabulary
from nmt.decoding.options import Constraints, SearchOptions
from nmt.errors import ConfigError
from nmt.model.checkpoint import LoadedModel, load_model, resolve_model
from nmt.system.device import choose_device
from nmt.text.glossary import Glossary
from nmt.text.normalize import normalize, normalizer_of
from nmt.text.protection import NO_DIFF, ContentDiff
from nmt.text.segment import join_segments, split_line
from nmt.translation.constraints import OutputConstraints
from nmt.translation.documents.markup import MarkedLine

LINE_BATCH_SIZE = 2048
"""Lines read before any is translated: enough to sort by length, few enough to need little RAM."""
_GPU_SCALE = 16
"""How many times as many lines and tokens as a CPU a GPU takes at a time."""
_LONGEST_SOURCE = 200  # the longest source, in tokens, of models that do not record the longest one in their training

IMPROBABLE_COST = 10.0
"""The cost of required phrases, in nats, above which a line is marked; benchmarks/RESULTS.md has the measurement."""
# valid in JSON strings, but line ends to some readers, or impossible in UTF-8
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How to translate. `Translator.options` returns those that the model's recipe sets."""

    search: SearchOptions
    n_best: int  # the number of translations of each line
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
class Alternative:
    """A possible translation and its log-probability."""

    text: str
    log_prob: float
    constraint_cost: float | None = None
    """By how much `log_prob` is lower than without constraints; None if the text was found without them."""


@dataclass(frozen=True)
class Translation:
    """The translation of one line. `text` is a single line of valid UTF-8 without tabs.

    `log_prob` is the natural logarithm of the probability of the tokens, summed over segments; 0 for a blank line.
    `alternatives` are the next best, with texts different from this one and from each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    segments: int = 1  # the number of segments that a long line was split into
    diff: ContentDiff = NO_DIFF  # required content that is missing, and content that occurs too often
    constraint_cost: float | None = None
    """The cost of required phrases, summed over the segments that were searched for them; None if there are none."""
    alignment: Links | None = None  # pairs of aligned words if requested; `nmt.text.segment` defines a word

    @property
    def is_improbable(self) -> bool:
        """Whether the required phrases cost more than `IMPROBABLE_COST`."""
        return self.constraint_cost is not None and self.constraint_cost > IMPROBABLE_COST

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}.

        If content is missing or occurs too often, also "missing" and "surplus", lists of strings; if requested,
        "alignment", a list of [source word, target word], both from 0. If the line was searched for required phrases,
        "constraint_cost", and "improbable": whether it is above `IMPROBABLE_COST`.
        """
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content: dict[str, Any] = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4)}
        content["alternatives"] = alternatives
        if any(self.diff):
            content |= self.diff._asdict()
        if self.constraint_cost is not None:
            content |= {"constraint_cost": round(self.constraint_cost, 4), "improbable": self.is_improbable}
        if self.alignment is not None:
            content["alignment"] = self.alignment
        return plain_json(content)

    def as_text(self) -> str:
        """Return the text, followed by a tab and the alignment, as in `0-0 1-2`, if requested."""
        return self.text if self.alignment is None else f"{self.text}\t{pharaoh(self.alignment)}"

    def as_table(self, line: int) -> str:
        """Return the n best as tab-separated rows of line number, rank (from 1), log_prob and text."""
        ranked = [Alternative(self.text, self.log_prob), *self.alternatives]
        return "\n".join(f"{line}\t{rank}\t{one.log_prob:.4f}\t{one.text}" for rank, one in enumerate(ranked, start=1))


@dataclass(frozen=True)
class Segment:
    """A line, or a part of a long one, and the required start of its translation."""

    source: str
    marked: MarkedLine  # the source without the tags that are put back into the translation
    prefix: str
    ids: list[int] = field(compare=False)  # source tokens without `</s>`

    @property
    def text(self) -> str:
        """What is translated."""
        return self.marked.text


AlternativesOf = dict[Segment, list[Alternative]]  # the translations of each segment, best first
PrefixedLine = tuple[str, str]  # a line and the required start of its translation


@dataclass(frozen=True)
class _Task:
    """The settings of one call of `translate_lines`."""

    options: TranslateOptions
    constraints: OutputConstraints

    def errors(self, segment: Segment, translation: Alternative) -> int:
        """Return how often required content is missing or surplus."""
        return sum(map(len, self.constraints.diff(segment.text, translation.text)))


class Translator:
    """A loaded model, or several that translate together, with their tokenizers."""

    def __init__(
        self,
        loaded: LoadedModel,
        runtime: RuntimeSettings | None = None,
        others: Sequence[LoadedModel] = (),
        process_count: int = 1,
    ) -> None:
        runtime = runtime or RuntimeSettings()
        self.models = (loaded, *others)
        self.tokenizers, self.languages, self._decode = loaded.tokenizers, loaded.languages, loaded.decode
        self.engine = TorchEngine([one.model for one in self.models], runtime, process_count)
        self.scale = _GPU_SCALE if self.engine.runner.device.type == "cuda" else 1
        """The size of line batches and of batches, as a multiple of those on a CPU."""
        recorded = [model.longest_source for model in self.models if model.longest_source is not None]
        self._longest_source = min(recorded, default=_LONGEST_SOURCE)
        """The most source tokens, without `</s>`, of a segment."""

    @classmethod
    def load(
        cls,
        directory: str | Path,
        runtime: RuntimeSettings | None = None,
        others: Sequence[str | Path] = (),
        process_count: int = 1,
    ) -> "Translator":
        """Load a model directory or a run.

        With `others`, the probabilities of all models are averaged; languages and settings are those of the first. On a
        CPU, `process_count` forks translate large texts together, which needs a process without other threads; 1 is
        always safe and uses threads. Raises ModelError, or ConfigError if the device is not available.
        """
        runtime = runtime or RuntimeSettings()
        directories = [Path(directory), *map(Path, others)]
        models = [load_model(resolve_model(each), choose_device(runtime)) for each in directories]
        check_same_vocabulary(directories, models)
        return cls(models[0], runtime, models[1:], process_count)

    def options(
        self,
        beam: int | None = None,
        n_best: int = 1,
        overrides: Sequence[str] = (),
        to: str | None = None,
        tag: str | None = None,
    ) -> TranslateOptions:
        """Return the model's settings with these changes; the beam defaults to at least `n_best`.

        `overrides` have the form decode.key=value; the other arguments take precedence. `to` is the target language; it
        is required if the model has several. `tag` is one of the training text. Raises ConfigError.
        """
        to = self.languages.chosen_target(to, "--to")
        tags = set(self.tokenizers.source.tags) - {self.languages.target_tag(code) for code in self.languages.target}
        if tag is not None and tag not in tags:
            known = f"the tags {', '.join(sorted(tags))}" if tags else "no tags"
            raise ConfigError(f"--tag: found {tag}, but the training text of this model had {known}; give one or none")
        decode = override_decode(self._decode, overrides)
        if beam is None and decode.beam == self._decode.beam:
            beam = max(decode.beam, n_best)
        if beam is not None:
            decode = override_decode(decode, [f"decode.beam={beam}"])
        search = SearchOptions.from_settings(decode, n_best)
        if decode.batch_tokens is None:
            search = search.model_copy(update={"batch_tokens": search.batch_tokens * self.scale})
        return TranslateOptions(search=search, n_best=n_best, longest_source=self._longest_source, tag=tag, to=to)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is an iterable of strings, too
        self, lines: str, options: TranslateOptions | None = None, to: str | None = None
    ) -> Translation: ...
    @overload
    def translate(
        self, lines: Iterable[str], options: TranslateOptions | None = None, to: str | None = None
    ) -> Iterator[Translation]: ...
    def translate(
        self, lines: str | Iterable[str], options: TranslateOptions | None = None, to: str | None = None
    ) -> Translation | Iterator[Translation]:
        """Return the translation of a string, or yield one for each line, in order, at most one line batch behind.

        `to` is the target language, unless `options` has it. Raises ConfigError as `options` does.
        """
        options = options or self.options(to=to)
        if isinstance(lines, str):
            return next(self._translated([lines], options))
        return self._translated(lines, options)

    def _translated(self, lines: Iterable[str], options: TranslateOptions) -> Iterator[Translation]:
        """Yield one translation for each line."""
        remaining = iter(lines)
        while line_batch := list(islice(remaining, self.scale * LINE_BATCH_SIZE)):
            yield from self.translate_lines(line_batch, options)

    def translate_lines(
        self, lines: Sequence[str], options: TranslateOptions, prefixes: Sequence[str] | None = None
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
        task = _Task(options, constraints)
        found = self._search(segments, task)
        if options.search.sampling is None:  # samples support no constraints
            found |= self._repair(found, task)
        found |= self._with_tags(found, task)
        translations = self._assemble(segments_of, found, task)
        return [translations[line] for line in prefixed]

    def tag_ids(self, options: TranslateOptions) -> list[int]:
        """Return the ids that precede each source: the tag of the target language, if there are several, then its own.

        Raises ModelError for a tag that the training text did not have.
        """
        return self.tokenizers.source.tag_ids((self.languages.target_tag(options.to), options.tag))

    def align(self, pairs: Sequence[tuple[str, str]], options: TranslateOptions | None = None) -> list[Links]:
        """Return the word alignments of sentences and their given translations, by the first model."""
        options = options or self.options()
        return align(self.engine.runner, self.models[0], pairs, options.search.batch_tokens, self.tag_ids(options))

    def _output_constraints(self, options: TranslateOptions) -> OutputConstraints:
        target, search = self.tokenizers.target, options.search
        return OutputConstraints(target, options.to, options.glossary, search.protect, search.typography)

    def _split(self, line: str, prefix: str, options: TranslateOptions) -> list[Segment]:
        """Step 1: split a line into segments of at most `longest_source` tokens; the first has the line's prefix."""
        source, line = self.tokenizers.source, normalizer_of(self.languages.source)(line)
        tags = self.tag_ids(options)

        def encode(text: str) -> list[int]:
            ids = source.encode(text)
            return [*tags, *ids] if ids else []

        def segment(text: str, prefix: str) -> Segment:
            has_tags = options.search.protect and not prefix and "<" in text
            marked = MarkedLine.of(text, numbered=False) if has_tags else MarkedLine("", text, "")
            return Segment(text, marked, prefix, encode(marked.text))

        if len(encode(line)) <= options.longest_source:
            return [segment(line, prefix)]
        texts = split_line(line, options.longest_source, lambda text: len(encode(text)))
        return [segment(text, "" if i else prefix) for i, text in enumerate(texts)]

    def _search(self, segments: Sequence[Segment], task: _Task) -> AlternativesOf:
        """Step 2: search for translations that start with the prefix; returns those of each segment, best first."""
        required = {segment: task.constraints.prefix(segment.prefix) for segment in segments if segment.ids}
        found = self._alternatives(required, task)
        return found | {segment: [Alternative(segment.prefix, 0.0)] for segment in segments if not segment.ids}

    def _repair(self, found: AlternativesOf, task: _Task) -> AlternativesOf:
        """Step 3: search with constraints where content is missing or surplus; returns only what is better.

        In this search `<unk>` represents a required phrase and nothing else.
        """
        damaged = [one for one in found if any(task.errors(one, translation) for translation in found[one])]
        constraints_of = {one: task.constraints.phrases(one.text, one.prefix) for one in damaged}
        required = {segment: constraints for segment, constraints in constraints_of.items() if constraints.phrases}
        repaired = self._alternatives(required, task)
        return {
            one: [replace(each, constraint_cost=found[one][0].log_prob - each.log_prob) for each in alternatives]
            for one, alternatives in repaired.items()
            if task.errors(one, alternatives[0]) < task.errors(one, found[one][0])
        }

    def _with_tags(self, found: AlternativesOf, task: _Task) -> AlternativesOf:
        """Step 4: put the tags back that are around a segment, or in pairs inside; returns only what has some."""
        tagged = [(one, each) for one in found if one.marked.text != one.source for each in found[one]]
        pairs = [(one.text, each.text) for one, each in tagged if one.marked.pairs]
        links = iter(self.align(pairs, task.options))
        restored: AlternativesOf = {}
        for one, each in tagged:
            inside = one.marked.with_pairs(each.text, next(links, None)) if one.marked.pairs else each.text
            text = f"{one.marked.prefix}{inside}{one.marked.suffix}".strip()
            restored.setdefault(one, []).append(replace(each, text=text))
        return restored

    def _assemble(
        self, segments_of: Mapping[PrefixedLine, Sequence[Segment]], found: AlternativesOf, task: _Task
    ) -> dict[PrefixedLine, Translation]:
        """Step 5: join the segments of each line, compare the content of both sides, and align words if requested."""
        links_of: dict[Segment, tuple[str, str, Links]] = {}
        if task.options.alignment:
            best = [(segment.source, alternatives[0].text) for segment, alternatives in found.items()]
            links = self.align(best, task.options)
            links_of = {segment: (*texts, of_pair) for segment, texts, of_pair in zip(found, best, links, strict=True)}
        translations = {}
        for (line, prefix), segments in segments_of.items():
            joined = join_alternatives(line, [one.source for one in segments], [found[one] for one in segments])
            diff = task.constraints.diff_with_numbers(line, joined.text)
            alignment = joined_links([links_of[one] for one in segments]) if links_of else None
            translations[line, prefix] = replace(joined, diff=diff, alignment=alignment)
        return translations

    def _alternatives(self, required: Mapping[Segment, Constraints], task: _Task) -> AlternativesOf:
        """Search under constraints; returns the translations of each segment as text, best first."""
        sentences = [segment.ids for segment in required]
        found = self.engine.search(sentences, task.options.search, list(required.values()))
        ranked = [(segment, one) for segment, of_one in zip(required, found, strict=True) for one in of_one]
        alternatives: AlternativesOf = {segment: [] for segment in required}
        for segment, one in ranked:
            prefix = required[segment].prefix
            text = task.constraints.text(segment.text, one.tokens[len(prefix) :], segment.prefix)
            alternatives[segment].append(Alternative(text, one.log_prob))
        return alternatives


def join_alternatives(line: str, segments: Sequence[str], found: Sequence[Sequence[Alternative]]) -> Translation:
    """Join the best alternatives of all segments, then the second best, and so on; equal texts are left out."""
    joined: dict[str, float] = {}
    for rank in range(max(map(len, found))):
        chosen = [alternatives[min(rank, len(alternatives) - 1)] for alternatives in found]
        text = join_segments(segments, [one.text for one in chosen])
        joined.setdefault(text, sum(one.log_prob for one in chosen))
    best, *others = [Alternative(text, log_prob) for text, log_prob in joined.items()]
    costs = [alternatives[0].constraint_cost for alternatives in found]
    cost = None if all(one is None for one in costs) else sum(one or 0.0 for one in costs)
    return Translation(line, best.text, best.log_prob, tuple(others), len(segments), constraint_cost=cost)


def plain_json(content: dict[str, Any]) -> str:
    """Return one line of JSON in UTF-8."""
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(content, ensure_ascii=False))
