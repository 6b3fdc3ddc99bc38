"""Prepare a corpus: filter → duplicates → tokenizer → encode → write.

1. filter      blocks of pairs are normalized and pass the rules on text, in other processes or on other machines; what
               is kept is a plain text file in a temporary folder, a line for each pair: place, source, target
2. duplicates  found by 8 bytes in RAM for each of these pairs
3. tokenizer   trained on a sample of the others, in a process that gives its RAM back
4. encode      with all threads of SentencePiece, block by block, into the files of the prepared corpus

Blocks come back in order, so the result depends on the text and the settings alone, not on the number of processes.
Nothing is random: runs with different seeds can share a corpus.
"""

import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b, sha256
from itertools import compress, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Filters, MaxLength, Recipe, RuleName
from nmt.errors import DataError
from nmt.system.console import Console, counted
from nmt.system.files import digest_of
from nmt.system.workers import WorkerPool, available_cores, can_fork
from nmt.text.corpus import SentencePair, pairs_of, read_pairs, text_files
from nmt.text.manifest import Manifest, SplitCounts, input_files, recorded_settings, stamps
from nmt.text.prepared import SideWriter, TokenStore, write_valid_texts
from nmt.text.preparing.audit import Audit, CorpusAudit, Removed, corpus_name
from nmt.text.preparing.findings import findings, sample_of
from nmt.text.preparing.rules import RULES, Rules
from nmt.text.preparing.tokenizer_training import initial_tokenizers, train_tokenizers
from nmt.text.tokenizer import Tokenizers

BLOCK = 5_000  # pairs that are filtered or encoded at a time
_SHARED_BYTES = 2**22  # files of fewer bytes are filtered sooner without other processes
_SAMPLED_PAIRS = 1_000_000  # whose lengths suffice for the limit on the length of translations
_FACTORS = np.arange(1.0, 6.05, 0.1)
_COVERAGE, _MARGIN = 0.9999, 1.1
"""Share of the pairs below the line, and the factor between the line and the limit."""
_LEAST_EXTRA = 5

Item = TypeVar("Item")
Mapped = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""A function like `map` that shares the work: results in order, only some items and results in RAM at a time."""


Block = tuple[int, list[tuple[str, str, str]]]
"""The number of a corpus, and some of its pairs as they were read: place, source and target of each."""


class FilteredBlock(NamedTuple):
    """What the rules on text leave of a block: lines of place, source and target, and 8 bytes for each."""

    corpus: int
    read: int
    kept: bytes
    digests: bytes
    characters: tuple[int, int]
    removed: list[Removed]


def filter_block(rules: Sequence[Rules], languages: Sequence[str], block: Block) -> FilteredBlock:
    """Apply the rules of its corpus to a block; only pairs of one target language repeat one another."""
    corpus, pairs = block
    apply, salt = rules[corpus].apply, languages[corpus].encode()[: blake2b.SALT_SIZE]
    kept, digests, removed = list[str](), list[bytes](), list[Removed]()
    of_source = of_target = 0
    for place, *sides in pairs:
        source, target, rule, found = apply(*sides)
        if rule is not None:
            removed.append(Removed(rule, place, found, source, target))
            continue
        kept.append(f"{place}\t{source}\t{target}\n")
        digests.append(blake2b(f"{source}\t{target}".encode(), digest_size=8, salt=salt).digest())
        of_source += len(source)
        of_target += len(target)
    text = "".join(kept).encode(errors="replace")
    return FilteredBlock(corpus, len(pairs), text, b"".join(digests), (of_source, of_target), removed)


def first_of_each(digests: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return for each digest whether no earlier one equals it; a sixteenth of the values at a time, to bound RAM.

    Among 20 million different pairs two have equal digests with probability 1e-5.
    """
    first = np.zeros(len(digests), dtype=np.bool_)
    for part in range(16):
        rows = np.flatnonzero(digests >> np.uint64(60) == part)
        first[rows[np.unique(digests[rows], return_index=True)[1]]] = True
    return first


class Text:
    """The training or the validation text on its way into the prepared corpus."""

    def __init__(self, name: str, corpora: dict[str, CorpusFile], file: Path, rejected: BinaryIO | None) -> None:
        self.name, self.corpora, self.file, self._rejected = name, corpora, file, rejected
        self.audits = [CorpusAudit(corpus_name(key, corpus), name) for key, corpus in corpora.items()]
        self.characters = (0, 0)
        """Of both sides of the pairs that the rules on text keep."""
        self._lines = [0] * len(corpora)  # of each corpus in the file
        self._first = np.zeros(0, dtype=np.bool_)  # which of all lines are no duplicate

    def filter(self, recipe: Recipe, rules: Sequence[Rules], mapped: Mapped, console: Console) -> None:
        """Apply the rules on text, write what they keep, and find duplicates. Raises DataError if nothing is left."""
        corpora = [*self.corpora.values()]
        pairs = (read_pairs(corpus, recipe.languages_of(corpus)) for corpus in corpora)
        blocks = ((corpus, block) for corpus, own in enumerate(pairs) for block in batched(map(_placed, own)))
        function = partial(filter_block, rules, [recipe.target_of(corpus) for corpus in corpora])
        digests, characters = bytearray(), np.zeros(2, dtype=np.int64)
        with self.file.open("wb") as file, console.progress(f"filtering {self.name}", None, "pairs") as advance:
            for block in mapped(function, blocks):
                file.write(block.kept)
                digests += block.digests
                characters += block.characters
                self._lines[block.corpus] += len(block.digests) // 8
                self.audits[block.corpus].read += block.read
                for removed in block.removed:
                    self._remove(block.corpus, removed)
                advance(block.read)
        self.characters = (int(characters[0]), int(characters[1]))
        keys = np.frombuffer(digests, dtype=np.uint64)
        keeps_duplicates = self.name != "train" or "duplicate" in recipe.data.filters.keep
        self._first = np.ones(len(keys), dtype=np.bool_) if keeps_duplicates else first_of_each(keys)
        self._check_any_kept()

    def without_duplicates(self) -> Iterator[tuple[int, str, str, str]]:
        """Yield corpus, place, source and target of the pairs that repeat none; count and write the others."""
        with self.file.open(encoding="utf-8", newline="\n") as file:
            marks = iter(self._first.tobytes())
            for corpus, lines in enumerate(self._lines):
                for line, is_first in zip(islice(file, lines), marks, strict=False):
                    place, source, target = line[:-1].rsplit("\t", 2)
                    if is_first:
                        yield corpus, place, source, target
                    else:
                        self._remove(corpus, Removed("duplicate", place, "", source, target))

    def sample(self, share: float) -> Iterator[tuple[str, str]]:
        """Yield the pairs of an evenly spread sample without duplicates."""
        chosen = np.arange(len(self._first)) * share % 1 < share
        with self.file.open(encoding="utf-8", newline="\n") as file:
            for line in compress(file, (chosen & self._first).tobytes()):
                _, source, target = line[:-1].rsplit("\t", 2)
                yield source, target

    def encode(self, tokenizers: Tokenizers, directory: Path, recipe: Recipe, console: Console) -> SplitCounts:
        """Write the token ids of the pairs that are not too long. Raises DataError if nothing is left."""
        directory.mkdir()
        kept, threads = Counter[int](), recipe.runtime.threads or available_cores()
        writers = [SideWriter(directory, side, getattr(tokenizers, side)) for side in ("source", "target")]
        with console.progress(f"encoding {self.name}", int(self._first.sum()), "pairs") as advance:
            for block in batched(self.without_duplicates()):
                of_corpus, places, sources, targets = zip(*block, strict=True)
                ids = tokenizers.source.encode_lines(sources, threads), tokenizers.target.encode_lines(targets, threads)
                most = recipe.data.filters.max_tokens
                fits = [max(len(source), len(target)) <= most for source, target in zip(*ids, strict=True)]
                for writer, lines, own in zip(writers, (sources, targets), ids, strict=True):
                    writer.append(compress(lines, fits), [*compress(own, fits)])
                for corpus, fit, *pair in zip(of_corpus, fits, places, sources, targets, strict=True):
                    if not fit:
                        self._remove(corpus, Removed("too_long", pair[0], "", pair[1], pair[2]))
                kept.update(compress(of_corpus, fits))
                advance(len(block))
        self._check_any_kept()
        read, corpora = sum(own.read for own in self.audits), tuple(kept[index] for index in range(len(self.corpora)))
        return SplitCounts(read, kept.total(), corpora, writers[0].counts, writers[1].counts)

    def _remove(self, corpus: int, removed: Removed) -> None:
        self.audits[corpus].add(removed)
        if self._rejected is not None:
            row = (removed.rule, removed.place, removed.found, removed.source, removed.target)
            self._rejected.write(("\t".join(row) + "\n").encode(errors="replace"))

    def _check_any_kept(self) -> None:
        """Raise DataError if no pair is kept."""
        if any(corpus.kept for corpus in self.audits):
            return
        names = ", ".join(" + ".join(map(str, corpus.files.values())) for corpus in self.corpora.values())
        read = sum(corpus.read for corpus in self.audits)
        removed = sum((Counter(corpus.removed) for corpus in self.audits), Counter[str]())
        if read == 0:
            raise DataError(f"{names}: no sentence pairs in it; expected one pair per line")
        rules = "; ".join(f"{rule} ({RULES[rule]}): {removed[rule]:,}" for rule in RULES if removed[rule])
        advice = "See data.filters of the recipe"
        if removed["leak"] > read / 2:
            advice = (
                "The validation and test text contain the sentences of the training text: name other ones in "
                "data.valid and data.test; nmt init chooses such texts"
            )
        raise DataError(f"{names}: {counted(read, 'pair')} read, none kept. {rules}. {advice}")


def _placed(pair: SentencePair) -> tuple[str, str, str]:
    return f"{pair.file}:{pair.line}", pair.source, pair.target


def batched(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield blocks of items."""
    rest = iter(items)
    while block := list(islice(rest, BLOCK)):
        yield block


def _is_shared(recipe: Recipe) -> bool:
    """Whether other processes take part: for a text that is not small, if this process can be forked."""
    files = (path for corpus in recipe.data.train for path in text_files(corpus).values())
    return sum(path.stat().st_size for path in files) >= _SHARED_BYTES and can_fork()


def in_processes(recipe: Recipe) -> Mapped:
    """Return a function that shares work among processes on this machine; it is `map` for a small text."""
    return partial(_mapped, recipe.runtime.threads or available_cores()) if _is_shared(recipe) else map


def _mapped(processes: int, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    advice = "set runtime.threads to a smaller number"
    with closing(WorkerPool(function, processes, advice)) as pool:
        yield from pool.map(_call, items)


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def filtered_texts(
    recipe: Recipe, work: Path, console: Console, mapped: Mapped, rejected: BinaryIO | None
) -> tuple[list[Text], Audit]:
    """Apply the rules on text; return the training text, the validation text if there is one, and the audit so far.

    Raises DataError with file and line for text that cannot be read.
    """
    data = recipe.data
    train = {key: corpus for key, corpus in data.prepared_texts.items() if key.startswith("data.train")}
    valid = {key: corpus for key, corpus in data.prepared_texts.items() if key not in train}
    with console.status("reading samples of the texts"):
        sample = {key: sample_of(read_pairs(corpus, recipe.languages_of(corpus))) for key, corpus in train.items()}
        held_out = {"validation": pairs_of(recipe, data.valid), "test": pairs_of(recipe, data.test)}
        of_pair = {languages: list[SentencePair]() for languages in map(recipe.languages_of, train.values())}
        for key, corpus in train.items():
            of_pair[recipe.languages_of(corpus)] += sample[key]
        learned = {pair: Rules.learn(data.filters, pair, own, held_out) for pair, own in of_pair.items()}
        audit = Audit([], [], {})
        for key, corpus in {**train, **valid, **data.test_texts}.items():
            languages = recipe.languages_of(corpus)
            pairs = sample.get(key) or read_pairs(corpus, languages)
            filters = data.filters if key in train else None
            audit.findings += findings(corpus_name(key, corpus), languages, pairs, filters)
    if "length" not in data.filters.keep and any(rules.lengths is None for rules in learned.values()):
        audit.not_applied["length"] = "there are too few pairs to learn the usual ratio"
    texts = [Text("train", train, work / "train.tsv", rejected)]
    texts[0].filter(recipe, [learned[recipe.languages_of(corpus)] for corpus in train.values()], mapped, console)
    if valid:
        # it must be like what users send: only pairs without a loss are left out
        texts.append(Text("valid", valid, work / "valid.tsv", None))
        rules = [Rules.learn(Filters(keep=get_args(RuleName)), recipe.languages_of(corpus)) for corpus in data.valid]
        texts[1].filter(recipe, rules, map, console)
    audit.corpora += [own for text in texts for own in text.audits]
    return texts, audit


def audit_text(
    recipe: Recipe, work: Path, console: Console, mapped: Mapped | None = None, rejected: BinaryIO | None = None
) -> Audit:
    """Return the audit of the texts of a recipe without the rule that needs a tokenizer; `work` is an empty folder.

    Raises DataError for text that cannot be read.
    """
    texts, audit = filtered_texts(recipe, work, console, mapped or in_processes(recipe), rejected)
    for text in texts:
        deque(text.without_duplicates(), maxlen=0)
    audit.not_applied["too_long"] = "it counts tokens, and a dry run makes no tokenizer"
    return audit.with_rule_findings()


def write_corpus(
    recipe: Recipe, work: Path, directory: Path, console: Console, mapped: Mapped | None = None,
    rejected: BinaryIO | None = None,
) -> Manifest:  # fmt: skip
    """Write the files of a prepared corpus into an empty folder, without its manifest, which is returned.

    `work` is an empty folder for temporary files. Raises DataError with file and line for text that cannot be read,
    ConfigError for a tokenizer that cannot be made.
    """
    inputs = stamps(input_files(recipe))
    texts, audit = filtered_texts(recipe, work, console, mapped or in_processes(recipe), rejected)
    tokenizers = _make_tokenizers(recipe, texts[0], directory, console)
    counts = [text.encode(tokenizers, directory / text.name, recipe, console) for text in texts]
    if recipe.data.valid:
        write_valid_texts(directory, [pairs_of(recipe, [corpus]) for corpus in recipe.data.valid])
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    fingerprint = sha256(json.dumps([[path.name, digest_of(path)] for path in files]).encode()).hexdigest()
    audit.with_rule_findings().write(directory)
    offsets = [TokenStore.open(directory / "train", side).offsets for side in ("source", "target")]
    stride = -(-counts[0].kept // _SAMPLED_PAIRS)
    lengths = [own[1::stride] - own[:-1:stride] for own in offsets]
    return Manifest(
        recorded_settings(recipe),
        inputs,
        fingerprint,
        (len(tokenizers.source), len(tokenizers.target)),
        counts[0],
        counts[1] if recipe.data.valid else None,
        length_limit(lengths[0], lengths[1]),
    )


def _make_tokenizers(recipe: Recipe, text: Text, directory: Path, console: Console) -> Tokenizers:
    """Write the tokenizers of the initial model, or new ones, into a folder, and return them."""

    def train(place: Path) -> None:
        train_tokenizers(recipe, text.characters, text.sample).save(place)

    if recipe.train.init_from is not None:
        initial_tokenizers(recipe, recipe.train.init_from).save(directory)
        return Tokenizers.load(directory)
    console.info(f"training a tokenizer on a text of {sum(text.characters):,} characters")
    with console.status("training the tokenizer"):
        if _is_shared(recipe):  # training keeps RAM until its process ends
            list(_mapped(1, train, [directory]))
        else:
            train(directory)
    return Tokenizers.load(directory)


def length_limit(source_lengths: npt.NDArray[np.int64], target_lengths: npt.NDArray[np.int64]) -> MaxLength:
    """Return a limit on target tokens for S source tokens, both with `</s>`, that truncates no text like this.

    The lengths are those of pairs, without `</s>`. Of all bounds factor · S + extra that hold for 99.99 % of the pairs,
    it is the one with the lowest mean, raised by 10 %. The factor is at least 1, the extra at least 5. A low limit
    makes the search fast: the best score that a hypothesis can still reach depends on its longest possible length.
    """
    source, target = source_lengths + 1, target_lengths + 1
    extras = [max(0.0, float(np.quantile(target - factor * source, _COVERAGE))) for factor in _FACTORS]
    lowest = int(np.argmin(_FACTORS * source.mean() + extras))
    extra = max(_LEAST_EXTRA, math.ceil(_MARGIN * extras[lowest]))
    return MaxLength(factor=round(_MARGIN * _FACTORS[lowest], 2), extra=extra)
