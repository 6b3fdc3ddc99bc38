"""Prepare a corpus: filter → duplicates → tokenizer → encode → write.

1. filter      blocks of pairs are normalized and filtered by rules on text, in other processes or on other machines;
               the kept pairs are lines of a text file in a temporary folder: corpus, line, source, target
2. duplicates  found by 8 bytes in RAM for each of these pairs
3. tokenizer   trained on a sample of the others
4. encode      in the same processes, block by block, into the files of the prepared corpus

Blocks come back in order, so the result depends on the text and the settings alone, not on the number of processes.
Nothing is random: runs with different seeds can share a corpus.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Filters, LanguagePair, MaxLength, Recipe, RuleName
from nmt.errors import DataError
from nmt.system.console import Advance, Console, counted
from nmt.system.files import digest_of, disk_errors
from nmt.system.workers import WorkerPool, available_cores, batched, can_fork
from nmt.text.corpus import pairs_of, parts_of, read_pairs, sample_of, text_files
from nmt.text.manifest import Manifest, SplitCounts, input_files, recorded_settings, stamps
from nmt.text.prepared import PreparedSplit, Sentences, SideWriter, write_valid_texts
from nmt.text.preparing.audit import Audit, CorpusAudit, Removed, corpus_name, findings, shared_pairs
from nmt.text.preparing.rules import RULES, Rules
from nmt.text.readers import SentencePair
from nmt.text.tokenizer import Tokenizers, initial_tokenizers, train_tokenizers

BLOCK = 5_000  # pairs that are filtered or encoded at a time
_SHARED_BYTES = 2**22  # files of fewer bytes are prepared sooner without other processes
_JUDGED_SAMPLE = 2_000  # pairs that are shuffled to measure which score is improbable
_SAMPLED_PAIRS = 1_000_000  # whose lengths suffice for the limit on the length of translations
_FACTORS = np.arange(1.0, 6.05, 0.1)
# Share of the pairs below the line `factor · S + extra`, and the factor by which the limit exceeds the line.
_COVERAGE, _MARGIN = 0.9999, 1.1
_LEAST_EXTRA = 5
# The most training sentences, as a share and in number, that are longer than the longest unsplit source.
_LONGER_SHARE, _LONGER = 0.005, 1_500

# A function like `map` that shares the work: results in order, only some items and results in RAM at a time.
Mapped = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
# Takes a sample and all pairs; yields for each of all pairs why it is improbable, None if it is not.
Judge = Callable[[list[tuple[str, str]], Iterator[tuple[str, str]]], Iterator[str | None]]
# Removed pairs: the rule, what it found, and the pair as a line of the file of kept ones.
Removals = list[tuple[str, str, bytes]]


class Preparation(NamedTuple):
    """The recipe to prepare, an empty folder for temporary files, and how the work is done."""

    recipe: Recipe
    work: Path
    console: Console
    mapped: Mapped
    rejected: BinaryIO | None = None  # for the training pairs that rules remove
    judge: Judge | None = None  # of `data.filters.scored_by`


def cells_of(line: bytes) -> list[str]:
    """Return the cells of a line of the file of kept pairs: number of the corpus, line in it, source, target."""
    return line[:-1].decode().split("\t")


def filter_block(
    rules: Sequence[Rules], languages: Sequence[str], block: tuple[int, list[tuple[str, str, int]]]
) -> tuple[int, bytes, bytes, Removals]:
    """Apply the rules of its corpus to a block of pairs with their line numbers.

    Returns the number of the corpus, the lines of kept pairs, an 8-byte digest of each, and the removed pairs. Pairs of
    different target languages have different digests, and so are no duplicates.
    """
    corpus, pairs = block
    apply, salt = rules[corpus].apply, languages[corpus].encode()[: blake2b.SALT_SIZE]
    kept, digests, removed = list[bytes](), list[bytes](), Removals()
    for raw_source, raw_target, line in pairs:
        source, target, rule, reason = apply(raw_source, raw_target)
        pair = f"{source}\t{target}\n".encode()
        row = b"%d\t%d\t%b" % (corpus, line, pair)
        if rule is None:
            kept.append(row)
            digests.append(blake2b(pair, digest_size=8, salt=salt).digest())
        else:
            removed.append((rule, reason, row))
    return corpus, b"".join(kept), b"".join(digests), removed


def first_of_each(digests: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return for each digest whether no earlier one equals it; a sixteenth of the values at a time, to bound RAM.

    Among 20 million different pairs two have equal digests with probability 1e-5.
    """
    first = np.zeros(len(digests), dtype=np.bool_)
    for part in range(16):
        rows = np.flatnonzero(digests >> np.uint64(60) == part)
        first[rows[np.unique(digests[rows], return_index=True)[1]]] = True
    return first


def encode_block(tokenizers: Tokenizers, most: int, block: bytes) -> tuple[list[tuple[Sentences, int]], list[bytes]]:
    """Encode lines; return token ids and number of characters of each side, and the lines with more than `most` ids."""
    lines = block.splitlines(keepends=True)
    _, _, *texts = zip(*map(cells_of, lines), strict=True)
    ids = [tokenizers.source.encode_lines(texts[0]), tokenizers.target.encode_lines(texts[1])]
    fits = [max(len(source), len(target)) <= most for source, target in zip(*ids, strict=True)]
    sides = [
        (Sentences.of([*compress(rows, fits)]), sum(map(len, compress(text, fits))))
        for text, rows in zip(texts, ids, strict=True)
    ]
    return sides, [line for line, fit in zip(lines, fits, strict=True) if not fit]


class Text:
    """The training or the validation text while it is prepared."""

    def __init__(self, name: str, corpora: dict[str, CorpusFile], job: Preparation) -> None:
        self.name, self.file, self._job = name, job.work / f"{name}.tsv", job
        self._corpora = list(corpora.values())
        self._languages = list(map(job.recipe.languages_of, self._corpora))
        self._files = [files[0] for files in map(parts_of, self._corpora, self._languages)]
        self.audits = [CorpusAudit(corpus_name(key, corpus)) for key, corpus in corpora.items()]
        self._kept = bytearray()  # for each line of the file 1, or 0 if a later rule removed it

    def filter(self, rules: dict[LanguagePair, Rules], keep_duplicates: bool) -> None:
        """Apply the rules on text, write what they keep, and find duplicates. Raises DataError if nothing is left."""
        texts = enumerate(map(read_pairs, self._corpora, self._languages))
        blocks = ((corpus, block) for corpus, pairs in texts for block in batched(map(tuple, pairs), BLOCK))
        rules_of_corpora = [rules[languages] for languages in self._languages]
        function = partial(filter_block, rules_of_corpora, [languages.target for languages in self._languages])
        digests = bytearray()
        with self.file.open("wb") as file, self._progress("filtering", None) as advance:
            for corpus, kept, digest, removed in self._job.mapped(function, blocks):
                file.write(kept)
                digests += digest
                self.audits[corpus].read += (read := len(digest) // 8 + len(removed))
                for removal in removed:
                    self._remove(*removal)
                advance(read)
        first = first_of_each(np.frombuffer(digests, dtype=np.uint64)) | keep_duplicates
        self._kept = bytearray(first.tobytes())
        for line in self._read((~first).tobytes()):
            self._remove("duplicate", "", line)
        self._check_any_kept()

    def judge(self, judge: Judge) -> None:
        """Remove the pairs that are improbable by a model. Raises DataError if nothing is left."""
        share = min(1.0, _JUDGED_SAMPLE / max(1, sum(self._kept)))
        sample = [(source, target) for _, _, source, target in self.sample(share)]
        verdicts = judge(sample, ((source, target) for _, _, source, target in self.sample(1.0)))
        lines, places = self._read(bytes(self._kept)), compress(range(len(self._kept)), bytes(self._kept))
        with self._progress("scoring", sum(self._kept)) as advance:
            for place, line, reason in zip(places, lines, verdicts, strict=True):
                if reason is not None:
                    self._kept[place] = 0
                    self._remove("improbable", reason, line)
                advance(1)
        self._check_any_kept()

    def sample(self, share: float) -> Iterator[list[str]]:
        """Return the cells of the lines of an evenly spread sample without duplicates."""
        return map(cells_of, self._read(kept and i * share % 1 < share for i, kept in enumerate(self._kept)))

    def encode(self, tokenizers: Tokenizers, directory: Path) -> SplitCounts:
        """Write the token ids of the pairs that are not too long. Raises DataError if nothing is left."""
        directory.mkdir()
        writers = [SideWriter(directory, side, getattr(tokenizers, side)) for side in ("source", "target")]
        function = partial(encode_block, tokenizers, self._job.recipe.data.filters.max_tokens)
        with self._progress("encoding", sum(self._kept)) as advance:
            for sides, too_long in self._job.mapped(function, map(b"".join, batched(self._read(self._kept), BLOCK))):
                for writer, side in zip(writers, sides, strict=True):
                    writer.append(*side)
                for line in too_long:
                    self._remove("too_long", "", line)
                advance(len(sides[0][0]) + len(too_long))
        self._check_any_kept()
        read, kept = sum(audit.read for audit in self.audits), tuple(audit.kept for audit in self.audits)
        return SplitCounts(read, sum(kept), kept, writers[0].counts, writers[1].counts)

    def _progress(self, verb: str, total: int | None) -> AbstractContextManager[Advance]:
        return self._job.console.progress(f"{verb} {self.name}", total, "pairs")

    def _read(self, chosen: Iterable[object]) -> Iterator[bytes]:
        with self.file.open("rb") as file:
            yield from compress(file, chosen)

    def _remove(self, rule: str, reason: str, line: bytes) -> None:
        corpus, number, source, target = cells_of(line)
        place = f"{self._files[int(corpus)]}:{number}"
        self.audits[int(corpus)].add(Removed(rule, place, reason, source, target))
        if self._job.rejected is not None:
            row = "\t".join((rule, place, reason, source, target))
            with disk_errors(Path(self._job.rejected.name)):
                self._job.rejected.write(f"{row}\n".encode(errors="replace"))

    def _check_any_kept(self) -> None:
        """Raise DataError if no pair is kept."""
        if any(corpus.kept for corpus in self.audits):
            return
        names = ", ".join(" + ".join(map(str, corpus.files.values())) for corpus in self._corpora)
        read = sum(corpus.read for corpus in self.audits)
        removed = sum((corpus.removed for corpus in self.audits), Counter[str]())
        if read == 0:
            raise DataError(f"{names}: no sentence pairs in it; expected one pair per line")
        advice = "see data.filters of the recipe"
        if removed["leak"] > read / 2:
            advice = "data.valid and data.test contain these sentences: name other texts there, as nmt init does"
        rules = "; ".join(f"{rule} ({RULES[rule]}): {removed[rule]:,}" for rule in RULES if removed[rule])
        raise DataError(f"{names}: {counted(read, 'pair')} read, none kept: {rules}; {advice}")


def in_processes(recipe: Recipe, count: int | None = None) -> Mapped:
    """Return a function that shares work among processes on this machine, by default as many as it has cores.

    It is `map` for a small text, and where this process cannot be forked.
    """

    def mapped(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        processes = count or recipe.runtime.threads or available_cores()
        return WorkerPool(function, processes, "set runtime.threads to a smaller number").map(items)

    files = (path for corpus in recipe.data.train for path in text_files(corpus).values())
    return mapped if can_fork() and sum(path.stat().st_size for path in files) >= _SHARED_BYTES else map


def filtered_texts(job: Preparation) -> tuple[list[Text], Audit]:
    """Apply the rules on text; return the training text, the validation text if there is one, and the audit so far.

    Raises DataError with file and line for text that cannot be read.
    """
    recipe, data, console = job.recipe, job.recipe.data, job.console
    audit, samples = Audit([], [], {}), dict[LanguagePair, list[SentencePair]]()
    with console.status("reading samples of the texts"):
        for key, corpus in data.texts.items():
            languages = recipe.languages_of(corpus)
            sample, filters = sample_of(corpus, languages), None
            if key in data.train_texts:
                samples.setdefault(languages, []).extend(sample)
                filters = data.filters
            audit.findings += findings(corpus_name(key, corpus), languages, sample, filters)
        held_out = {"validation": pairs_of(recipe, data.valid), "test": pairs_of(recipe, data.test)}
        audit.findings += shared_pairs(held_out["validation"], held_out["test"])
        rules = {pair: Rules.learn(data.filters, pair, sample, held_out) for pair, sample in samples.items()}
    if "length" not in data.filters.keep and any(learned.lengths is None for learned in rules.values()):
        audit.not_applied["length"] = "there are too few pairs to learn the usual ratio"
    texts = [Text("train", data.train_texts, job)]
    texts[0].filter(rules, "duplicate" in data.filters.keep)
    if job.judge is not None:
        texts[0].judge(job.judge)
    if data.valid:
        # it must be like the input of users: only pairs without a loss are left out
        texts.append(Text("valid", data.valid_texts, job._replace(mapped=map, rejected=None)))
        without_rules = Filters(keep=get_args(RuleName))
        rules = {pair: Rules.learn(without_rules, pair) for pair in map(recipe.languages_of, data.valid)}
        texts[1].filter(rules, keep_duplicates=True)
    audit.corpora += [corpus for text in texts for corpus in text.audits]
    return texts, audit


def write_corpus(job: Preparation, directory: Path) -> Manifest:
    """Write the files of a prepared corpus into an empty folder, without its manifest, which is returned.

    Raises DataError with file and line for text that cannot be read, ConfigError for a tokenizer that cannot be made.
    """
    recipe = job.recipe
    inputs = stamps(input_files(recipe))
    texts, audit = filtered_texts(job)
    if recipe.train.init_from is not None:
        initial_tokenizers(recipe, recipe.train.init_from).save(directory)
    else:
        with job.console.status("training the tokenizer"):  # in a process, which releases its RAM and ends at Ctrl-C
            training = partial(train_tokenizers, recipe, texts[0].file.stat().st_size, texts[0].sample)
            list(in_processes(recipe, 1)(training, [directory]))
    tokenizers = Tokenizers.load(directory)
    counts = [text.encode(tokenizers, directory / text.name) for text in texts]
    if recipe.data.valid:
        write_valid_texts(directory, [pairs_of(recipe, [corpus]) for corpus in recipe.data.valid])
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    digests = {path.relative_to(directory).as_posix(): digest_of(path) for path in files}
    audit.write(directory)
    sizes = len(tokenizers.source), len(tokenizers.target)
    split = PreparedSplit.open(directory / "train", counts[0].corpora)
    stride = -(-counts[0].kept // _SAMPLED_PAIRS)
    lengths = [offsets[1::stride] - offsets[:-1:stride] for offsets in (split.source.offsets, split.target.offsets)]
    limit, longest = length_limit(lengths[0], lengths[1]), longest_source(lengths[0], counts[0].kept)
    train, valid = counts if recipe.data.valid else (counts[0], None)
    return Manifest(recorded_settings(recipe), inputs, digests, sizes, train, valid, limit, longest)


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


def longest_source(lengths: npt.NDArray[np.int64], sentences: int) -> int:
    """Return the source length that at most 0.5 % of the training sentences, and at most 1,500 of them, exceed.

    `lengths` are those of a sample of the sentences. A Transformer omits parts of texts that are longer than nearly
    all of its training text (Varis & Bojar 2021, "Sequence Length is a Domain"); segments within it are translated in
    full.
    """
    share = 1 - min(_LONGER_SHARE, _LONGER / sentences)
    return max(1, int(np.quantile(lengths, share, method="inverted_cdf")))
