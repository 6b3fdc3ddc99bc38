"""Search for the translations of many sentences: sorted by length, cut into batches, returned in order."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.batching.batch import pad
from nmt.decoding.batch_runner import BatchRunner, Models, OnProgress
from nmt.decoding.constrained import beam_width
from nmt.decoding.hypothesis import NO_CONSTRAINTS, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.decoding.step_model import step_model
from nmt.errors import ConfigError
from nmt.system.device import is_out_of_memory, release_cached_memory
from nmt.text.tokenizer import EOS

_CPU_HYPOTHESES = 480
"""The most hypotheses of a batch on a CPU: the caches of more do not fit into the processor's cache."""
_MIN_PROCESS_TOKENS = 1024
"""The fewest source tokens times beam for which one more process pays."""


class Limits(NamedTuple):
    """The most that a batch may hold, and the number of processes among which batches are divided."""

    tokens: int
    """Padded source tokens times the width of the search."""
    hypotheses: int
    """Sentences times the width of the search."""
    processes: int


def search_all(
    runner: BatchRunner,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    budget: int,
    constraints_of: Sequence[Constraints] | None = None,
    on_progress: OnProgress | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, best first, for source ids without `</s>`.

    A batch holds at most `budget` padded source tokens times beam, or half a sentence more; a longer sentence is
    searched alone. A batch that does not fit into the memory of the device is halved. `constraints_of` holds the
    constraints of each sentence. Raises ConfigError if not even one sentence fits.
    """
    constraints_of = constraints_of or [NO_CONSTRAINTS] * len(sentences)
    limits = Limits(budget, _CPU_HYPOTHESES if runner.device.type == "cpu" else budget, runner.processes)
    batches = _batches(sentences, constraints_of, options, limits)
    items = [[(sentences[i], constraints_of[i]) for i in batch] for batch in batches]
    found = runner.run(partial(_search_batch, options=options), items, on_progress)
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    for batch, of_batch in zip(batches, found, strict=True):
        for i, hypotheses in zip(batch, of_batch, strict=True):
            results[i] = hypotheses
    return results


def _batches(
    sentences: Sequence[Sequence[int]], constraints_of: Sequence[Constraints], options: SearchOptions, limits: Limits
) -> list[list[int]]:
    """Cut sentences into batches; those with required phrases, whose search is slower and wider, among themselves."""
    plain = [i for i, constraints in enumerate(constraints_of) if not constraints.phrases]
    constrained = [i for i, constraints in enumerate(constraints_of) if constraints.phrases]
    widths = (options.width, beam_width([constraints_of[i] for i in constrained], options))
    return [
        [indices[i] for i in batch]
        for indices, width in zip((plain, constrained), widths, strict=True)
        for batch in balanced_batches([len(sentences[i]) + 1 for i in indices], width, limits)
    ]


def balanced_batches(lengths: Sequence[int], width: int, limits: Limits) -> Iterator[list[int]]:
    """Cut sentences into batches of similar length, the longest first, that cost each process the same.

    One batch of each process is cut at once and distributed sentence by sentence, so that the costs of two batches
    differ by at most one longest sentence.
    """
    processes = max(1, min(limits.processes, sum(lengths) * width // _MIN_PROCESS_TOKENS))
    most = processes * limits.hypotheses / width
    rounds = max(1, round(len(lengths) / most))  # somewhat larger batches rather than a small last one
    for batch in length_batches(lengths, processes * limits.tokens // width, max(most, len(lengths) / rounds)):
        yield from (batch[i::processes] for i in range(min(processes, len(batch))))


def length_batches(lengths: Sequence[int], budget: int, most: float = math.inf) -> list[list[int]]:
    """Cut sentences into batches of similar length with sentences × longest ≤ budget and at most `most` sentences.

    A batch has at least one sentence. The longest come first, so that a batch that exceeds the memory fails at once.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        count = len(batches[-1]) + 1 if batches else 0
        if batches and count <= most and count * lengths[batches[-1][0]] <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _search_batch(
    models: Models, sentences: Sequence[tuple[Sequence[int], Constraints]], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Search one batch, in halves if it does not fit into the memory of the device."""
    device = models[0].device
    source, mask = pad([[*ids, EOS] for ids, _ in sentences])
    constraints_of = [constraints for _, constraints in sentences]
    mask = None if mask is None else mask.to(device)
    try:
        return search(step_model(models), source.to(device), mask, options, constraints_of)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(sentences) == 1:
            raise ConfigError(
                f"a sentence of {source.size(1)} tokens with a beam of {options.width} does not fit in the memory of "
                f"{device}; use a narrower beam, cut longer lines sooner, or compute on the CPU"
            ) from None
    # outside the handler, where the traceback no longer holds the tensors of the failed search
    release_cached_memory(device)
    half = len(sentences) // 2
    return _search_batch(models, sentences[:half], options) + _search_batch(models, sentences[half:], options)
