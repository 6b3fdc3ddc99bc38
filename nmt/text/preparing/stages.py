"""The stages of the preparation of one text, training or validation, from chunks of files to chunks of token ids."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nmt.config import MaxLength
from nmt.errors import DataError
from nmt.system.console import counted
from nmt.system.workers import WorkerPool, available_cores, can_fork, reuse_freed_ram
from nmt.text.corpus import text_files
from nmt.text.filters import RULES, RuleCounts
from nmt.text.filters.rule_counts import total_removed
from nmt.text.manifest import SideCounts, SplitCounts
from nmt.text.prepared import write_side
from nmt.text.preparing.chunk_files import EncodedChunk, KeptChunk
from nmt.text.preparing.chunks import Encoding, FilteredText, Text, encode_chunk, filter_chunk, raw_chunks
from nmt.text.preparing.duplicates import BitSet, find_repeated
from nmt.text.preparing.tokenizer_training import initial_tokenizers, train_tokenizers
from nmt.text.readers.opening import COMPRESSED
from nmt.text.tokenizer import Tokenizers

_SHARED_BYTES = 2**23  # a text of fewer bytes is prepared sooner without worker processes
_UNPACKED = 3  # the size of usual text, relative to its size in a compressed file
SAMPLED_PAIRS = 1_000_000
"""Pairs, spread over the text, whose lengths suffice for the limit on the length of translations."""
_FACTORS = np.arange(1.0, 6.05, 0.1)
_COVERAGE, _MARGIN = 0.9999, 1.1
"""Share of the pairs below the line, and the factor between the line and the limit."""
_LEAST_EXTRA = 5

Context = TypeVar("Context")
Task = TypeVar("Task")
Result = TypeVar("Result")


def _processes(text: Text) -> int:
    """Return the number of processes: one for a small text, which is prepared sooner without others."""
    size = sum(_text_size(path) for corpus in text.corpora for path in text_files(corpus).values())
    return (text.recipe.runtime.threads or available_cores()) if size >= _SHARED_BYTES and can_fork() else 1


def _text_size(path: Path) -> int:
    """Return about how many bytes of text a file holds."""
    size, suffix = path.stat().st_size, path.suffix.lower()
    return size if suffix not in (*COMPRESSED, ".zip") else _UNPACKED * size


def _shared(
    text: Text, function: Callable[[Context, Task], Result], context: Context, tasks: Iterable[Task]
) -> Iterator[Result]:
    """Yield `function(context, task)` for each task, in order."""
    processes = _processes(text)
    if processes == 1:
        yield from (function(context, task) for task in tasks)
        return
    advice = "set runtime.threads to a smaller number"
    with closing(WorkerPool(context, processes, advice, on_start=reuse_freed_ram)) as pool:
        yield from pool.map(function, tasks)


def filter_chunks(text: Text) -> int:
    """Apply the rules on text to the chunks of a text; return their number."""
    text.folder.mkdir()
    chunks = 0
    with text.console.progress(f"filtering {text.folder.name}", None, "pairs") as advance:
        for record in _shared(text, filter_chunk, text, raw_chunks(text)):
            advance(record.counts.read)
            chunks += 1
    return chunks


def filtered_text(text: Text, chunks: int) -> FilteredText:
    """Return a text of so many filtered chunks, with its repetitions. Raises DataError if nothing is kept."""
    kept = (KeptChunk(text.folder, number).record.counts.kept for number in range(chunks))
    filtered = FilteredText(text, list(accumulate(kept, initial=0)), {})
    check_any_kept(text, filtered.counts)
    return replace(filtered, repeated=_repetitions(filtered))


def check_any_kept(text: Text, counts: Sequence[RuleCounts]) -> None:
    """Raise DataError if no pair is kept."""
    read = sum(of_corpus.read for of_corpus in counts)
    if read == 0:
        raise DataError(f"{', '.join(text.names)}: no sentence pairs in it; expected one pair per line")
    if not any(of_corpus.kept for of_corpus in counts):
        removed = total_removed(counts)
        rules = "; ".join(f"{rule} ({RULES[rule]}): {count:,}" for rule, count in removed.items() if count)
        names, advice = ", ".join(text.names), "See data.filters of the recipe"
        if removed["leak"] > read / 2:
            advice = (
                "The validation and test text contain the sentences of the training text: name other ones in "
                "data.valid and data.test; nmt init chooses such texts"
            )
        raise DataError(f"{names}: {counted(read, 'pair')} read, none kept. {rules}. {advice}")


def _repetitions(filtered: FilteredText) -> dict[str, BitSet]:
    """Return the pairs that the rules on repetitions remove, by rule."""
    text, filters, repeated = filtered.text, filtered.text.rules[0].settings, dict[str, BitSet]()
    if "duplicate" not in filters.keep:
        digests = (KeptChunk(text.folder, number)["digests"] for number in filtered.numbers)
        repeated["duplicate"] = find_repeated(digests, filtered.starts[-1], 1, text.folder, [])
    return repeated


def make_tokenizers(filtered: FilteredText, work: Path) -> Tokenizers:
    """Return the tokenizers: those of the initial model, or new ones, stored in the work directory."""
    recipe, directory = filtered.text.recipe, work / "tokenizers"
    if recipe.train.init_from is not None:
        return initial_tokenizers(recipe, recipe.train.init_from)
    if _processes(filtered.text) == 1:
        _train_tokenizers(filtered, directory)
    else:
        # the training keeps RAM and threads until the process ends, and a process with threads cannot be forked
        with closing(WorkerPool(filtered, 1)) as pool:
            list(pool.map(_train_tokenizers, [directory]))
    return Tokenizers.load(directory)


def _train_tokenizers(filtered: FilteredText, directory: Path) -> None:
    """Train the tokenizers, and write them into a new directory."""
    text = filtered.text
    tokenizers = train_tokenizers(text.recipe, filtered.characters, filtered.sample, text.console)
    directory.mkdir()
    tokenizers.save(directory)


def encode_chunks(filtered: FilteredText, tokenizers: Tokenizers) -> None:
    """Encode the chunks of a text."""
    text, read = filtered.text, [record.counts.read for record in filtered.records()]
    encoding = Encoding(filtered, tokenizers, text.recipe.runtime.threads if _processes(text) == 1 else 1)
    with text.console.progress(f"encoding {text.folder.name}", sum(read), "pairs") as advance:
        for count, _ in zip(read, _shared(text, encode_chunk, encoding, filtered.numbers), strict=True):
            advance(count)


def join_chunks(
    filtered: FilteredText, tokenizers: Tokenizers, directory: Path
) -> tuple[SplitCounts, list[RuleCounts]]:
    """Write the chunks into a split; return its counts, and those of all rules on each corpus."""
    text, counts = filtered.text, filtered.counts
    sides = np.zeros((len(text.corpora), 2, 3), dtype=np.int64)
    for number, record in enumerate(filtered.records()):
        chunk = EncodedChunk(text.folder, number)
        sides[record.corpus] += chunk["sides"]
        counts[record.corpus].merge(chunk.counts)
    check_any_kept(text, counts)
    kept = tuple(of_corpus.kept for of_corpus in counts)
    total, *of_corpora = [
        (SideCounts(*source), SideCounts(*target)) for source, target in (sides.sum(0).tolist(), *sides.tolist())
    ]
    directory.mkdir()
    own = (tokenizers.source, tokenizers.target)
    for side, tokenizer, side_counts in zip(("source", "target"), own, total, strict=True):
        write_side(directory, side, len(tokenizer), (sum(kept), side_counts.tokens), filtered.encoded)
    read = sum(of_corpus.read for of_corpus in counts)
    return SplitCounts(read, sum(kept), total_removed(counts), *total, kept, tuple(of_corpora)), counts


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
