"""Training in several processes: gradients and adjustments agree on all ranks."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmt.batching.batch import dummy_batch
from nmt.model.sharding import shard
from nmt.system import distributed
from nmt.training.loss import Objective
from nmt.training.optimizer import MovingAverage
from nmt.training.progress import Adjustments


def wrap_distributed(
    objective: Objective, average: MovingAverage | None, sharded: bool, device: torch.device
) -> nn.Module:
    """Return the module to call in place of the objective, whose backward pass averages gradients over all ranks.

    Each rank holds a replica of the model (DDP, Li et al. 2020), or model and average are sharded in place (FSDP, see
    `nmt.model.sharding`). With one process it is the objective itself.
    """
    if distributed.world_size() == 1:
        return objective
    if sharded:
        shard(objective, objective.model, device)
        if average is not None:
            shard(average.model, average.model, device)
        return objective
    replica = DistributedDataParallel(objective, gradient_as_bucket_view=True)
    # the only buffers are sinusoids, of different lengths on different ranks; torch is renaming the argument for this
    replica.broadcast_buffers = False
    # After its first pass DDP orders its gradient buckets anew, which changes rounding. With that pass made here, the
    # first update of a resumed run equals the same update of an uninterrupted run.
    loss, _ = replica(dummy_batch().to(device))
    loss.backward()
    objective.zero_grad(set_to_none=True)
    return replica


def gradient_sync(module: nn.Module, now: bool) -> AbstractContextManager[None]:
    """Return the context of a backward pass: replicas all-reduce their gradients only if `now`, shards always."""
    if isinstance(module, DistributedDataParallel) and not now:
        no_sync: AbstractContextManager[None] = module.no_sync()
        return no_sync
    return nullcontext()


def sync_adjustments(adjustments: Adjustments) -> Adjustments:
    """Return the adjustments with the smallest `largest_batch` of all ranks."""
    limit = -math.inf if adjustments.largest_batch is None else -float(adjustments.largest_batch)
    (lowest,) = distributed.all_reduce_max(limit)
    return adjustments if lowest == limit else replace(adjustments, largest_batch=int(-lowest))
