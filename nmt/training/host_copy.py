"""Numbers on their way from a device, which nobody has to wait for before they are needed."""

import torch
from torch import Tensor


class Arriving:
    """Copies numbers from a device once it has them, and lets it go on meanwhile."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=numbers.is_cuda)  # from a GPU into pinned memory
        self._there = torch.cuda.Event() if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._there is not None:
            self._there.record()

    def read(self) -> list[float]:
        """Wait until they are there, but not for what the device was given after them; return them."""
        if self._there is not None:
            self._there.synchronize()
        return list(map(float, self._numbers.tolist()))
