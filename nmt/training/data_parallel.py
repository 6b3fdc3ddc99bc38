"""Training in several processes: one gradient out of all of theirs, and one run directory."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmt.batching.batch import dummy_batch
from nmt.config import Recipe
from nmt.errors import ModelError
from nmt.model.checkpoint import LoadedModel, weights_of
from nmt.model.sharding import shard
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.training.averaging import MovingAverage
from nmt.training.objective import Objective
from nmt.training.optimizer import optimizer_tensors
from nmt.training.progress import Adjustments, Progress
from nmt.training.run import RunDirectory, Warn
from nmt.training.run_log import MetricsLog


def wrap_distributed(
    objective: Objective, average: MovingAverage | None, sharded: bool, device: torch.device
) -> nn.Module:
    """Return what is called in place of the objective, so that gradients become their means over all processes.

    Each process holds a replica of the model, and gradients are exchanged while the rest of them is computed (Li et al.
    2020); or model and average are sharded, as `nmt.model.sharding` says. In one process it is the objective itself.
    """
    if distributed.size() == 1:
        return objective
    if sharded:
        shard(objective, objective.model, device)
        if average is not None:
            shard(average.model, average.model, device)
        return objective
    replica = DistributedDataParallel(objective, gradient_as_bucket_view=True)
    # sinusoids, the only buffers, may be longer in one process than in another; torch is renaming the argument for this
    replica.broadcast_buffers = False
    # After its first pass DDP arranges gradients in another order, in which the exchange rounds otherwise. With that
    # pass behind it, the first update of a run that was resumed is the same as if it had gone on.
    loss, _ = replica(dummy_batch().to(device))
    loss.backward()
    objective.zero_grad(set_to_none=True)
    return replica


def gradient_sync(module: nn.Module, now: bool) -> AbstractContextManager[None]:
    """Return the context in which to learn from a batch; replicas exchange gradients only `now`, at the last one.

    Shards exchange them at each, since they have no room for whole gradients.
    """
    if isinstance(module, DistributedDataParallel) and not now:
        silent: AbstractContextManager[None] = module.no_sync()
        return silent
    return nullcontext()


def sync_adjustments(adjustments: Adjustments) -> Adjustments:
    """Return what all processes learn from the mishaps of each."""
    limit = -math.inf if adjustments.largest_batch is None else -float(adjustments.largest_batch)
    (lowest,) = distributed.all_reduce_max(limit)
    return adjustments if lowest == limit else replace(adjustments, largest_batch=int(-lowest))


def check_same_place(run: RunDirectory, progress: Progress) -> None:
    """Raise ModelError unless all processes go on from the same checkpoint."""
    (furthest,) = distributed.all_reduce_max(progress.step)
    if progress.step != furthest:
        raise ModelError(
            f"{run.path}: process {distributed.rank()} finds the run at step {progress.step:,}, another at "
            f"{furthest:,}; run: must be on a disk that all machines share"
        )


def run_directory(path: Path) -> RunDirectory:
    """Return the run as this process has it: the first writes it, the others look on."""
    return RunDirectory(path) if distributed.rank() == 0 else _WatchedRun(path)


class _WatchedRun(RunDirectory):
    """A run that another process writes. Only of skipped batches, each process keeps its own share."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.metrics = _WatchedLog(self.metrics.file)
        self.skipped = path / f"skipped-{distributed.rank()}"

    @contextmanager
    def locked(self, warn: Warn = lambda message: None) -> Iterator[None]:
        yield

    def begin(self, recipe: Recipe, restart: bool) -> None: ...

    def prune(self, keep_best: int, keep_last: int, progress: Progress) -> None: ...

    def _is_outdated(self, directory: Path, progress: Progress) -> bool:
        return bool(distributed.all_reduce_max(0)[0])

    def _write(
        self,
        directory: Path,
        loaded: LoadedModel,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        average: Transformer | None,
    ) -> None:
        """Give its pieces, if there are any, to the process that writes, in the order in which that asks for them."""
        if average is not None:
            weights_of(average)
        weights_of(loaded.model)
        optimizer_tensors(optimizer, loaded.model)

    def _remove(self, directory: Path) -> None: ...

    def _point_links(self, progress: Progress) -> None: ...


class _WatchedLog(MetricsLog):
    def append(self, record: dict[str, Any]) -> None: ...

    def sync(self) -> None: ...

    def keep_until(self, step: int, validated_at: int) -> None: ...
