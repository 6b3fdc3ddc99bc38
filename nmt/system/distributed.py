"""Several processes at one piece of work: who they are, and the few small things that they tell each other.

`torchrun` starts them and torch.distributed connects them. One process alone connects to nothing: every function here
gives it back what it came with.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import islice
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from nmt.config import RuntimeSettings
from nmt.errors import ConfigError, ModelError
from nmt.system.device import choose_device

_PATIENCE = timedelta(minutes=10)
"""How long a process waits for what all others do at the same time, before it believes that one of them is gone."""
_LONG_PATIENCE = timedelta(days=7)
"""How long the others wait for what only the first one does, such as preparing a large corpus."""

_SET_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

_apart = ContextVar("_apart", default=False)

Item = TypeVar("Item")
Result = TypeVar("Result")
Number = TypeVar("Number", int, float)


@contextmanager
def connected(settings: RuntimeSettings) -> Iterator[None]:
    """Connect the processes that torchrun started, within the block.

    Raises ConfigError if this is not possible, ModelError when another process is gone.
    """
    if not _started_by_torchrun():
        yield
        return
    device = choose_device(settings)
    if device.type == "mps":
        raise ConfigError("runtime.device: mps cannot be shared by several processes; set cpu, or do without torchrun")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        _connect(device)
        yield
    except RuntimeError as error:
        # gloo has no class of errors of its own
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            reason = str(error).partition(". ")[0]
            raise ModelError(
                f"process {os.environ['RANK']} lost the others: {reason}; what ended the first of them stands "
                "elsewhere in this output. The same command goes on from what was saved last"
            ) from error
        raise
    dist.destroy_process_group()


def _connect(device: torch.device) -> None:
    # what the processes tell each other in between goes through the processors, and does not wait for the GPUs
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store, number, count = next(rendezvous("env://", timeout=_PATIENCE))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's own store outlives the processes, and would tell those of a second try the addresses of the first
        # (https://github.com/pytorch/pytorch/issues/135712)
        store = PrefixStore(f"try-{_tries()}", store)
    dist.init_process_group(backend, timeout=_PATIENCE, store=store, rank=number, world_size=count)


def _started_by_torchrun() -> bool:
    """Tell whether torchrun started this process. Raises ConfigError if only a part of what it sets is there."""
    if not any(name in os.environ for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        return False
    missing = [name for name in _SET_BY_TORCHRUN if not os.environ.get(name)]
    if missing:
        there = [name for name in _SET_BY_TORCHRUN if name not in missing]
        raise ConfigError(
            f"the environment sets {', '.join(there)} but not {', '.join(missing)}; for several processes start with "
            "torchrun, which sets all of them, for one process unset them"
        )
    return True


def is_second_try() -> bool:
    """Tell whether torchrun has started the processes again (--max-restarts), after one of them failed."""
    return _tries() > 0


def _tries() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def rank() -> int:
    """Return which of the processes this is, from 0."""
    return dist.get_rank() if size() > 1 else 0


def size() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() and not _apart.get() else 1


@contextmanager
def single_process() -> Iterator[None]:
    """Let this process be alone within the block, for what may take another course in each."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


def all_reduce_sum(*values: Number) -> list[Number]:
    """Return the sums of values over all processes."""
    return _reduced(values, dist.ReduceOp.SUM)


def all_reduce_sum_on_device(numbers: Tensor) -> Tensor:
    """Return the sums of numbers over all processes, on the device where they are, for which nobody waits."""
    if size() > 1:
        numbers = numbers.double()
        dist.all_reduce(numbers)
    return numbers


def all_reduce_max(*values: Number) -> list[Number]:
    """Return the largest of each value in any process."""
    return _reduced(values, dist.ReduceOp.MAX)


def _reduced(values: tuple[Number, ...], operation: dist.ReduceOp.RedOpType) -> list[Number]:
    if size() == 1:
        return list(values)
    numbers = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(numbers, operation)
    return [type(value)(number) for value, number in zip(values, numbers.tolist(), strict=True)]


def shard(items: Sequence[Item]) -> Sequence[Item]:
    """Return what this process does of work that is dealt out to all."""
    return items[rank() :: size()]


def all_gather(own: list[Item]) -> list[Item]:
    """Return what all processes made of their shares, in the order that the work had before `shard`."""
    if size() == 1:
        return own
    shares: list[list[Item]] = [[] for _ in range(size())]
    dist.all_gather_object(shares, own)
    whole = [item for share in shares for item in share]
    for number, share in enumerate(shares):
        whole[number :: len(shares)] = share
    return whole


def scatter_map(items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """Let each process do one item at a time of those that the first one has; yield all results, in order, to it.

    The others yield nothing, but compute. `work` must not call collectives.
    """
    if size() == 1:
        yield from map(work, items)
        return
    group = dist.new_group(timeout=_LONG_PATIENCE, backend="gloo")
    remaining = iter(items)
    while True:
        hand = list(islice(remaining, size())) if rank() == 0 else []
        parts = [hand[i : i + 1] if hand else None for i in range(size())]
        own: list[list[Item] | None] = [None]
        dist.scatter_object_list(own, parts if rank() == 0 else None, group=group)
        if own[0] is None:
            break
        done = [work(item) for item in own[0]]
        results: list[list[Result]] = [[] for _ in range(size())]
        dist.gather_object(done, results if rank() == 0 else None, group=group)
        for result in results:
            yield from result
    dist.destroy_process_group(group)


@contextmanager
def first_goes_ahead() -> Iterator[None]:
    """Let the first process go through the block before the others, who then find what it left on the disk."""
    if size() == 1:
        yield
        return
    group = dist.new_group(timeout=_LONG_PATIENCE, backend="gloo")
    if rank() > 0:
        dist.barrier(group)
    yield
    if rank() == 0:
        dist.barrier(group)
    dist.destroy_process_group(group)
