"""Stage 1: text files → prepared corpus.

Two passes over the training text: the first learns the tokenizer from what the filters on text leave, the second cuts
every sentence into ids and applies the filters on length. (Fine-tuning takes the tokenizer of the model that it starts
from.) Neither holds the text in memory. Nothing here is random:
the same text and settings give the same corpus, so one corpus may serve several runs with different seeds.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import CorpusFile, Filters, Recipe
from nmt.config.recorded import with_old_keys
from nmt.errors import ConfigError, DataError, ModelError
from nmt.system.console import Console
from nmt.system.files import staged_directory
from nmt.text.corpus import input_files, open_file, read_pairs
from nmt.text.filters import RULES, PairFilter
from nmt.text.length_limit import longest_to_expect
from nmt.text.normalize import normalize
from nmt.text.prepared import (
    Ids,
    InputFile,
    Manifest,
    PreparedCorpus,
    PreparedSplit,
    SideCounts,
    SplitCounts,
    SplitWriter,
    is_prepared_corpus,
    write_valid_text,
)
from nmt.text.tokenizer import Tokenizer, Tokenizers, tokenizer_files

_BATCH_PAIRS = 10_000
"""Pairs that are encoded at once."""
_PAIRS_SHOWN = 1_000
"""Pairs between two moves of the progress bar, which is slow to draw."""

_ALL_PAIRS = Filters(max_ratio=1e9, keep_duplicates=True, keep_copies=True, keep_any_script=True)
"""Filters for the validation text, which must show what users will send: only what gives no loss is left out."""


def prepare(recipe: Recipe, console: Console, force: bool = False) -> PreparedCorpus:
    """Make the prepared corpus of a recipe, unless it is there and current; return it opened.

    Raises DataError naming file and line for text that cannot be read, ConfigError for a tokenizer that cannot be made.
    """
    directory = recipe.prepared_directory
    start = recipe.train.init_from
    if start is not None and start.is_dir():  # a run that goes on does without
        _taken_over(recipe, start)  # also where the corpus is there already, prepared for another recipe
    reason = "asked to prepare anew" if force else why_stale(recipe)
    if reason is None:
        try:
            corpus = PreparedCorpus.open(directory)
        except DataError as error:
            reason = str(error)
        else:
            console.say(f"{directory}: the prepared corpus is current")
            return corpus
    _check_replaceable(directory)
    console.say(f"preparing {directory} ({reason})")
    started = time.perf_counter()
    inputs = tuple(_digest(path) for path in _inputs(recipe))
    with staged_directory(directory) as staging:
        manifest = _write_corpus(recipe, console, inputs, staging)
        manifest.write(staging)
    _report(manifest, console)
    console.say(f"prepared {directory} in {time.perf_counter() - started:.0f} s")
    return PreparedCorpus.open(directory)


def why_stale(recipe: Recipe) -> str | None:
    """Say why the prepared corpus of a recipe has to be made (anew), or return None if it is current.

    Files whose size and time are as recorded are not read again. A corpus outlives its texts: where the recorded
    files are gone, it is current. Raises DataError for a corpus of a newer nmt, which is not ours to replace.
    """
    directory = recipe.prepared_directory
    if not is_prepared_corpus(directory):
        return "there is none yet"
    try:
        manifest = Manifest.read(directory)
    except DataError as error:
        return str(error)
    change = _first_difference(manifest.settings, _settings(recipe), "")
    if change is not None:
        return change
    # the settings tell how many files each corpus has, so there are as many as before
    for file, path in zip(manifest.inputs, _inputs(recipe), strict=True):
        change = _why_changed(file, path)
        if change is not None:
            return change
    return None


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return what the result depends on beside the content of the files, as plain JSON values."""
    data, start = recipe.data, recipe.train.init_from
    settings = {
        "languages": recipe.languages.model_dump(),
        "data": {
            "train": {i: _form(corpus) for i, corpus in enumerate(data.train)},
            "valid": None if data.valid is None else _form(data.valid),
            "filters": data.filters.model_dump(),
        },
        "tokenizer": recipe.tokenizer.model_dump() if start is None else [path.name for path in tokenizer_files(start)],
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _form(corpus: CorpusFile) -> dict[str, Any]:
    """Return how a corpus is read; where it lies says nothing about what is in it."""
    kept = corpus.model_dump(include={"columns", "oversample", "tag"})
    return {"kind": "tsv" if corpus.tsv is not None else "two files", **kept}


def _first_difference(before: Any, now: Any, key: str) -> str | None:
    """Say which setting is not what it was, as `tokenizer.vocab_size was 8000, is 4000`."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in [*before, *(name for name in now if name not in before)]:
            change = _first_difference(before.get(name), now.get(name), f"{key}.{name}" if key else name)
            if change is not None:
                return change
        return None
    return None if before == now else f"{key} was {json.dumps(before)}, is {json.dumps(now)}"


def _corpora(recipe: Recipe) -> list[CorpusFile]:
    valid = recipe.data.valid
    return [*recipe.data.train, *([] if valid is None else [valid])]


def _inputs(recipe: Recipe) -> list[Path]:
    """Return all files that are read: the texts, and the tokenizers if they are taken over from a model."""
    start = recipe.train.init_from
    texts = [path for corpus in _corpora(recipe) for path in input_files(corpus)]
    return texts if start is None else [*texts, *tokenizer_files(start)]


def _digest(path: Path) -> InputFile:
    with open_file(path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    status = path.stat()
    return InputFile(str(path), status.st_size, status.st_mtime_ns, sha256)


def _why_changed(recorded: InputFile, path: Path) -> str | None:
    """Say how a file differs from the one that was read, looking inside only if size or time leave a doubt."""
    if not path.exists():
        return None if str(path) == recorded.path else f"{path} is missing"
    status = path.stat()
    same_stamp = (status.st_size, status.st_mtime_ns) == (recorded.size, recorded.mtime_ns)
    if str(path) == recorded.path and same_stamp:
        return None
    if status.st_size == recorded.size and _digest(path).sha256 == recorded.sha256:
        return None
    return f"{path} has changed" if str(path) == recorded.path else f"{path} replaces {recorded.path}"


def _fingerprint(settings: dict[str, Any], inputs: Iterable[InputFile]) -> str:
    content = json.dumps([with_old_keys(settings), [file.sha256 for file in inputs]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _check_replaceable(directory: Path) -> None:
    """Refuse to write over a folder that is not ours to delete."""
    if directory.is_dir() and any(directory.iterdir()) and not is_prepared_corpus(directory):
        raise DataError(
            f"{directory}: holds files, but no prepared corpus, and would be replaced; "
            "name a folder of its own as `prepared` in the recipe, or empty this one"
        )
    if directory.exists() and not directory.is_dir():
        raise DataError(f"{directory}: expected a folder for the prepared corpus, found a file")


def _write_corpus(recipe: Recipe, console: Console, inputs: tuple[InputFile, ...], directory: Path) -> Manifest:
    if recipe.train.init_from is None:
        tokenizers, pairs = _learn_tokenizers(recipe, console)
    else:
        tokenizers, pairs = _taken_over(recipe, recipe.train.init_from), None
    tokenizers.save(directory)
    encoder = _Encoder(recipe, tokenizers, console)
    train = encoder.encode(recipe.data.train, recipe.data.filters, directory / "train", pairs)
    valid = None
    if recipe.data.valid is not None:
        written = list(read_pairs(recipe.data.valid))
        write_valid_text(directory, [pair.source for pair in written], [pair.target for pair in written])
        filters = _ALL_PAIRS.model_copy(update={"max_tokens": recipe.data.filters.max_tokens})
        valid = encoder.encode((recipe.data.valid,), filters, directory / "valid", len(written))
    for before, after in zip(inputs, map(Path.stat, _inputs(recipe)), strict=True):
        if (before.size, before.mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise DataError(f"{before.path}: changed while it was read; prepare again when it is complete")
    settings = _settings(recipe)
    limit = longest_to_expect(PreparedSplit.open(directory / "train"))
    return Manifest(settings, inputs, _fingerprint(settings, inputs), train, valid, limit)


@dataclass(frozen=True, slots=True)
class _CleanPair:
    """A pair as the tokenizer gets it, with the corpus that it belongs to."""

    source: str
    target: str
    corpus: CorpusFile


class _Reader:
    """One pass over corpora: normalized pairs that the rules on text leave, and a count of all."""

    def __init__(self, recipe: Recipe, corpora: tuple[CorpusFile, ...], filters: Filters) -> None:
        self.filter = PairFilter(filters, recipe.languages)
        self.read = 0
        self._corpora = corpora

    def pairs(self, advance: Callable[[int], None]) -> Iterator[_CleanPair]:
        """Yield the pairs, telling `advance` now and then how many were read."""
        for corpus in self._corpora:
            for pair in read_pairs(corpus):
                self.read += 1
                if self.read % _PAIRS_SHOWN == 0:
                    advance(_PAIRS_SHOWN)
                source, target = normalize(pair.source), normalize(pair.target)
                if self.filter.text_reason(source, target) is None:
                    yield _CleanPair(source, target, corpus)

    def nothing_left(self) -> DataError:
        """Return the error for corpora of which no pair was kept."""
        files = ", ".join(str(path) for corpus in self._corpora for path in input_files(corpus))
        if self.read == 0:
            return DataError(f"{files}: no sentence pairs in it; expected one pair a line")
        rules = "; ".join(f"{rule} ({RULES[rule]}): {count:,}" for rule, count in self.filter.counts.items() if count)
        return DataError(f"{files}: {self.read:,} pairs read, none kept. {rules}. See data.filters in the recipe")


def _taken_over(recipe: Recipe, start: Path) -> Tokenizers:
    """Load the tokenizers of the model to start from; raise ConfigError for what the recipe says that they are not."""
    tokenizers = Tokenizers.load(start)
    found = {
        "vocab_size": len(tokenizers.source),
        "shared": tokenizers.shared,
        "type": "bpe" if tokenizers.source.merges else "unigram",
        "byte_fallback": "<0x00>" in tokenizers.source.pieces,
    }
    for key in sorted(found.keys() & recipe.tokenizer.model_fields_set):
        stated = getattr(recipe.tokenizer, key)
        if stated != found[key]:
            raise ConfigError(
                f"tokenizer.{key}: found {stated}, but the tokenizer of train.init_from has {found[key]}; "
                f"leave the section tokenizer out, for it comes with {start}"
            )
    for tag in sorted({corpus.tag for corpus in _corpora(recipe) if corpus.tag is not None}):
        try:
            tokenizers.source.tag_id(tag)
        except ModelError:
            raise ConfigError(
                f"data: tag {tag}: the tokenizer of train.init_from ({start}) was trained without it; "
                "use a tag that it knows, or none"
            ) from None
    return tokenizers


def _learn_tokenizers(recipe: Recipe, console: Console) -> tuple[Tokenizers, int]:
    """Train the tokenizer(s); returns also the number of pairs in the training text."""
    settings, total = recipe.tokenizer, 0

    def lines(sides: tuple[str, ...]) -> Iterator[str]:
        nonlocal total
        reader, kept = _Reader(recipe, recipe.data.train, recipe.data.filters), 0
        with console.progress("reading", total or None, "pairs") as advance:
            for pair in reader.pairs(advance):
                kept += 1
                yield from (getattr(pair, side) for side in sides)
        total = reader.read
        if not kept:
            raise reader.nothing_left()
        console.say(f"learning {settings.vocab_size:,} pieces from the {' and '.join(sides)} side of {kept:,} pairs")

    tags = sorted({corpus.tag for corpus in _corpora(recipe) if corpus.tag is not None})
    if settings.shared:
        shared = Tokenizer.train(lines(("source", "target")), settings, tags)
        return Tokenizers(shared, shared), total
    source = Tokenizer.train(lines(("source",)), settings, tags)
    return Tokenizers(source, Tokenizer.train(lines(("target",)), settings)), total


@dataclass(frozen=True)
class _Encoder:
    """The second pass: text to ids."""

    recipe: Recipe
    tokenizers: Tokenizers
    console: Console

    def encode(
        self, corpora: tuple[CorpusFile, ...], filters: Filters, directory: Path, total: int | None
    ) -> SplitCounts:
        """Write the pairs that pass all rules as a split into `directory` and count them."""
        reader = _Reader(self.recipe, corpora, filters)
        sides = (_SideEncoder(self.tokenizers.source, self.recipe), _SideEncoder(self.tokenizers.target, self.recipe))
        progress = self.console.progress(f"encoding {directory.name}", total, "pairs")
        kept = 0
        with SplitWriter(directory, self.tokenizers) as writer, progress as advance:
            pairs = reader.pairs(advance)
            while batch := list(islice(pairs, _BATCH_PAIRS)):
                source_ids = sides[0].encode([pair.source for pair in batch])
                target_ids = sides[1].encode([pair.target for pair in batch])
                lengths = zip(map(len, source_ids), map(len, target_ids), strict=True)
                reasons = [reader.filter.length_reason(source, target) for source, target in lengths]
                keep = [i for i, reason in enumerate(reasons) if reason is None]
                kept += len(keep)
                sides[0].count([batch[i].source for i in keep], [source_ids[i] for i in keep])
                sides[1].count([batch[i].target for i in keep], [target_ids[i] for i in keep])
                sources = [self._tagged(source_ids[i], batch[i].corpus.tag) for i in keep]
                writer.extend(sources, [target_ids[i] for i in keep], [batch[i].corpus.oversample for i in keep])
        if not kept:
            raise reader.nothing_left()
        return SplitCounts(reader.read, kept, reader.filter.counts, sides[0].counts(), sides[1].counts())

    def _tagged(self, ids: Ids, tag: str | None) -> Ids:
        return ids if tag is None else np.insert(ids, 0, self.tokenizers.source.tag_id(tag))


class _SideEncoder:
    """Encodes one side of the text and counts what becomes of it."""

    def __init__(self, tokenizer: Tokenizer, recipe: Recipe) -> None:
        self._tokenizer, self._threads = tokenizer, recipe.runtime.threads
        self._spelled_ids = tokenizer.spelled()
        self._tokens = self._characters = self._spelled = 0

    def encode(self, texts: list[str]) -> list[Ids]:
        return self._tokenizer.encode_batch(texts, self._threads)

    def count(self, texts: list[str], ids: list[Ids]) -> None:
        self._tokens += sum(map(len, ids))
        self._characters += sum(map(len, texts))
        self._spelled += sum(int(self._spelled_ids[sentence].sum()) for sentence in ids)

    def counts(self) -> SideCounts:
        return SideCounts(self._tokens, self._characters, self._spelled)


def _report(manifest: Manifest, console: Console) -> None:
    """Show what was kept, what was not, and how well the pieces fit the text."""
    splits = [split for split in (manifest.train, manifest.valid) if split is not None]
    rows = [["pairs read", *(f"{split.read:,}" for split in splits)]]
    for rule, meaning in RULES.items():
        if any(split.refused[rule] for split in splits):
            rows.append([f"  {rule}: {meaning}", *(f"{-split.refused[rule]:,}" for split in splits)])
    rows.append(["pairs kept", *(f"{split.kept:,}" for split in splits)])
    for side in ("source", "target"):
        counts: list[SideCounts] = [getattr(split, side) for split in splits]
        rows.append([f"{side} tokens", *(f"{count.tokens:,}" for count in counts)])
        mean = (count.tokens / split.kept for count, split in zip(counts, splits, strict=True))
        rows.append(["  a sentence", *(f"{tokens:.1f}" for tokens in mean)])
        rows.append(["  characters without a piece", *(f"{count.spelled / count.characters:.3%}" for count in counts)])
    console.table("", ["", "train", "valid"][: len(splits) + 1], rows)
