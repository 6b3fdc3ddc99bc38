"""Prepare a corpus with the workers of a Dask cluster, which share a disk.

    python docs/prepare_on_cluster.py recipe.yaml tcp://scheduler:8786 16

Any executor with the interface of `concurrent.futures` serves as well, such as `mpi4py.futures.MPIPoolExecutor`.
"""

import subprocess
import sys
from concurrent.futures import Executor
from functools import partial


def prepare(recipe: str, *options: str) -> None:
    """Run `nmt prepare`. Raises RuntimeError with its message if it fails."""
    done = subprocess.run(["nmt", "prepare", "-c", recipe, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def prepare_shard(recipe: str, shards: int, number: int) -> None:
    """Do a part of the work, on the machine of the worker that calls it."""
    prepare(recipe, "--shard", f"{number}/{shards}")


def prepare_with(executor: Executor, recipe: str, shards: int) -> None:
    """Filter all shards, then encode all shards, then join them."""
    for _ in ("filter", "encode"):
        list(executor.map(partial(prepare_shard, recipe, shards), range(1, shards + 1)))
    prepare(recipe)


def main() -> None:
    """Connect to the scheduler, and prepare."""
    from dask.distributed import Client

    recipe, scheduler, shards = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Client(scheduler) as client:
        prepare_with(client.get_executor(pure=False), recipe, shards)


if __name__ == "__main__":
    main()
