"""Kernels for NVIDIA GPUs: matrix products by cuBLAS, all else in Triton, and updates recorded in CUDA graphs.

An update launches a thousand kernels, and each launch takes longer on the host than the kernel on the GPU. A CUDA graph
launches all of them at once. A graph is for batches of one shape, so batches are filled to a few sizes.

N rows, I inputs, O outputs, D width, V vocabulary.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, cast

import torch
from torch import Tensor, nn

from nmt.batching.batch import TILE, Rows
from nmt.errors import is_oom
from nmt.kernels import triton_attention, triton_loss, triton_rows, triton_search
from nmt.kernels.reference import Input, Kernels, Places, Precision, Residual, Result, SearchSize

_SIZES = 16  # a side is filled to a multiple of 1/16 of the target rows of most batches
_MOST_KEPT = 128  # searches
_WORKSPACES = 2**26  # bytes of the workspaces of cuBLAS that a recorded search has, at most
_MOST_RECORDED_ROWS = 2**14  # of an encoder pass: with more, recording saves no time, and results take gigabytes
_SLOT = 64  # a slot counts as at least so many source tokens, since it also has V logits and space for the output
_MOST_GRAPHS = 24  # batches of real sentences have a dozen shapes that are frequent (benchmarks/RESULTS.md, On a GPU)


class CudaKernels(Kernels):
    """The operations of the model on a GPU."""

    name = "Triton"
    fuses_step = True
    chunk_logits = 2**30  # 2 GiB in bf16
    encoder_multiple = 1024
    steps_per_fetch = 4
    fused_beam = 16  # wider ones take minutes to compile
    advance = staticmethod(triton_search.advance)
    utilization = (0.15, 0.6)

    def __init__(self, device: torch.device, precision: Precision = "fp32", target_rows: int = 0) -> None:
        """Take the target rows of most batches, for training; 0 for inference, whose batches have any size."""
        super().__init__(device, precision)
        self._target_rows = target_rows
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self.site = 0  # number of the last dropout in the forward pass
        self._update: _Recorded[Any, Any] | None = None  # the recorded update of a training run
        self._kept: dict[object, tuple[int, object]] = {}  # searches and their bytes, the least recently used first
        self._most_kept_bytes = 2**30
        self._on_gpu = device.type == "cuda"  # else in Triton's interpreter
        self._out_of_memory = Counter[tuple[int, int]]()  # OOMs of searches, by their source and target positions
        if self._on_gpu:
            memory = torch.cuda.get_device_properties(device).total_memory
            self._most_kept_bytes = memory // 2
            self.search_scale = max(4, min(64, 1 << (memory >> 30).bit_length() - 1))
        self._rounded: Tensor | None = None  # all weights of the training in the type of products
        self._rounded_from = 0  # the address of the weights of `_rounded`; 0 if these have changed since

    def check(self) -> None:
        """Compile and run one kernel. Raises any error of Triton."""
        triton_rows.dropout(torch.ones(1, 16, device=self.device), triton_rows.Dropout(0.5, self._seed, 0))

    def sizes(self, source: int, target: int) -> tuple[int, int]:
        """Fill the target to the rows of most batches, and the source to a multiple of 1/16 of them."""
        if not self._target_rows:
            return super().sizes(source, target)
        step = -(-self._target_rows // _SIZES // TILE) * TILE
        filled = self._target_rows if target <= self._target_rows else _multiple(target, step)
        return _multiple(max(1, source), step), filled

    def to_device(self, tensor: Tensor) -> Tensor:
        """Copy through page-locked RAM, so that the host does not wait for the GPU."""
        if not self._on_gpu or tensor.device.type == "cuda":
            return tensor
        # in this thread: CUDA calls of another thread may invalidate the recording of a graph
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def fetch(self, *tensors: Tensor) -> Callable[[], list[Tensor]]:
        """Copy to page-locked RAM; the host waits for these copies only."""
        if not self._on_gpu:
            return super().fetch(*tensors)
        copied = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def results() -> list[Tensor]:
            done.synchronize()
            return copied

        return results

    def seed(self, seed: int) -> None:
        """Set the seed of dropout masks, and begin to number the dropouts of a forward pass."""
        self._seed.fill_(seed)
        self.site = 0

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        """Multiply, with the sums of the bias's gradient and the gradient of ReLU in one kernel."""
        if not torch.is_grad_enabled():
            rows, weight = self.rounded(x).flatten(0, -2), self.rounded(weight).t()
            if bias is None:  # the output projection: logits are fp32
                return _product_in_fp32(rows, weight).view(*x.shape[:-1], -1)
            multiply = torch._addmm_activation if relu else torch.addmm
            return multiply(self.rounded(bias), rows, weight).view(*x.shape[:-1], -1)
        if bias is None:
            return super().linear(x, weight, bias, relu)
        output: Tensor = _Linear.apply(x, weight, bias, relu, self)  # type: ignore[no-untyped-call]
        return output

    def add_norm(self, residual: Residual, dropout: float, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Add and normalize in one pass, forward and backward."""
        return triton_rows.add_norm(residual, norm, self._dropout(dropout), self.dtype or torch.float32)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Recompute the mask in the backward pass instead of storing it."""
        return triton_rows.dropout(x, self._dropout(p))

    def rotate(self, projected: Tensor, heads: int, positions: Tensor) -> Tensor:
        """Rotate in one pass."""
        return triton_rows.rotate(projected, heads, positions)

    def attend(
        self, queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], heads: int, causal: bool = False
    ) -> Tensor:
        """Attend tile by tile, see `nmt.kernels.triton_attention`."""
        return triton_attention.attend(queries, keys_values, *rows, heads, causal)

    def attend_step(
        self, queries: Tensor, cells: Tensor, places: Places, heads: int, newest: Tensor | None = None
    ) -> Tensor:
        """Attend with `triton_search.attend_step`."""
        return triton_search.attend_step(queries, cells, places, heads, newest)

    def best_tokens(
        self, logits: Tensor, must_end: Tensor, count: int, as_log_probs: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Read the logits once, with `triton_search.best_tokens`."""
        if count > self.fused_beam + 1:
            return super().best_tokens(logits, must_end, count, as_log_probs)
        return triton_search.best_tokens(logits, must_end, count, as_log_probs)

    def search_size(self, lengths: Sequence[int], target: int, tokens: int) -> SearchSize:
        """Return one of a few sizes, since a step is recorded for each size.

        Of more than about sum(lengths) / max(lengths) slots, most would be empty while the longest sentence is
        searched.
        """
        source, target = (1 << max(4, (length - 1).bit_length()) for length in (max(lengths), target))
        # `fitting` is a power of two, halved after each OOM of this size; `needed` is 1, 4, 16, 64, 256, 512, 1024, …:
        # few small sizes, since each is recorded, and large ones of which less than half is empty
        fitting = 1 << max(1, (tokens // max(source, _SLOT)) >> self._out_of_memory[source, target]).bit_length() - 1
        exponent = (-(-sum(lengths) // max(lengths)) - 1).bit_length()
        needed = 1 << exponent + (exponent % 2 if exponent < 8 else 0)
        return SearchSize(min(needed, fitting), source, target)

    def recorder(self) -> Callable[[Callable[[], None]], None]:
        """Record a function at its second call, and replay it from then on."""
        return _Recorder(self) if self._on_gpu else super().recorder()

    def recorded(
        self, function: Callable[[Input], Result], what: str, may_record: bool = True
    ) -> Callable[[Input], tuple[Input, Result]]:
        """Record the function for each shape of rows or a batch that occurs again."""
        if not may_record or not (self._target_rows or self._on_gpu):
            return super().recorded(function, what)
        recorded, unrecorded = _Recorded(function, what, self), super().recorded(function, what)
        if self._target_rows:
            self._update = recorded
            return recorded

        def call(given: Input) -> tuple[Input, Result]:
            rows: Any = given  # of an encoder
            return (recorded if len(rows.ids) <= _MOST_RECORDED_ROWS else unrecorded)(given)

        return call

    def reuse(self, key: object, size: int, make: Callable[[], Result]) -> Result:
        """Keep the last searches with their recordings, in at most half of the memory."""
        search = self._kept.pop(key, (0, None))[1] or make()
        self._kept[key] = size + _WORKSPACES, search
        limit = self._most_kept_bytes
        while len(self._kept) > 1 and (len(self._kept) > _MOST_KEPT or sum(n for n, _ in self._kept.values()) > limit):
            if self._on_gpu:
                torch.cuda.synchronize()  # its last steps may still be computed
            del self._kept[next(iter(self._kept))]
        return cast(Result, search)

    def reduce_search_size(self, key: object, size: SearchSize) -> None:
        """Halve the slots of searches of these lengths, unless another kept search may have filled the memory."""
        if not self._kept.keys() - {key}:
            self._out_of_memory[size.source, size.target] += 1

    def logits_to_gradient(
        self, logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the logits twice and write the gradient in their place."""
        loss, nll = triton_loss.loss_and_gradient(logits, labels, smoothing, vocabulary)
        return loss, nll, logits

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum of products in fp32, without rounding it in between."""
        return _product_in_fp32(left.t(), right)

    def release_memory(self) -> bool:
        """Release kept searches and recorded updates, and record no further updates."""
        had_any = bool(self._kept)
        if self._on_gpu:
            torch.cuda.synchronize()  # a recording may still be computed
        self._kept.clear()
        return (self._update is not None and self._update.forget()) or had_any

    def round_weights(self, weights: Tensor) -> None:
        """Round all weights at once, instead of each where it is used; valid until the next step of the optimizer."""
        if self.dtype is not None:
            weights = weights.detach()
            self._rounded = weights.to(self.dtype) if self._rounded is None else self._rounded.copy_(weights)
            self._rounded_from = weights.untyped_storage().data_ptr()

    def step(self, optimizer: torch.optim.Optimizer, scale: Tensor, finite: Tensor) -> None:
        """Step the optimizer; the rounded weights are outdated afterwards."""
        super().step(optimizer, scale, finite)
        self._rounded_from = 0

    def rounded(self, x: Tensor) -> Tensor:
        """Return x rounded: as a view of the rounded weights if x is one of the weights."""
        # only where gradients are disabled, as in autograd functions: the view has no autograd history
        is_weight = not torch.is_grad_enabled() and x.untyped_storage().data_ptr() == self._rounded_from
        if self._rounded is not None and is_weight:
            return self._rounded.as_strided(x.shape, x.stride(), x.storage_offset())
        return super().rounded(x)

    def _dropout(self, p: float) -> triton_rows.Dropout:
        self.site += 1
        return triton_rows.Dropout(p, self._seed, self.site)


class _Linear(torch.autograd.Function):
    """A linear map that accumulates the gradients of weight and bias in the kernels that compute them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool, kernels: CudaKernels) -> Tensor:
        ctx.parameters = weight, bias
        x, weight, bias = map(kernels.rounded, (x, weight, bias))
        output = torch._addmm_activation(bias, x, weight.t()) if relu else torch.addmm(bias, x, weight.t())
        ctx.save_for_backward(x, weight, output if relu else None)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, weight_gradient, bias_gradient = gradients[0].contiguous(), None, None
        x, weight, output = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        parameter, bias = ctx.parameters
        if needs_bias or output is not None:
            gradient, bias_gradient = triton_rows.relu_bias_gradients(gradient, bias, output)
        if needs_weight:
            weight_gradient = _add_product(parameter.grad, gradient.t(), x)
        return gradient @ weight if needs_x else None, weight_gradient, bias_gradient, None, None


class _Recorded(Generic[Input, Result]):
    """A function of rows or a batch that is recorded in a CUDA graph for each shape that comes again.

    All graphs share one pool of memory, since one of them runs at a time.
    """

    def __init__(self, function: Callable[[Input], Result], what: str, kernels: CudaKernels) -> None:
        self._function: Callable[[Input], Result] = function
        self._what, self._kernels = what, kernels
        self._calls: Counter[object] = Counter()
        self._graphs: dict[object, tuple[torch.cuda.CUDAGraph, Tensor, Result]] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._max_graphs = _MOST_GRAPHS

    def __call__(self, given: Input) -> tuple[Input, Result]:
        """Apply the function to rows or a batch in RAM; return their copy on the device, and the result."""
        key = given.recorded_shape
        self._calls[key] += 1
        if key not in self._graphs and self._calls[key] > 1 and len(self._graphs) < self._max_graphs:
            self._record(key, given)
        if key not in self._graphs:
            given = given.copied(self._kernels.to_device)
            return given, self._function(given)
        graph, buffer, result = self._graphs[key]
        given = given.copied(lambda tensor: buffer.copy_(tensor.pin_memory(), non_blocking=True))
        graph.replay()
        return given, result

    def forget(self) -> bool:
        """Release all recordings, and make no more; return whether there were any."""
        had_any = bool(self._graphs)
        self._graphs.clear()
        self._max_graphs = 0
        return had_any

    def _record(self, key: object, given: Input) -> None:
        buffers, results, site = list[Tensor](), list[Result](), self._kernels.site

        def send(tensor: Tensor) -> Tensor:
            buffers.append(self._kernels.to_device(tensor))
            return buffers[0]

        static = given.copied(send)
        try:
            graph = _graph_of(lambda: results.append(self._function(static)), self._pool)
        except RuntimeError as error:
            self._kernels.site = site  # the caller computes the same without a recording, with the same dropout
            self.forget()
            self._kernels.problem = _reason_not_to_record(error, self._what)
            return
        self._graphs[key] = graph, buffers[0], results[0]


class _Recorder:
    """Records a function without arguments in a CUDA graph at its second call, when all kernels are compiled."""

    def __init__(self, kernels: CudaKernels) -> None:
        self._kernels, self._calls = kernels, 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, function: Callable[[], None]) -> None:
        """Call the function."""
        self._calls += 1
        if self._calls == 2:
            try:
                self._graph = _graph_of(function, None)
            except RuntimeError as error:
                if is_oom(error.__context__ or error):
                    raise  # to search again when memory has been released
                self._kernels.problem = _reason_not_to_record(error, "a search")
        (function if self._graph is None else self._graph.replay)()


def _graph_of(function: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """Record a function in a CUDA graph without computing it. Raises RuntimeError if that is not possible."""
    graph, stream, gc_was_enabled = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), gc.isenabled()
    gc.disable()  # nothing that belongs to the GPU may be released meanwhile
    try:
        # with several GPUs, a thread of the collectives queries CUDA events meanwhile
        with _own_workspace(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            function()
    except RuntimeError:
        torch.cuda.set_stream(stream)
        raise
    finally:
        if gc_was_enabled:
            gc.enable()
    return graph


@contextmanager
def _own_workspace() -> Iterator[None]:
    """Record matrix products with a workspace of cuBLAS in the memory of the recording.

    Otherwise all recordings use the workspace of the first one, which belongs to a thread and a stream and which torch
    2.13 releases when any of them is released (https://github.com/pytorch/pytorch/issues/193402).
    """
    torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]  # it cannot be made while recording
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


def _reason_not_to_record(error: RuntimeError, what: str) -> str:
    """Return a message that recording is not possible; raise the error again if it has another cause."""
    cause = error.__context__ or error
    if not is_oom(cause) and "captur" not in str(error):
        raise error
    reason = str(cause).strip().partition("\n")[0]
    return f"{what} cannot be recorded, so this is slower: {reason}"


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
