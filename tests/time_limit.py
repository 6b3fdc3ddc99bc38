"""A limit for what takes linear time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seconds_of_the_processor(most: float = 3) -> Iterator[None]:
    """Fail if the block takes longer: several times what linear time takes, and a fraction of quadratic time.

    Processor time excludes other processes.
    """
    started = time.process_time()
    yield
    assert time.process_time() - started < most
