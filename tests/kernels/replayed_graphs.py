"""CUDA graphs on a CPU: a replay computes again what was computed while a function was recorded, on the same tensors.

As on a GPU, a recording changes no tensor, a replay has the numbers of Python of the recording, and an operation that
reads a number of the device, or sends one there, is an error. Kernels in Triton's interpreter are recorded, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from triton.runtime.interpreter import GridExecutor

from nmt.kernels.cuda import CudaKernels

_HOST_WAITS = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
}


def tensors_of(*values: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class Graph(TorchDispatchMode):
    """What was computed while it was recorded."""

    recording: "Graph | None" = None

    def __init__(self) -> None:
        super().__init__()
        self.calls = list[tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any], list[Tensor]]]()
        self._before = dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]]()
        self.replays = 0

    def __torch_dispatch__(
        self, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        indices = tensors_of(args[1]) if function is torch.ops.aten.index.Tensor else []
        is_sent = function is torch.ops.aten.lift_fresh.default and args[0].dim() > 0  # by torch.tensor
        if function in _HOST_WAITS or is_sent or any(index.dtype == torch.bool for index in indices):
            raise RuntimeError(f"operation not permitted when stream is capturing: {function}")
        if function._schema.is_mutable:
            self._keep(tensors_of(args, kwargs or {}))
        results = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, tensors_of(results)))
        return results

    def launch(self, executor: GridExecutor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Record a kernel."""
        with _disable_current_modes():
            self._keep(tensors_of(args, kwargs))
            LAUNCH(executor, *args, **kwargs)
        self.calls.append((partial(LAUNCH, executor), args, kwargs, []))

    def _keep(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._before:
                self._before[storage.data_ptr()] = storage, storage.clone()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record what is computed in the block; then each tensor is as it was before."""
        Graph.recording = self
        try:
            with self:
                yield
        finally:
            Graph.recording = None
            for storage, before in self._before.values():
                storage.copy_(before)

    def replay(self) -> None:
        """Compute it again."""
        self.replays += 1
        with torch.no_grad():
            for function, args, kwargs, results in self.calls:
                for new, old in zip(tensors_of(function(*args, **kwargs)), results, strict=False):
                    if new.untyped_storage().data_ptr() != old.untyped_storage().data_ptr():
                        old.copy_(new)


LAUNCH = GridExecutor.__call__


def _launch(executor: GridExecutor, *args: Any, **kwargs: Any) -> None:
    if Graph.recording is None:
        LAUNCH(executor, *args, **kwargs)
    else:
        Graph.recording.launch(executor, args, kwargs)


def record_on_cpu(patch: pytest.MonkeyPatch, problem: str = "") -> list[Graph]:
    """Make kernels for GPUs record on a CPU; return the graphs that will be made. A problem ends each recording."""
    graphs = list[Graph]()

    def new_graph() -> Graph:
        graphs.append(Graph())
        return graphs[-1]

    @contextmanager
    def graph(graph: Graph, **_: object) -> Iterator[None]:
        with graph.record():
            yield
        if problem:
            raise RuntimeError(problem)

    def fetch(kernels: CudaKernels, *tensors: Tensor) -> Callable[[], list[Tensor]]:
        copied = [tensor.clone() for tensor in tensors]
        return lambda: copied

    properties = SimpleNamespace(total_memory=2**31)
    for name in ("graph_pool_handle", "current_stream", "set_stream", "current_blas_handle", "synchronize"):
        patch.setattr(torch.cuda, name, lambda *_: None)
    patch.setattr(torch.cuda, "CUDAGraph", new_graph)
    patch.setattr(torch.cuda, "graph", graph)
    patch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    patch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    patch.setattr(Tensor, "pin_memory", Tensor.clone)
    patch.setattr(GridExecutor, "__call__", _launch)
    patch.setattr(CudaKernels, "fetch", fetch)
    return graphs
