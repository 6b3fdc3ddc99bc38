"""The translator: lines in, one translation for each line out, in order.

>>> translator = Translator.load("runs/demo-en-it")
>>> translator.translate("Good morning.").text
'Buongiorno.'
>>> [translation.text for translation in translator.translate(["Good morning."])]
['Buongiorno.']
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, overload

from nmt.config import RuntimeSettings, override_decode
from nmt.decoding.alignment import Links, align, joined_links, pharaoh
from nmt.decoding.engine import TorchEngine
from nmt.decoding.forced_decoding import Forced, force_all
from nmt.decoding.models import check_same_vocabulary
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError
from nmt.model.checkpoint import LoadedModel, load_model, resolve_model
from nmt.system.device import choose_device
from nmt.text.glossary import whole_word
from nmt.text.languages import target_language
from nmt.text.normalize import normalize, normalizer_of
from nmt.text.protection import NO_DIFF, ContentDiff
from nmt.text.segment import join_segments, sentences, split_line
from nmt.translation.placement import Phrase, Tag, cut_items, original, part_of, place, with_tags, without_tags
from nmt.translation.requirements import TranslateOptions

# Lines read before any is translated: enough to sort by length, few enough to need little RAM.
LINE_BATCH_SIZE = 2048
# How many times as many lines and tokens as a CPU a GPU takes at a time.
_GPU_SCALE = 16

# A term that makes a line less probable by so many nats is one that the model does not know (benchmarks/RESULTS.md).
_KNOWN_TERM = 15

# valid in JSON strings, but line ends to some readers, or impossible in UTF-8
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Alternative(NamedTuple):
    """A possible translation and its log-probability."""

    text: str
    log_prob: float


@dataclass(frozen=True)
class Translation:
    """The translation of one line. `text` is a single line of valid UTF-8 without tabs.

    `log_prob` is the natural logarithm of the probability of the tokens that the search found, summed over segments;
    0 for a blank line. `alternatives` are the next best, with texts different from this one and from each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    segments: int = 1  # the number of segments that a long line was split into
    diff: ContentDiff = NO_DIFF  # required content that is missing, and content that occurs too often
    alignment: Links | None = None  # pairs of aligned words if requested; `nmt.text.segment` defines a word

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}.

        If content is missing or occurs too often, also "missing" and "surplus", lists of strings; if requested,
        "alignment", a list of [source word, target word], both from 0.
        """
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content: dict[str, Any] = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4)}
        content["alternatives"] = alternatives
        if any(self.diff):
            content |= self.diff._asdict()
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


@dataclass
class Segment:
    """A line, or a part of a long one, the required start of its translation, and its translations."""

    source: str
    bare: str  # the source without the tags that are put back into the translation
    tags: Sequence[Tag]
    prefix: str
    text: str  # what is translated: `bare`, or that without its items
    items: Sequence[Phrase] = ()  # those that were taken out
    found: list[Alternative] = field(default_factory=list)  # the translations, best first
    links: Links | None = None  # between the words of the source and of the best one, if requested


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
        # The size of line batches and of batches, as a multiple of those on a CPU.
        self.scale = _GPU_SCALE if self.engine.runner.device.type == "cuda" else 1
        # The most source tokens, without `</s>`, of a segment.
        self._longest_source = min(model.longest_source for model in self.models)

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
        return TranslateOptions(search=search, longest_source=self._longest_source, tag=tag, to=to)

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

        `to` is the target language, unless `options` has it. Raises ConfigError as `options` does, TypeError for an
        item that is no string, such as an empty cell of a table.
        """
        options = options or self.options(to=to)
        if isinstance(lines, str):
            return self.translate_lines([lines], options)[0]
        return (one for batch in self.line_batches(_checked(lines)) for one in self.translate_lines(batch, options))

    def line_batches(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield lines in batches of the size that the device needs."""
        remaining, size = iter(lines), self.scale * LINE_BATCH_SIZE
        return iter(lambda: list(islice(remaining, size)), [])

    def translate_lines(
        self, lines: Sequence[str], options: TranslateOptions, prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """Translate lines in batches of similar length; equal lines once, blank lines without the model.

        Each translation starts with its prefix, normalized; that of a blank line is the prefix.
        """
        asked = list(zip(lines, map(normalize, prefixes or [""] * len(lines)), strict=True))
        segments_of = {one: self._split(*one, options) for one in dict.fromkeys(asked)}
        segments = list(chain.from_iterable(segments_of.values()))
        self._search(segments, options)
        self._take_items_out(segments, options)
        self._place_phrases(segments, options)
        self._restore_tags(segments, options)
        if options.alignment:
            links = self.align([(one.source, one.found[0].text) for one in segments], options)
            for one, of_one in zip(segments, links, strict=True):
                one.links = of_one
        translations = {one: joined_segments(one[0], own, options) for one, own in segments_of.items()}
        return [translations[one] for one in asked]

    def tag_ids(self, options: TranslateOptions) -> list[int]:
        """Return the ids that precede each source: the tag of the target language, if there are several, then its own.

        Raises ModelError for a tag that the training text did not have.
        """
        return self.tokenizers.source.tag_ids((self.languages.target_tag(options.to), options.tag))

    def force(self, pairs: Sequence[tuple[str, str]], options: TranslateOptions) -> list[Forced]:
        """Return the log-probabilities of given translations of sentences, by the first model."""
        source, target, tags = self.tokenizers.source, self.tokenizers.target, self.tag_ids(options)
        ids = [([*tags, *source.encode(line)], target.encode(text)) for line, text in pairs]
        return force_all(self.engine.runner, ids, options.search.batch_tokens)

    def align(self, pairs: Sequence[tuple[str, str]], options: TranslateOptions | None = None) -> list[Links]:
        """Return the word alignments of sentences and their given translations, by the first model."""
        options = options or self.options()
        return align(self.engine.runner, self.models[0], pairs, options.search.batch_tokens, self.tag_ids(options))

    def _split(self, line: str, prefix: str, options: TranslateOptions) -> list[Segment]:
        """Split a line into segments of at most `longest_source` tokens; the first has the line's prefix."""
        line = normalizer_of(self.languages.source)(line)

        def count(text: str) -> int:
            return len(self.tokenizers.source.encode(text))

        bare, inside = line, list[Tag]()
        if (options.search.protect or options.document) and not prefix:
            bare, inside = without_tags(line)
        segments, start = [], 0
        for sentence in sentences(bare) if options.document else [bare]:
            for text in split_line(sentence, options.longest_source, count):
                last = start + len(text) == len(bare)
                own = part_of(inside, start, len(bare) + 1 if last else start + len(text))
                segments.append(Segment(original(text, own), text, own, prefix, text))
                prefix, start = "", start + len(text)
        return segments

    def _search(self, segments: Sequence[Segment], options: TranslateOptions) -> None:
        """Find the translations of segments; those of blank ones are their prefixes."""
        source, target, tags = self.tokenizers.source, self.tokenizers.target, self.tag_ids(options)
        for one in segments:
            one.found = [Alternative(one.text.strip() if options.copies(one.text) else one.prefix, 0.0)]
        asked = [one for one in segments if not options.copies(one.text)]
        encoded = [(one, source.encode(one.text), target.encode(one.prefix) if one.prefix else []) for one in asked]
        ids_of = [each for each in encoded if each[1]]
        sentences, prefixes = [[*tags, *ids] for _, ids, _ in ids_of], [prefix for *_, prefix in ids_of]
        found = self.engine.search(sentences, options.search, prefixes)
        for (one, _, prefix), hypotheses in zip(ids_of, found, strict=True):
            begin = target.decode(prefix) if prefix else ""
            rests = [target.decode(each.tokens).removeprefix(begin) for each in hypotheses]
            texts = [options.finished(one.text, one.prefix, rest) for rest in rests]
            one.found = [Alternative(text, each.log_prob) for text, each in zip(texts, hypotheses, strict=True)]

    def _take_items_out(self, segments: Sequence[Segment], options: TranslateOptions) -> None:
        """Translate lines whose translations have other items again, without items."""
        again = [one for one in segments if one.text and options.items_differ(one.text, one.found[0].text)]
        for one in again:
            one.text, one.items = cut_items(one.text)
        self._search(again, options)
        for one in again:
            if not any(map(str.isalnum, one.text)):
                one.found = [Alternative(f"{one.prefix} {one.bare}".strip(), 0.0)]

    def _place_phrases(self, segments: Sequence[Segment], options: TranslateOptions) -> None:
        """Put items and terms where they are missing; a missing term into all hypotheses of the beam."""
        search = options.search
        asked = segments if search.sampling is None else ()
        plain = [(one, one.found[0]) for one in asked if options.missing_terms(one.text, one.found[0].text)]
        if search.n_best < search.beam:
            wide = search.model_copy(update={"n_best": search.beam})
            self._search([one for one, _ in plain], replace(options, search=wide))
        lacking = []
        for one in segments:
            for rank, each in enumerate(one.found):
                terms = options.missing_terms(one.text, each.text)
                if terms or (one.items and options.items_differ(one.bare, each.text)):
                    lacking.append((one, rank, sorted([*one.items, *terms], key=lambda phrase: phrase.start)))
        links_of = self.align([(one.text, one.found[rank].text) for one, rank, _ in lacking], options)
        spaced = not target_language(options.to).unspaced
        for (one, rank, phrases), links in zip(lacking, links_of, strict=True):
            text, line, begin = one.found[rank].text, one.bare, len(one.prefix)
            placed = place(text, phrases, one.text, links, spaced, begin)
            placed = options.finished(line, one.prefix, placed[begin:])
            if options.differences(line, placed) < options.differences(line, text):
                one.found[rank] = one.found[rank]._replace(text=placed)
        self._choose_by_terms(plain, options)

    def _choose_by_terms(self, plain: Sequence[tuple[Segment, Alternative]], options: TranslateOptions) -> None:
        """Keep the n most probable of the texts with terms, also of those whose end is translated anew to agree.

        If all are much less probable than a segment's translation without its terms, the model does not know them: it
        would end a line wrongly after them, and log-probabilities would not show their best place.
        """
        pairs = [(one.text, each.text) for one, before in plain for each in (before, *one.found)]
        log_probs = (sum(forced.token_log_probs) for forced in self.force(pairs, options))
        known: list[tuple[Segment, Segment]] = []
        for one, before in plain:
            without_terms, *with_terms = islice(log_probs, 1 + len(one.found))
            texts = [each.text for each in one.found]
            one.found = list(map(Alternative, texts, with_terms))
            if max(with_terms) > without_terms - _KNOWN_TERM:
                terms = "|".join(whole_word(term.text).pattern for term in options.missing_terms(one.text, before.text))
                ends = (max((match.end() for match in re.finditer(terms, text)), default=0) for text in texts)
                known += [(one, replace(one, prefix=text[:end])) for text, end in zip(texts, ends, strict=True) if end]
        self._search([other for _, other in known], options)
        for one, other in known:
            one.found.append(other.found[0])
            one.found.sort(key=lambda each: (options.differences(one.bare, each.text), -each.log_prob))
        for one, _ in plain:
            del one.found[options.search.n_best :]

    def _restore_tags(self, segments: Sequence[Segment], options: TranslateOptions) -> None:
        """Put the tags of segments back into their translations."""
        tagged = [one for one in segments if one.tags]
        links = iter(self.align([(one.bare, each.text) for one in tagged for each in one.found], options))
        for one in tagged:
            texts = [with_tags(each.text, one.tags, one.bare, next(links)) for each in one.found]
            one.found = [each._replace(text=text) for text, each in zip(texts, one.found, strict=True)]


def joined_segments(line: str, segments: Sequence[Segment], options: TranslateOptions) -> Translation:
    """Join the best alternatives of all segments, then the second best, and so on; equal texts are left out."""
    joined: dict[str, float] = {}
    for rank in range(max(len(one.found) for one in segments)):
        chosen = [one.found[min(rank, len(one.found) - 1)] for one in segments]
        text = join_segments([one.source for one in segments], [one.text for one in chosen])
        joined.setdefault(text, sum(one.log_prob for one in chosen))
    best, *others = [Alternative(text, log_prob) for text, log_prob in joined.items()]
    links = [(one.source, one.found[0].text, one.links) for one in segments if one.links is not None]
    alignment = joined_links(links) if options.alignment else None
    return Translation(line, *best, tuple(others), len(segments), options.diff(line, best.text), alignment)


def plain_json(content: dict[str, Any]) -> str:
    """Return one line of JSON in UTF-8."""
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(content, ensure_ascii=False))


def _checked(lines: Iterable[object]) -> Iterator[str]:
    for index, line in enumerate(lines):
        if not isinstance(line, str):
            raise TypeError(f"item {index}: expected text, found {line!r:.60}; leave it out, or replace it by ''")
        yield line
