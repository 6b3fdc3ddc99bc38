"""Batches of sentences of similar length, computed in threads, and in halves if memory is full."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TypeVar

from nmt.errors import ConfigError, is_oom

_MIN_THREAD_TOKENS = 1024  # the fewest source tokens times beam for which one more thread pays

Batch = TypeVar("Batch")
Item = TypeVar("Item")
Result = TypeVar("Result")


def length_batches(lengths: Sequence[int], budget: int, max_sentences: float = math.inf) -> list[list[int]]:
    """Cut sentences into batches of similar length with sentences × longest ≤ budget, at most `max_sentences`.

    A batch has at least one sentence. The longest come first, so that a batch that does not fit fails at once.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        count = len(batches[-1]) + 1 if batches else 0
        if batches and count <= max_sentences and count * lengths[batches[-1][0]] <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def balanced_batches(
    lengths: Sequence[int], width: int, max_tokens: int, max_active: int, threads: int
) -> Iterator[list[int]]:
    """Cut sentences into batches of similar length, the longest first, that cost each thread the same.

    In a batch, padded source tokens × width is at most `max_tokens`, plus less than one sentence, and about
    `max_active` hypotheses are active. The batches of all threads are cut together and their sentences distributed in
    turn, so that the costs of two batches differ by at most one longest sentence.
    """
    threads = max(1, min(threads, sum(lengths) * width // _MIN_THREAD_TOKENS))
    # a beam search drops almost half of the hypotheses, so twice as many places hold the same number of active ones
    max_sentences = threads * max_active * min(2, width) / width
    rounds = max(1, round(len(lengths) / max_sentences))  # somewhat larger batches rather than a small last one
    max_sentences = max(max_sentences, len(lengths) / rounds)
    for batch in length_batches(lengths, threads * max_tokens // width, max_sentences):
        yield from (batch[i::threads] for i in range(min(threads, len(batch))))


def in_batches(
    items: Sequence[Item],
    batches: Sequence[Sequence[int]],
    function: Callable[[Sequence[Item]], list[Result]],
    run: Callable[[Callable[[Sequence[Item]], list[Result]], Sequence[Sequence[Item]]], Sequence[list[Result]]],
    too_long: Callable[[Item], str],
    release: Callable[[], object] | None = None,
) -> list[Result]:
    """Return the results of all items, in order, from batches of their indices, see `in_halves`.

    `run` applies a function to each batch.
    """
    results_by_batch = run(
        partial(in_halves, function, too_long=too_long, release=release),
        [[items[i] for i in batch] for batch in batches],
    )
    results = dict(zip(chain.from_iterable(batches), chain.from_iterable(results_by_batch), strict=True))
    return [results[i] for i in range(len(results))]


def in_threads(
    function: Callable[[Batch], Result],
    batches: Sequence[Batch],
    threads: int,
    begin: Callable[[], object] = lambda: None,
) -> list[Result]:
    """Return the results in order; several threads, each initialized by `begin`, compute one batch each at a time.

    The matrix products of one batch are too small for several threads: they would wait for each other half of the time.
    """
    threads = min(threads, len(batches))
    if threads <= 1:
        return list(map(function, batches))
    pool = ThreadPoolExecutor(threads, initializer=begin)
    try:
        try:
            results = pool.map(function, batches)
        except RuntimeError:  # a pool takes no work after the end of the main thread, while this one translates
            results = map(function, batches)
        return list(results)
    finally:
        pool.shutdown(cancel_futures=True)


def in_halves(
    function: Callable[[Sequence[Item]], list[Result]],
    items: Sequence[Item],
    too_long: Callable[[Item], str],
    release: Callable[[], object] | None = None,
) -> list[Result]:
    """Return the results of a function for a batch, computed in halves if it does not fit into the memory of a device.

    Before that, it is computed again after `release` has released memory. Raises ConfigError, whose message begins with
    `too_long(item)`, if not even one item fits.
    """
    for is_last in (False, True) if release is not None else (True,):
        try:
            return function(items)
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
            if is_last and len(items) == 1:
                raise ConfigError(
                    f"{too_long(items[0])}; use a smaller beam, split long lines into sentences, or compute on the "
                    "device cpu"
                ) from None
        # outside the handler, where the traceback no longer holds the tensors of the failed computation
        if release is not None:
            release()
    half = len(items) // 2
    return [
        *in_halves(function, items[:half], too_long, release),
        *in_halves(function, items[half:], too_long, release),
    ]
