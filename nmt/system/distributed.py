"""Processes that work together: connecting them, and the few collectives that nmt uses.

`torchrun` starts the processes and torch.distributed connects them. In a single process nothing is connected, every
function here returns its input, and torch is not imported.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nmt.errors import ConfigError, ModelError, NMTError

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributed import ProcessGroup

# for collectives that all ranks reach at about the same time; after it, a rank is assumed to have ended
_TIMEOUT = timedelta(minutes=10)
_LONG_TIMEOUT = timedelta(days=7)  # for waiting until rank 0 has finished work that only it does
_SECONDS_OF_DISK = 60.0  # that a network disk may need to show a file

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def connect(device: "torch.device") -> Iterator[None]:
    """Connect the processes that torchrun started, within the block; each computes on its device.

    Raises ConfigError if the device does not permit it, ModelError if the environment is incomplete, or if another
    process ends early.
    """
    if "RANK" not in os.environ:
        yield
        return
    import torch
    import torch.distributed as dist

    if device.type == "mps":
        raise ConfigError(
            "runtime.device: mps cannot be shared by several processes; set cpu, or start without torchrun"
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        _init_process_group(device)
        yield
    except (RuntimeError, ValueError) as error:  # a ValueError of an unusable address
        process, reason = f"process {os.environ['RANK']}", str(error).partition(". ")[0]
        if not dist.is_initialized():
            advice = "start it with torchrun, which sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            raise ModelError(f"{process} cannot connect to the others: {reason}; {advice}") from error
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():  # gloo raises plain RuntimeErrors
            raise ModelError(
                f"{process} lost the connection to the others: {reason}; the error of the process that ended "
                "first, if it had one, is elsewhere in this output. The same command continues: a training from its "
                "last checkpoint"
            ) from error
        raise
    finally:
        _long_timeout_group.cache_clear()
    dist.destroy_process_group()


def _init_process_group(device: "torch.device") -> None:
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    # small Python objects are exchanged through the CPU, without a wait for the GPU
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store, number, count = next(rendezvous("env://", timeout=_TIMEOUT))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's store exists longer than the processes: after a restart it holds the addresses of the first ones
        # (https://github.com/pytorch/pytorch/issues/135712)
        store = PrefixStore(f"restart-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(backend, timeout=_TIMEOUT, store=store, rank=number, world_size=count)
    _long_timeout_group()


def rank() -> int:
    """Return the number of this process, from 0."""
    return sys.modules["torch.distributed"].get_rank() if world_size() > 1 else 0


def world_size() -> int:
    """Return how many processes are connected."""
    dist = sys.modules.get("torch.distributed")  # a process that has not imported it is not connected
    return dist.get_world_size() if dist is not None and dist.is_initialized() else 1


def check_is_shared(file: Path) -> None:
    """Wait until this rank finds a file that rank 0 has written. Raises ModelError if that takes more than a minute."""
    deadline = time.monotonic() + _SECONDS_OF_DISK
    while not file.exists():
        if time.monotonic() > deadline:
            raise ModelError(
                f"{file}: rank {rank()} does not find this file of rank 0; put `run` and `prepared` on a disk that all "
                "machines share"
            )
        time.sleep(0.1)


def exchange(*numbers: float) -> list[tuple[float, ...]]:
    """Gather numbers from all ranks; return a tuple for each rank."""
    if world_size() == 1:
        return [numbers]
    import torch
    import torch.distributed as dist

    values = torch.tensor(numbers, dtype=torch.float64)
    values_by_rank = [torch.empty_like(values) for _ in range(world_size())]
    dist.all_gather(values_by_rank, values)
    return [tuple(rank_values.tolist()) for rank_values in values_by_rank]


def all_reduce(numbers: "Tensor") -> "Tensor":
    """Replace a tensor on its device by the sum over several ranks, without a synchronization; return it."""
    import torch.distributed as dist

    dist.all_reduce(numbers)
    return numbers


def shard(items: Sequence[Item]) -> Sequence[Item]:
    """Return this rank's part of the items."""
    return items[rank() :: world_size()]


def all_gather(shard_results: list[Item]) -> list[Item]:
    """Return the results of all ranks for their shards, in the order that the items had before `shard`."""
    if world_size() == 1:
        return shard_results
    import torch.distributed as dist

    shards: list[list[Item]] = [[] for _ in range(world_size())]
    dist.all_gather_object(shards, shard_results)
    results = [item for part in shards for item in part]
    for number, part in enumerate(shards):
        results[number :: len(shards)] = part
    return results


def scatter_map(items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """Apply `work` to the items of rank 0, one on each rank at a time; yield all results, in order, on rank 0.

    The other ranks compute and yield nothing. `work` must not call collectives.
    """
    import torch.distributed as dist

    remaining = iter(items if rank() == 0 else ())
    group = _long_timeout_group()
    while True:
        batch = [list(islice(remaining, world_size()))]
        dist.broadcast_object_list(batch, src=0, group=group)
        if not batch[0]:
            break
        own_results = [work(item) for item in batch[0][rank() : rank() + 1]]
        results: list[list[Result]] = [[] for _ in range(world_size())]
        dist.gather_object(own_results, results if rank() == 0 else None, group=group)
        for result in results:
            yield from result


def on_rank_zero(work: Callable[[], Result]) -> Result:
    """Do work on rank 0 while the other ranks wait, however long; return its result on all ranks. Collective.

    An NMTError of the work is raised on all ranks.
    """
    if world_size() == 1:
        return work()
    import torch.distributed as dist

    error: NMTError | None = None
    outcome: list[Any] = [None, None]  # the result, and the message of the error
    if rank() == 0:
        try:
            outcome[0] = work()
        except NMTError as caught:
            error, outcome[1] = caught, str(caught)
    dist.broadcast_object_list(outcome, src=0, group=_long_timeout_group())
    if outcome[1] is not None:
        raise error or NMTError(outcome[1])
    return cast(Result, outcome[0])


@cache
def _long_timeout_group() -> "ProcessGroup":
    """Return a group whose collectives wait until rank 0 has finished work that only it does.

    It is made when the processes are connected: then the end of one of them is noticed by the others at once.
    """
    import torch.distributed as dist

    group: ProcessGroup = dist.new_group(timeout=_LONG_TIMEOUT, backend="gloo")
    return group
