"""Prepare a corpus on a Dask cluster: python docs/prepare_on_cluster.py recipe.yaml tcp://scheduler:8786.

Any executor of `concurrent.futures` will do. The blocks hold the text, so the machines need no common disk.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from nmt.commands.prepare import prepare
from nmt.config import Recipe, load_recipe
from nmt.system.console import Console

AHEAD = 200  # blocks of 5,000 pairs that are on their way at a time


def prepare_with(executor: Executor, recipe: Recipe) -> None:
    """Prepare the corpus of a recipe with an executor."""

    def mapped(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        running = deque[Future[Any]]()
        for block in blocks:
            running.append(executor.submit(function, block))
            if len(running) >= AHEAD:
                yield running.popleft().result()
        yield from (future.result() for future in running)

    prepare(recipe, Console(), force=True, mapped=mapped)


if __name__ == "__main__":
    from distributed import Client

    with Client(sys.argv[2]) as client:
        prepare_with(client.get_executor(), load_recipe(Path(sys.argv[1])))
