"""Models that translate: one, or several as an ensemble; functions of them on many batches, in threads."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import torch

from nmt.errors import ConfigError, ModelError, is_oom
from nmt.kernels import Kernels
from nmt.kernels.device import release_cached_blocks
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer


def check_same_vocabulary(directories: Sequence[Path], models: Sequence[LoadedModel]) -> None:
    """Raise ModelError if the tokenizers of a model are not, byte for byte, those of the first one."""
    for directory, model in zip(directories[1:], models[1:], strict=True):
        if side := models[0].tokenizers.different_side(model.tokenizers):
            raise ModelError(
                f"--model {directory}: its {side} tokenizer is not that of {directories[0]}, so their token ids do not "
                "mean the same; models that translate together must be trained from one prepared corpus"
            )


Models = Sequence[Transformer]
Batch = TypeVar("Batch")
Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchRunner:
    """Models in evaluation mode on one device, and the threads that compute with them; several on cores only."""

    def __init__(self, models: Models) -> None:
        self.models = tuple(models)
        self._uses_cores, self._lock = models[0].kernels.uses_cores, threading.Lock()

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.models[0].device

    @property
    def threads(self) -> int:
        """The number of threads among which batches are divided."""
        return torch.get_num_threads() if self._uses_cores else 1

    def run(self, function: Callable[[Models, Batch], Result], batches: Sequence[Batch]) -> list[Result]:
        """Return `function(models, batch)` for each batch, in order. Several threads may call this at a time."""
        if not self._uses_cores:
            with self._lock:  # a search that is kept with its recordings is one at a time
                return [function(self.models, batch) for batch in batches]
        return _map_in_threads(partial(function, self.models), batches, self.threads)


class RemoteRunner(BatchRunner):
    """What a worker process has in place of a runner: another process computes with the models."""

    def __init__(self, runner: BatchRunner, ask: Callable[[object], Any]) -> None:
        super().__init__(runner.models)
        self._ask = ask

    def run(self, function: Callable[[Models, Batch], Result], batches: Sequence[Batch]) -> list[Result]:
        """Return what the other process does for the same function and batches."""
        results: list[Result] = self._ask((function, batches))
        return results


def _map_in_threads(function: Callable[[Batch], Result], batches: Sequence[Batch], threads: int) -> list[Result]:
    """Return the results in order; of several threads, each computes a batch by itself.

    The matrix products of one batch are too small for several threads: they would wait for each other half of the time.
    """
    before = torch.get_num_threads()
    threads = min(threads, len(batches))
    if threads <= 1:
        return list(map(function, batches))
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return list(pool.map(function, batches))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


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


def in_halves(
    function: Callable[[Sequence[Item]], list[Result]],
    items: Sequence[Item],
    kernels: Kernels,
    too_long: Callable[[Item], str],
) -> list[Result]:
    """Return the results of a function for a batch, computed in halves if it does not fit into the device's memory.

    Raises ConfigError, which begins with `too_long(item)`, if not even one item fits.
    """
    try:
        return function(items)
    except (RuntimeError, MemoryError) as error:
        if not is_oom(error):
            raise
        if len(items) == 1:
            raise ConfigError(
                f"{too_long(items[0])} {kernels.device}; use a smaller --beam, split long lines into sentences, "
                "or compute with --device cpu"
            ) from None
    # outside the handler, where the traceback no longer holds the tensors of the failed computation
    kernels.release_captured()
    release_cached_blocks(kernels.device)
    half = len(items) // 2
    return [
        *in_halves(function, items[:half], kernels, too_long),
        *in_halves(function, items[half:], kernels, too_long),
    ]


def in_order(batches: Sequence[Sequence[int]], found: Sequence[Sequence[Result]]) -> list[Result]:
    """Return the results of all sentences in their order, for the results of batches of their indices."""
    results = dict(zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True))
    return [results[i] for i in range(len(results))]
