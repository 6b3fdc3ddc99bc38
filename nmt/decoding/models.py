"""Models that translate: one, or several as an ensemble; functions of them on many batches, in processes or threads.

N rows, one for each active hypothesis, sentence by sentence in the order of the batch. B sentences, S source length,
V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from nmt.errors import ConfigError, ModelError
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.device import is_oom, release_cached_blocks
from nmt.system.workers import WorkerPool


class DecoderState(Protocol):
    """The state of a model that decodes a batch; it begins with one row for each sentence."""

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest token of each row (N); return the logits of the next, (N, V), for the caller to overwrite."""

    def select(self, rows: Tensor) -> None:
        """Make row i continue row `rows[i]`, for rows (N'), on the CPU, in the order of the sentences."""


class StepModel(Protocol):
    """A model that predicts the next token of many hypotheses."""

    @property
    def device(self) -> torch.device:
        """Where tokens must be."""

    def start(self, source: Tensor, source_mask: Tensor | None) -> DecoderState:
        """Encode source ids (B, S), on the CPU, with their mask (B, S), True at tokens; None if nothing is padded."""


def step_model(models: Sequence[StepModel]) -> StepModel:
    """Return a model as it is, several as an ensemble."""
    return models[0] if len(models) == 1 else Ensemble(models)


class Ensemble:
    """Models with the same vocabularies, on the same device: the probability of a token is the mean of theirs."""

    def __init__(self, members: Sequence[StepModel]) -> None:
        self.members = members

    @property
    def device(self) -> torch.device:
        """Where all members are."""
        return self.members[0].device

    def start(self, source: Tensor, source_mask: Tensor | None) -> DecoderState:
        """Encode the source ids (B, S) with each member."""
        return EnsembleState([member.start(source, source_mask) for member in self.members])


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members for one batch."""

    members: Sequence[DecoderState]

    def step(self, tokens: Tensor) -> Tensor:
        """Read the newest tokens (N); return log(Σₘ pₘ / M), (N, V): logits of normalizer 0."""
        mean, *others = (member.step(tokens).float().log_softmax(-1) for member in self.members)
        for other in others:
            torch.logaddexp(mean, other, out=mean)
        return mean.sub_(math.log(len(self.members)))

    def select(self, rows: Tensor) -> None:
        """Make row i continue row `rows[i]`, for rows (N')."""
        for member in self.members:
            member.select(rows)


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
    """Models in evaluation mode on one device, and the processes that compute with them; several on cores only."""

    def __init__(self, models: Models, processes: int = 1) -> None:
        self.models = tuple(models)
        self._uses_cores = models[0].kernels.uses_cores
        several = processes > 1 and self._uses_cores
        advice = "give fewer --threads or a smaller decode.batch_tokens"
        one_thread = partial(torch.set_num_threads, 1)
        self._pool = WorkerPool(self.models, processes, advice, one_thread) if several else None

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.models[0].device

    @property
    def processes(self) -> int:
        """Number of processes, or of threads in this process, among which the batches are divided."""
        threads = torch.get_num_threads() if self._uses_cores else 1
        return threads if self._pool is None else self._pool.count

    def run(self, function: Callable[[Models, Batch], Result], batches: Sequence[Batch]) -> list[Result]:
        """Return `function(models, batch)` for each batch, in order. The function must be picklable."""
        if self._pool is not None and len(batches) > 1 and self._pool.can_fork:
            return list(self._pool.map(function, batches))
        return _map_in_threads(partial(function, self.models), batches, self.processes)


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
    device: torch.device,
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
                f"{too_long(items[0])} {device}; use a smaller --beam, split long lines into sentences, "
                "or compute with --device cpu"
            ) from None
    # outside the handler, where the traceback no longer holds the tensors of the failed computation
    release_cached_blocks(device)
    half = len(items) // 2
    return [
        *in_halves(function, items[:half], device, too_long),
        *in_halves(function, items[half:], device, too_long),
    ]


def in_order(batches: Sequence[Sequence[int]], found: Sequence[Sequence[Result]]) -> list[Result]:
    """Return the results of all sentences in their order, for the results of batches of their indices."""
    results = dict(zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True))
    return [results[i] for i in range(len(results))]
