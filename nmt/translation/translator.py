"""The translator: lines in, one translation for each line out, in order.

>>> translator = Translator.load("runs/demo-en-it")
>>> translator.translate("My father has a rabbit.").text
'Mio padre ha un coniglio.'
>>> [translation.text for translation in translator.translate(["My father has a rabbit."])]
['Mio padre ha un coniglio.']
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, filterfalse, islice
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack, overload

from pydantic import ValidationError

from nmt.config import RuntimeSettings, override_decode
from nmt.config.loading import first_problem
from nmt.config.section import SettingError
from nmt.decoding.alignment import align
from nmt.decoding.engine import engine_for
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced
from nmt.errors import ConfigError
from nmt.kernels.machine import is_cpu
from nmt.model.stored import LoadedModel, check_same_vocabulary, read_model, resolve_model
from nmt.system.workers import batched, can_fork
from nmt.text.glossary import Glossary, whole_word
from nmt.text.items import ITEM, NO_TEXT, Line, joined, with_signs
from nmt.text.normalize import normalize, normalizer_of
from nmt.text.sentences import units
from nmt.text.typography import NARROW, is_title, sentence_case
from nmt.text.words import Links
from nmt.translation import placing
from nmt.translation.options import Choices, TranslateOptions, check_types, checked_lines, checked_options
from nmt.translation.result import Alternative, Translation, Unit, begun_unit, behind_prefix, joined_units
from nmt.translation.sharing import shared_map

if TYPE_CHECKING:
    from torch import Tensor

    from nmt.translation.internals import Attention, Step

# Lines read before any is translated: enough to sort by length, few enough to need little RAM.
LINE_BATCH_SIZE = 2048
# Lines that a core translates together: enough for full batches of a search, and few enough to keep many cores busy.
# On a GPU, the waiting searches of all processes are run as one search.
_CORE_LINES, _PROCESS_LINES_OF_GPU = 512, 4096
_LONGEST_ALIGNED = 4_000  # characters of a side: time and RAM of an alignment grow with the square of it

# A term that makes a line less probable by so many nats was not in the training text (benchmarks/RESULTS.md).
_KNOWN_TERM = 15
# Full-width forms other than punctuation. Those without a piece are replaced by the narrow ones, at this distance.
_WIDE_FORMS, _WIDTH = {*map(chr, range(0xFF01, 0xFF5F))} - {*map(chr, NARROW)}, ord("０") - ord("0")
# Within a word. One without a piece is replaced by one that has a piece, since as an item it would divide the word.
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’‘´`](?=[^\W\d_])")

Text = TypeVar("Text", str, Line)


class Translator:
    """A loaded model, or several that translate together, with their tokenizers."""

    def __init__(
        self,
        loaded: LoadedModel,
        runtime: RuntimeSettings | None = None,
        others: Sequence[LoadedModel] = (),
        process_count: int = 1,
        threads: int | None = None,
    ) -> None:
        """Take models in torch, or as arrays, which are searched on the CPU; see `load`."""
        self.models = (loaded, *others)
        self.tokenizers, self.languages, self._decode = loaded.tokenizers, loaded.languages, loaded.decode
        self.engine = engine_for(self.models, runtime or RuntimeSettings(), threads)
        self.process_count = process_count
        # The size of line batches and of batches, as a multiple of the default.
        self.scale = self.engine.search_scale
        self._known_characters = set[str]()  # those that `_is_unknown_sign` is false for
        # The most source tokens, without `</s>`, of a unit.
        self._longest_source = min(model.longest_source for model in self.models)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        others: Sequence[str | Path] = (),
        process_count: int = 1,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
    ) -> "Translator":
        """Load a model directory or a run.

        With `others`, the probabilities of all models are averaged; languages and settings are those of the first. A
        long text of the main thread is translated by `process_count` forks, on a CPU with one thread each; or there by
        as many threads, if libraries such as numpy have started threads before, which forks would lack. `device`,
        `precision` and `threads` are as in the section `runtime`; `threads` also sets those of torch, which is loaded
        for what the C++ kernels do not support. Several threads may use one translator.
        Raises ModelError, or ConfigError if the device is not available.
        """
        try:
            runtime = RuntimeSettings.model_validate({"device": device, "precision": precision, "threads": threads})
        except ValidationError as error:
            raise ConfigError(first_problem(error)) from None
        if isinstance(others, str | Path) or index(process_count) < 1:
            found = f"{others!r:.60} and {process_count!r:.60}"
            raise TypeError(f"others, process_count: expected a list of models and 1 or more, found {found}")
        paths = [Path(path) for path in (directory, *others)]
        directories = [resolve_model(path) for path in paths]
        if on_cpu := is_cpu(device):
            models = [read_model(path) for path in directories]
        else:
            from nmt.kernels.device import choose_device
            from nmt.model.checkpoint import load_model

            chosen = choose_device(runtime)
            on_cpu, models = chosen.type == "cpu", [load_model(path, chosen) for path in directories]
        check_same_vocabulary(paths, [model.tokenizers for model in models])
        if on_cpu and process_count > 1 and not can_fork():
            process_count, threads = 1, process_count
        return cls(models[0], runtime, models[1:], process_count, 1 if process_count > 1 else threads)

    def options(self, **choices: Unpack[Choices]) -> TranslateOptions:
        """Return the model's settings with these changes; the beam defaults to at least `n_best`.

        `overrides` have the form decode.key=value; the other arguments take precedence. Raises ConfigError, TypeError
        for another name or a value of another type.
        """
        check_types(choices)
        to, tag = self.languages.chosen_target(choices.get("to"), "to"), choices.get("tag")
        tags = set(self.tokenizers.source.tags) - {self.languages.target_tag(code) for code in self.languages.target}
        if tag is not None and tag not in tags:
            known = f"the tags {', '.join(sorted(tags))}" if tags else "no tags"
            raise SettingError("tag", f"found {tag}, but the training text of this model had {known}; give one or none")
        decode = override_decode(self._decode, choices.get("overrides") or ())
        beam, n_best, sampling = choices.get("beam"), index(choices.get("n_best", 1)), choices.get("sampling")
        if beam is None and decode.beam == self._decode.beam:
            beam = max(decode.beam, n_best)
        changes = [] if beam in (None, decode.beam) else [f"decode.beam={beam}"]
        if sampling is not None:
            changes.append(f"decode.sampling={json.dumps(dict(sampling), default=float)}")  # of numpy
        decode = override_decode(decode, changes)
        search = SearchOptions.from_settings(decode, n_best)
        if decode.batch_tokens is None:
            search = search.model_copy(update={"batch_tokens": search.batch_tokens * self.scale})
        glossary = choices.get("glossary")
        return TranslateOptions(
            search=search,
            longest_source=self._longest_source,
            glossary=Glossary(glossary) if isinstance(glossary, Mapping) else glossary,
            alignment=choices.get("alignment", False),
            tag=tag,
            to=to,
        )

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings, too
        self, lines: str, options: TranslateOptions | None = None, **choices: Unpack[Choices]
    ) -> Translation: ...
    @overload
    def translate(  # type: ignore[overload-overlap]  # and a list an iterable
        self, lines: Sequence[str], options: TranslateOptions | None = None, **choices: Unpack[Choices]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, lines: Iterable[str], options: TranslateOptions | None = None, **choices: Unpack[Choices]
    ) -> Iterator[Translation]: ...
    def translate(
        self, lines: str | Iterable[str], options: TranslateOptions | None = None, **choices: Unpack[Choices]
    ) -> Translation | Iterable[Translation]:
        """Return the translation of a string, the translations of a list, or an iterator over those of an iterator.

        One line batch of an iterator is read ahead. Options are given as keywords, see `Choices`, or as `options`.
        Raises ConfigError as the method `options`, TypeError for a line that is not a string, such as an empty cell.
        """
        if options is not None and choices:
            raise TypeError(f"translate: give options, or {', '.join(choices)}, not both")
        chosen = self.options(**choices) if options is None else checked_options(options)
        self.languages.chosen_target(chosen.to, "to")  # options may be those of another translator
        if isinstance(lines, str):
            return self.translate_lines([lines], chosen)[0]
        if not isinstance(lines, Iterable):  # at once, not when the result is read
            raise TypeError(f"translate: expected a string, or a list or iterator of strings, found {lines!r:.60}")
        translations = chain.from_iterable(batch for _, batch in self.translate_batches(checked_lines(lines), chosen))
        return list(translations) if isinstance(lines, Sequence) else translations

    def translate_file(
        self,
        source: str | Path,
        output: str | Path,
        column: Sequence[str | int] = (),
        into: str | int | None = None,
        exclude: Sequence[str] = (),
        **choices: Unpack[Choices],
    ) -> list[str]:
        """Translate a text or a document into a file; return warnings about content that stays as it is.

        The source may be compressed, or a member of a zip archive. Columns or keys, where their translations go, and
        keys whose strings stay are as for the command. Lines of a text are separate. Raises DataError for a damaged
        file, ConfigError for an output that cannot be written and for a choice without effect.
        """
        from nmt.translation.documents.translating import translate_file  # which imports this module

        return translate_file(self, Path(source), Path(output), column, into, exclude, **choices)

    @property
    def batch_lines(self) -> int:
        """The number of lines in a batch of a long text; on a CPU, the number of processes has no influence."""
        if self.engine.uses_cores:
            return _CORE_LINES * self.engine.threads
        return self.scale * LINE_BATCH_SIZE if self.process_count == 1 else _PROCESS_LINES_OF_GPU

    def translate_batches(
        self, lines: Iterable[Text], options: TranslateOptions
    ) -> Iterator[tuple[list[Text], list[Translation]]]:
        """Yield lines in batches with their translations, in order; all processes share the batches of a long text."""
        batches = batched(lines, self.batch_lines)
        first = list(islice(batches, 2)) if self.process_count > 1 else []  # else each is read when it is needed
        batches = chain(first, batches)
        return shared_map(self, lambda batch: (batch, self.translate_lines(batch, options)), batches, len(first) > 1)

    def translate_lines(
        self, lines: Sequence[str | Line], options: TranslateOptions, prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """Translate lines in batches of similar length; equal lines once, lines without letters not at all.

        Each translation starts with its prefix, normalized; that of a blank line is the prefix. A `Line` has its items
        already.
        """
        requests = list(zip(lines, map(normalize, prefixes or [""] * len(lines)), strict=True))
        units_of = {request: self._units(*request, options) for request in dict.fromkeys(requests)}
        units = list(chain.from_iterable(units_of.values()))
        self._search(units, options)
        self._place_terms(units, options)
        self._place_items(units, options)
        if options.alignment:
            are_aligned = [not unit.is_copied and max(map(len, unit.pair)) <= _LONGEST_ALIGNED for unit in units]
            links = iter(self.align([unit.pair for unit in compress(units, are_aligned)], options))
            for unit, is_aligned in zip(units, are_aligned, strict=True):
                unit.links = next(links) if is_aligned else []
        translations = {request: joined_units(request[0], parts, options) for request, parts in units_of.items()}
        return [translations[request] for request in requests]

    def tag_ids(self, options: TranslateOptions) -> list[int]:
        """Return the ids that precede each source: the tag of the target language, if there are several, then its own.

        Raises ModelError for a tag that the training text did not have.
        """
        return self.tokenizers.source.tag_ids((self.languages.target_tag(options.to), options.tag))

    def force(self, pairs: Sequence[tuple[str, str]], options: TranslateOptions) -> list[Forced]:
        """Return the log-probabilities of given translations of sentences, by the first model."""
        source, target, tags = self.tokenizers.source, self.tokenizers.target, self.tag_ids(options)
        ids = [([*tags, *source.encode(line)], target.encode(text)) for line, text in pairs]
        return self.engine.force(ids, options.search.batch_tokens)

    def align(self, pairs: Sequence[tuple[str, str]], options: TranslateOptions | None = None) -> list[Links]:
        """Return the word alignments of sentences and their given translations, by the first model."""
        options = options or self.options()
        return align(self.engine, self.models[0], pairs, options.search.batch_tokens, self.tag_ids(options))

    def attention(self, sentence: str, target: str | None = None, to: str | None = None) -> "Attention":
        """Return all attention weights of the first model for a sentence and a translation, by default the model's.

        It is found by a search for the whole sentence. Raises ConfigError as `options` does, TypeError for a
        sentence that is no string.
        """
        from nmt.translation import internals

        return internals.attention(self, sentence, target, to)

    def steps(self, sentence: str, top: int = 5, to: str | None = None) -> "list[Step]":
        """Return what a greedy search generates, and the `top` most probable pieces of each step.

        Raises as `attention` does, and ConfigError for a number of pieces that do not exist.
        """
        from nmt.translation import internals

        return internals.steps(self, sentence, top, to)

    def encode(self, sentences: str | Iterable[str], to: str | None = None) -> "Tensor":
        """Return the vector (D) of a sentence, or (B, D) of several: the mean of the first model's encoder output.

        Raises as `attention` does.
        """
        from nmt.translation import internals

        if isinstance(sentences, str):
            return internals.encode(self, [sentences], to)[0]
        return internals.encode(self, list(sentences), to)

    def _units(self, source: str | Line, prefix: str, options: TranslateOptions) -> list[Unit]:
        """Return the texts of a line that are translated one by one, of at most `longest_source` tokens.

        The first unit has the prefix; it joins as many units as the prefix has, and those of its items.
        """
        line, start = options.read(source) if isinstance(source, str) else source, options.read(prefix)
        new_characters = {*line.text} - self._known_characters if options.search.protect else set[str]()
        if wide := [c for c in map(ord, new_characters & _WIDE_FORMS) if self._is_unknown(chr(c))]:
            line = line._replace(text=line.text.translate({c: c - _WIDTH for c in wide}))
            new_characters = {*line.text}
        if signs := "".join(sorted(filter(self._is_unknown_sign, new_characters))):
            known = next(filterfalse(self._is_unknown_sign, "'’"), None)
            text = _APOSTROPHE.sub(lambda match: known if known and match[0] in signs else match[0], line.text)
            line = line._replace(text=text)
            line, start = with_signs(line, signs), with_signs(start, signs)
        if not prefix and not any(map(str.isalpha, line.text)):
            return [Unit(NO_TEXT, line._replace(text=line.text.strip()), NO_TEXT, start, "")]
        line = line._replace(text=normalizer_of(self.languages.source)(line.text))
        in_title = is_title(line.text, self.languages.source)
        parts = units(line, options.longest_source, self._count, self.languages.source) or [line]
        if not prefix:
            return [self._unit(part, options, in_title) for part in parts]
        begin, items = Line(placing.text_and_places(start)[0]), Counter(start.items) & Counter(line.items)
        least = len(units(begin, options.longest_source, self._count, options.to))
        for count, part in enumerate(parts, start=1):
            items -= Counter(part.items)
            if count >= least and not items:
                break
        begun = begun_unit(joined(parts[:count]), start)
        return [begun, *(self._unit(part, options, in_title) for part in parts[count:])]

    def _count(self, text: str) -> int:
        return len(self.tokenizers.source.encode(text))

    def _unit(self, part: Line, options: TranslateOptions, in_title: bool) -> Unit:
        before, core, after = placing.edges(part)
        text = placing.text_and_places(core)[0]
        if core.items:  # spaces within a pair at an end of the text go out of it
            inner = core.text.strip(ITEM)
            before = before._replace(text=before.text + " " * (inner[:1] == " " != before.text[-1:]))
            after = after._replace(text=" " * (inner[-1:] == " " != after.text[:1]) + after.text)
        if options.search.typography:
            text = sentence_case(text, self.languages.source, self._count, in_title)
        return Unit(before, core, after, NO_TEXT, text)

    def _is_unknown_sign(self, character: str) -> bool:
        """Whether a character is a sign without a piece: models rarely copy a sign that is spelled in bytes."""
        is_sign = character != ITEM and unicodedata.category(character)[0] in "NPS" and not character.isdecimal()
        if is_sign and self._is_unknown(character):
            return True
        self._known_characters.add(character)
        return False

    def _is_unknown(self, character: str) -> bool:
        """Whether a character has no piece, and models do not translate whole words only."""
        source = self.tokenizers.source
        return not source.has_words_only and bool(source.spelled()[source.encode(character)].any())

    def _search(self, units: Sequence[Unit], options: TranslateOptions) -> None:
        """Find the translations of the texts of units; a unit that is copied is its own translation."""
        source, target, tags = self.tokenizers.source, self.tokenizers.target, self.tag_ids(options)
        encoded = []
        for unit in units:
            unit.alternatives = [Alternative(unit.begin or unit.text, 0.0)]
            if not unit.is_copied and (ids := source.encode(unit.text)):
                encoded.append((unit, ids, target.encode(unit.begin) if unit.begin else []))
        sentences, prefixes = [[*tags, *ids] for _, ids, _ in encoded], [prefix for *_, prefix in encoded]
        results = self.engine.search(sentences, options.search, prefixes)
        for (unit, _, prefix), hypotheses in zip(encoded, results, strict=True):
            begin = target.decode(prefix) if prefix else ""
            rests = [target.decode(each.tokens).removeprefix(begin).replace(ITEM, "") for each in hypotheses]
            texts = [options.finished(unit.text, unit.begin, rest) or unit.text for rest in rests]
            unit.alternatives = [Alternative(text, each.log_prob) for text, each in zip(texts, hypotheses, strict=True)]

    def _place_terms(self, units: Sequence[Unit], options: TranslateOptions) -> None:
        """Insert missing terms into all hypotheses of the beam."""
        if options.glossary is None:
            return
        search = options.search
        lacking = [unit for unit in units if options.missing_terms(unit.text, unit.alternatives[0].text)]
        without_terms = [(unit, unit.alternatives[0]) for unit in lacking if search.sampling is None]
        if search.n_best < search.beam:
            wide = search.model_copy(update={"n_best": search.beam})
            self._search([unit for unit, _ in without_terms], replace(options, search=wide))
        terms = [
            (unit, rank, missing)
            for unit in units
            for rank, each in enumerate(unit.alternatives)
            if (missing := options.missing_terms(unit.text, each.text))
        ]
        links_of = self.align([(unit.text, unit.alternatives[rank].text) for unit, rank, _ in terms], options)
        for (unit, rank, missing), links in zip(terms, links_of, strict=True):
            begin = len(unit.begin)
            placed = placing.place_terms(unit.alternatives[rank].text, missing, unit.text, links, begin)
            placed = options.finished(unit.text, unit.begin, placed[begin:])
            if len(options.missing_terms(unit.text, placed)) < len(missing):
                unit.alternatives[rank] = unit.alternatives[rank]._replace(text=placed)
        self._choose_by_terms(without_terms, options)

    def _choose_by_terms(self, plain: Sequence[tuple[Unit, Alternative]], options: TranslateOptions) -> None:
        """Keep the n most probable texts with terms, including texts whose end is translated again after the terms.

        If all are much less probable than the translation without terms, the terms were not in the training text: then
        the model would continue them wrongly, and log-probabilities do not show their best place.
        """
        pairs = [(unit.text, each.text) for unit, before in plain for each in (before, *unit.alternatives)]
        log_probs = (sum(forced.token_log_probs) for forced in self.force(pairs, options))
        continued: list[tuple[Unit, Unit]] = []
        for unit, before in plain:
            without_terms, *with_terms = islice(log_probs, 1 + len(unit.alternatives))
            texts = [each.text for each in unit.alternatives]
            unit.alternatives = list(map(Alternative, texts, with_terms))
            if max(with_terms) > without_terms - _KNOWN_TERM:
                missing = options.missing_terms(unit.text, before.text)
                terms = [whole_word(term.text) for term in missing]
                ends = (max((m.end() for term in terms for m in term.finditer(text)), default=0) for text in texts)
                prefixes = (Line(text[:end]) for text, end in zip(texts, ends, strict=True) if end)
                continued += [(unit, replace(unit, prefix=prefix)) for prefix in prefixes]
        self._search([continuation for _, continuation in continued], options)
        # scored, since a search may return no log-probabilities
        new_pairs = [(unit.text, continuation.alternatives[0].text) for unit, continuation in continued]
        for (unit, _), pair, forced in zip(continued, new_pairs, self.force(new_pairs, options), strict=True):
            unit.alternatives.append(Alternative(pair[1], sum(forced.token_log_probs)))
            unit.alternatives.sort(key=lambda each: (len(options.missing_terms(unit.text, each.text)), -each.log_prob))
        for unit, _ in plain:
            del unit.alternatives[options.search.n_best :]

    def _place_items(self, units: Sequence[Unit], options: TranslateOptions) -> None:
        """Put the items of the core of each unit into its translations."""
        with_items = [unit for unit in units if unit.core.items and not unit.is_copied]
        links = iter(self.align([(unit.text, each.text) for unit in with_items for each in unit.alternatives], options))
        for unit in units:
            if unit.is_copied:
                unit.lines = [unit.core]
            elif unit.core.items:
                begin = len(unit.begin)
                unit.lines = [placing.place(unit.core, each.text, next(links), begin) for each in unit.alternatives]
            else:
                unit.lines = [Line(each.text) for each in unit.alternatives]
            if unit.text != placing.text_and_places(unit.core)[0]:
                terms = [term.text for term in options.terms(unit.text)]
                unit.lines = [placing.recased(line, unit.core.text, terms, options.to) for line in unit.lines]
            unit.lines = [behind_prefix(unit, line) for line in unit.lines]
