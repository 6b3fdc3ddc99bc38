"""Kernels for GPUs of NVIDIA: those of Triton between the matrix products of cuBLAS, and updates recorded in graphs.

An update launches a thousand kernels, each of which takes the host longer than the GPU. Recorded in a CUDA graph, they
are launched at once. A graph is for batches of one layout, so batches are filled to a few sizes.

N rows, I inputs, O outputs, D width, V vocabulary.
"""

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nmt.batching.batch import TILE, Batch, Rows
from nmt.kernels import triton_attention, triton_rows
from nmt.kernels.reference import Kernels, Precision, Product, Results, Stream
from nmt.system.device import is_oom

_SIZES = 16  # rows of a side are filled to multiples of this part of the target rows of a batch
_MOST_GRAPHS = 24  # real sentences have a dozen layouts that are frequent (benchmarks/RESULTS.md, On a GPU)


class CudaKernels(Kernels):
    """The operations of the model on a GPU."""

    name = "Triton"
    fuses_step = True
    chunk_logits = 2**30  # 2 GiB in bf16
    search_scale = 16
    utilization = (0.15, 0.6)

    def __init__(self, device: torch.device, precision: Precision = "fp32", target_rows: int = 0) -> None:
        """Take the target rows of most batches, for training; 0 for inference, whose batches have any size."""
        super().__init__(device, precision)
        self._target_rows = target_rows
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self.site = 0  # of the last dropout in a forward pass
        self._captured: _Captured | None = None
        self._rounded: Tensor | None = None  # all weights of the training in the type of products
        self._source = 0  # the address of the weights, while the rounded ones are those

    def check(self) -> None:
        """Compile and run one kernel; raises what Triton does."""
        triton_rows.dropout(torch.ones(1, 16, device=self.device), triton_rows.Dropout(0.5, self._seed, 0))

    def sizes(self, source: int, target: int) -> tuple[int, int]:
        """Fill the target to that of most batches, the source to a multiple of 1/16 of it."""
        if not self._target_rows:
            return super().sizes(source, target)
        step = -(-self._target_rows // _SIZES // TILE) * TILE
        filled = self._target_rows if target <= self._target_rows else _multiple(target, step)
        return _multiple(max(1, source), step), filled

    def moved(self, batch: Batch) -> Batch:
        """Copy a batch by way of page-locked RAM, for which the host does not wait for the GPU."""
        if batch.buffer.device == self.device:
            return batch
        # in this thread: another one that calls CUDA may end the recording of a graph
        return batch.pinned().to(self.device)

    def seed(self, seed: int) -> None:
        """Set what the masks of dropout are a function of, besides its number in the forward pass."""
        self._seed.fill_(seed)
        self.site = 0

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        """Multiply, with the sums of the bias's gradient and the gradient of ReLU in one kernel."""
        if bias is None or not torch.is_grad_enabled():
            return super().linear(x, weight, bias, relu)
        output: Tensor = _Linear.apply(x, weight, bias, relu, self)  # type: ignore[no-untyped-call]
        return output

    def add_norm(self, stream: Stream, dropout: float, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Add and normalize in one pass, forward and backward."""
        if not torch.is_grad_enabled():
            return super().add_norm(stream, dropout, norm)
        return triton_rows.add_norm(stream, norm, self._dropout(dropout), self.dtype or torch.float32)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Draw the masks again in the backward pass, in place of keeping them."""
        return triton_rows.dropout(x, self._dropout(p))

    def rotate(self, projected: Tensor, heads: int, positions: Tensor) -> Tensor:
        """Rotate in one pass."""
        return triton_rows.rotate(projected, heads, positions)

    def attend(
        self, queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], heads: int, causal: bool = False
    ) -> Tensor:
        """Attend tile by tile, see `nmt.kernels.triton_attention`."""
        return triton_attention.attend(queries, keys_values, *rows, heads, causal)

    def logits_to_gradient(
        self, logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the logits twice and write the gradient in their place."""
        loss, nll = triton_rows.loss_and_gradient(logits, labels, smoothing, vocabulary)
        return loss, nll, logits

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum of products in fp32, without rounding it in between."""
        return _product_in_fp32(left.t(), right)

    def captured(self, function: Callable[[Batch], None]) -> Callable[[Batch], None]:
        """Record what a function computes for a layout of batches that comes again, and replay it from then on."""
        self._captured = _Captured(function, self) if self._target_rows else None
        return self._captured or function

    def release_captured(self) -> bool:
        """Release the memory of what is recorded."""
        return self._captured is not None and self._captured.forget()

    def read_later(self, numbers: Tensor) -> Results:
        """Copy to page-locked RAM, which the host need not wait for."""
        copied, done = numbers.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def results() -> list[float]:
            done.synchronize()
            return list(map(float, copied.tolist()))

        return results

    def prepared(self, weight: Tensor, bias: Tensor | None) -> Product | None:
        """Round the weight once; logits, which have no bias, are fp32."""
        if bias is not None or self.dtype is None:
            return super().prepared(weight, bias)
        transposed = weight.detach().to(self.dtype).t()

        def product(x: Tensor, relu: bool = False) -> Tensor:
            return _product_in_fp32(x.to(transposed.dtype), transposed)

        return product

    def round_weights(self, weights: Tensor) -> None:
        """Round all weights at once, in place of each when it is used; until the next step of the optimizer."""
        if self.dtype is not None:
            self._rounded = weights.detach().to(self.dtype) if self._rounded is None else self._rounded.copy_(weights)
            self._source = weights.untyped_storage().data_ptr()

    def step(self, optimizer: torch.optim.Optimizer, scale: Tensor, finite: Tensor) -> None:
        """Do the same; the rounded weights are then those of before."""
        super().step(optimizer, scale, finite)
        self._source = 0

    def rounded(self, x: Tensor) -> Tensor:
        """Return the part of the rounded weights that is x, or x rounded."""
        # without autograd only, as inside of its functions: the part has no history
        is_weight = not torch.is_grad_enabled() and x.untyped_storage().data_ptr() == self._source
        if self._rounded is not None and is_weight:
            return self._rounded.as_strided(x.shape, x.stride(), x.storage_offset())
        return super().rounded(x)

    def _dropout(self, p: float) -> triton_rows.Dropout:
        self.site += 1
        return triton_rows.Dropout(p, self._seed, self.site)


class _Linear(torch.autograd.Function):
    """A linear map whose gradients are added to those that weight and bias have, without a pass of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool, kernels: CudaKernels) -> Tensor:
        ctx.parameters = weight, bias
        x, weight, bias = map(kernels.rounded, (x, weight, bias))
        output = torch._addmm_activation(bias, x, weight.t()) if relu else torch.addmm(bias, x, weight.t())
        ctx.save_for_backward(x, weight, *([output] if relu else []))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, of_weight, of_bias = gradients[0].contiguous(), None, None
        x, weight, *output = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        parameter, bias = ctx.parameters
        if output:
            gradient, of_bias = triton_rows.relu_gradient(gradient, output[0], bias)
        elif needs_bias:
            of_bias = triton_rows.bias_gradient(gradient, bias)
        if needs_weight:
            of_weight = _add_product(parameter.grad, gradient.t(), x)
        return gradient @ weight if needs_x else None, of_weight, of_bias, None, None


class _Captured:
    """A function of batches that is recorded in a CUDA graph for each layout that comes again.

    All graphs share one pool of memory, since one of them runs at a time.
    """

    def __init__(self, function: Callable[[Batch], None], kernels: CudaKernels) -> None:
        self._function, self._kernels = function, kernels
        self._seen: Counter[object] = Counter()
        self._graphs: dict[object, tuple[torch.cuda.CUDAGraph, Batch]] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._most = _MOST_GRAPHS

    def __call__(self, batch: Batch) -> None:
        """Apply the function to a batch in RAM."""
        # attention has more programs for sentences that are longer than a tile
        key = batch.layout, batch.source.longest_tiles, batch.target.longest_tiles
        self._seen[key] += 1
        if key not in self._graphs and self._seen[key] > 1 and len(self._graphs) < self._most:
            self._record(key, batch)
        if key not in self._graphs:
            self._function(batch)
            return
        graph, static = self._graphs[key]
        static.buffer.copy_(batch.pinned().buffer, non_blocking=True)
        graph.replay()

    def forget(self) -> bool:
        """Release what is recorded, for good; return whether there was anything."""
        had_any = bool(self._graphs)
        self._graphs.clear()
        self._most = 0
        return had_any

    def _record(self, key: object, batch: Batch) -> None:
        static, graph, stream = batch.to(self._kernels.device), torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        site, collects = self._kernels.site, gc.isenabled()
        gc.disable()  # nothing that belongs to the GPU may be released meanwhile
        try:
            # with several GPUs, a thread of their collectives looks at events meanwhile
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._function(static)
        except RuntimeError as error:
            torch.cuda.set_stream(stream)
            self._kernels.site = site  # the same update follows
            cause = error.__context__ or error
            if not is_oom(cause) and "captur" not in str(error):
                raise
            self.forget()
            reason = str(cause).strip().partition("\n")[0]
            self._kernels.problem = f"an update cannot be recorded, so this is slower: {reason}"
            return
        finally:
            if collects:
                gc.enable()
        self._graphs[key] = graph, static


def _product_in_fp32(left: Tensor, right: Tensor) -> Tensor:
    """Return a matrix product with its sums in fp32."""
    if left.dtype == torch.float32:
        return left @ right
    product: Tensor = torch.mm(left, right, out_dtype=torch.float32)
    return product


def _add_product(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor | None:
    """Add a matrix product to a sum in fp32; return it if there is no sum yet."""
    if total is None:
        return _product_in_fp32(left, right)
    if left.dtype == torch.float32:
        total.addmm_(left, right)
    else:
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    return None


def _multiple(rows: int, step: int) -> int:
    return -(-rows // step) * step
