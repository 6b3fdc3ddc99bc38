"""Models that translate: one, or several as an ensemble; functions of them on many batches, in threads."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch

from nmt.decoding.batches import in_threads
from nmt.kernels.device import release_cached_blocks
from nmt.model.transformer import Transformer

Models = Sequence[Transformer]
Batch = TypeVar("Batch")
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
        threads = self.threads
        try:
            return in_threads(partial(function, self.models), batches, threads, partial(torch.set_num_threads, 1))
        finally:
            torch.set_num_threads(threads)


def release_memory(models: Models) -> None:
    """Release the memory of the device that is kept for later."""
    models[0].kernels.release_memory()
    release_cached_blocks(models[0].device)
