"""Letting whoever waits for many batches know how far they are."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Result = TypeVar("Result")

_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("_watcher", default=None)


@contextmanager
def watched(tell: Callable[[float], None]) -> Iterator[None]:
    """Within the block, call `tell` with the share of its batches that a search is through with, after each of them."""
    token = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(token)


def told(results: Iterable[Result], count: int) -> Iterator[Result]:
    """Yield what becomes of so many batches, and tell whoever watches how many of them there are."""
    tell = _watcher.get()
    for number, result in enumerate(results, start=1):
        if tell is not None:
            tell(number / count)
        yield result
