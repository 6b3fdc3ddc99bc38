"""The search over many sentences: sorted by length, cut into batches, and put back in order."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import torch

from nmt.batching.batch import pad
from nmt.decoding.constrained import beam_width
from nmt.decoding.hypothesis import NO_CONSTRAINTS, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.decoding.step_model import StepModel
from nmt.decoding.watching import told
from nmt.decoding.workers import Workers
from nmt.errors import ConfigError
from nmt.system.device import is_out_of_memory, release_cached_memory
from nmt.text.tokenizer import EOS

_CPU_ROWS = 480
"""Hypotheses that grow together on a CPU: with more, what they remember does not fit in the processor's own memory."""
_WORTH_A_PROCESS = 1024
"""Source tokens times beam that are worth a process's while."""


class Limits(NamedTuple):
    """What a batch may have at most, and how many processes are to have as much to do as each other."""

    tokens: int
    """Padded source tokens times the width of the search."""
    rows: int
    """Sentences times the width of the search."""
    processes: int


Item = TypeVar("Item")
Result = TypeVar("Result")


def search_all(
    decoder: StepModel,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    budget: int,
    constraints_of: Sequence[Constraints] | None = None,
) -> list[list[Hypothesis]]:
    """Return each sentence's hypotheses, in the order of the sentences, which are source ids without `</s>`.

    There is one demand for each sentence, or none at all.

    A batch holds at most `budget` padded source tokens times beam, or half a sentence more; a longer sentence is
    searched alone, and a batch that is too large for the memory of the device in halves. Raises ConfigError if
    not even one sentence fits.
    """
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    constraints_of = constraints_of or [NO_CONSTRAINTS] * len(sentences)
    hands = decoder.count if isinstance(decoder, Workers) else 1
    rows = _CPU_ROWS if decoder.device.type == "cpu" else budget
    batches = _batches(sentences, constraints_of, options, Limits(budget, rows, hands))
    work = partial(_search_batch, options=options)
    items = [[(sentences[i], constraints_of[i]) for i in batch] for batch in batches]
    if isinstance(decoder, Workers) and len(items) > 1 and decoder.ready:
        done = decoder.share_out(work, items)
    else:
        done = _in_threads(partial(work, decoder), items, decoder.device)
    for indices, found in zip(batches, told(done, len(items)), strict=True):
        for i, hypotheses in zip(indices, found, strict=True):
            results[i] = hypotheses
    return results


def _batches(
    sentences: Sequence[Sequence[int]], constraints_of: Sequence[Constraints], options: SearchOptions, limits: Limits
) -> list[list[int]]:
    """Cut sentences into batches; those that must hold phrases, whose search is slower and wider, among themselves."""
    plain = [i for i, constraints in enumerate(constraints_of) if not constraints.phrases]
    phrased = [i for i, constraints in enumerate(constraints_of) if constraints.phrases]
    widths = (options.width, beam_width([constraints_of[i] for i in phrased], options))
    return [
        [group[i] for i in batch]
        for group, width in zip((plain, phrased), widths, strict=True)
        for batch in dealt_batches([len(sentences[i]) + 1 for i in group], width, limits)
    ]


def dealt_batches(lengths: Sequence[int], width: int, limits: Limits) -> Iterator[list[int]]:
    """Cut sentences into batches of like length, the longest first, as many for each process and as costly.

    For that, what would be one batch of each process is cut at once, and dealt out sentence by sentence: no two get a
    longest sentence more, or less, than each other.
    """
    hands = max(1, min(limits.processes, sum(lengths) * width // _WORTH_A_PROCESS))
    rows = hands * limits.rows / width
    times = max(1, round(len(lengths) / rows))  # rather than a small batch at last, somewhat larger ones
    for batch in length_batches(lengths, hands * limits.tokens // width, max(rows, len(lengths) / times)):
        yield from (batch[i::hands] for i in range(min(hands, len(batch))))


def _in_threads(work: Callable[[Item], Result], items: Sequence[Item], device: torch.device) -> Iterator[Result]:
    """Do some work for each item, in order; on a CPU each thread works at an item of its own.

    The pieces of one batch are too small for several threads to share: they would wait for each other half of the time.
    """
    threads = min(torch.get_num_threads(), len(items))
    if device.type != "cpu" or threads <= 1 or torch.is_autocast_enabled("cpu"):
        yield from map(work, items)
        return
    before = torch.get_num_threads()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            torch.set_num_threads(before)


def length_batches(lengths: Sequence[int], budget: int, most: float = math.inf) -> list[list[int]]:
    """Cut sentences into batches of like length with sentences × longest within the budget, the longest first.

    A batch has one sentence at least, and otherwise no more than `most`. The longest first, so that a batch too large
    for the memory shows at once.
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
    decoder: StepModel, sentences: Sequence[tuple[Sequence[int], Constraints]], options: SearchOptions
) -> list[list[Hypothesis]]:
    device = decoder.device
    source, mask = pad([[*ids, EOS] for ids, _ in sentences])
    constraints_of = [constraints for _, constraints in sentences]
    try:
        return search(decoder, source.to(device), None if mask is None else mask.to(device), options, constraints_of)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(sentences) == 1:
            raise ConfigError(
                f"a sentence of {source.size(1)} tokens with a beam of {options.width} does not fit in the memory of "
                f"{device}; use a narrower beam, cut longer lines sooner, or compute on the CPU"
            ) from None
    # only here has the error let go of the tensors in its traceback
    release_cached_memory(device)
    half = len(sentences) // 2
    return _search_batch(decoder, sentences[:half], options) + _search_batch(decoder, sentences[half:], options)
