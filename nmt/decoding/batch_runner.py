"""Run a function of the models on many batches: on worker processes or on threads."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TypeVar

import torch

from nmt.config import RuntimeSettings
from nmt.model.transformer import Transformer
from nmt.system.device import autocast
from nmt.system.workers import WorkerPool

OnProgress = Callable[[float], None]
"""A function that is called after each batch with the share of batches that are done."""

Models = Sequence[Transformer]
_FP32 = RuntimeSettings(precision="fp32")

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class BatchRunner:
    """Models in evaluation mode on one device, and the processes that compute with them; several on a CPU only."""

    def __init__(self, models: Models, runtime: RuntimeSettings = _FP32, processes: int = 1) -> None:
        self.models = tuple(models)
        self._runtime = runtime
        several = processes > 1 and self.device.type == "cpu"
        advice = "give fewer --threads or a smaller decode.batch_tokens"
        one_thread = partial(torch.set_num_threads, 1)
        self._pool = WorkerPool(self.models, processes, advice, one_thread) if several else None

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.models[0].device

    @property
    def processes(self) -> int:
        """Number of processes among which the batches are divided."""
        return 1 if self._pool is None else self._pool.count

    def run(
        self,
        function: Callable[[Models, Batch], Result],
        batches: Sequence[Batch],
        on_progress: OnProgress | None = None,
    ) -> list[Result]:
        """Return `function(models, batch)` for each batch, in order, computed in the precision of the runtime.

        The function must be picklable.
        """
        call = partial(_call, function=function, runtime=self._runtime)
        if self._pool is not None and len(batches) > 1 and self._pool.can_fork:
            results = self._pool.map(call, batches)
        else:
            results = _map_in_threads(partial(call, self.models), batches, self.device)
        finished = []
        for result in results:
            finished.append(result)
            if on_progress is not None:
                on_progress(len(finished) / len(batches))
        return finished


def _call(
    models: Models, batch: Batch, function: Callable[[Models, Batch], Result], runtime: RuntimeSettings
) -> Result:
    with autocast(runtime, models[0].device):
        return function(models, batch)


def _map_in_threads(
    function: Callable[[Batch], Result], batches: Sequence[Batch], device: torch.device
) -> Iterator[Result]:
    """Yield the results in order; on a CPU, each thread computes a batch by itself.

    The matrix products of one batch are too small for several threads: they would wait for each other half of the time.
    """
    before = torch.get_num_threads()
    threads = min(before, len(batches))
    if device.type != "cpu" or threads <= 1:
        yield from map(function, batches)
        return
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(function, batches)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
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


def in_order(batches: Sequence[Sequence[int]], found: Sequence[Sequence[Result]]) -> list[Result]:
    """Return the results of all sentences in their order, for the results of batches of their indices."""
    results = dict(zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True))
    return [results[i] for i in range(len(results))]
