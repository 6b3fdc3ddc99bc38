"""The operations of the model in plain torch, as in the paper: the reference for the faster implementations.

B sentences, S source length, T target length, D width, H heads, d = D/H, V vocabulary; N and M rows of two sides of a
batch, I inputs and O outputs of a product. In decoding: K hypotheses per sentence, N hypotheses in all, P positions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.batching.batch import Batch, Rows
from nmt.text.tokenizer import EOS, PAD

Precision = Literal["fp32", "bf16", "int8"]
# The residual stream x and the output y of the previous sublayer, which is not added to x yet, both (..., D).
Residual = tuple[Tensor, Tensor | None]
KeysValues = tuple[Tensor, Tensor]  # keys and values (B, H, S, d)
Attention = Callable[[Tensor, KeysValues, Tensor | None], Tensor]  # of queries, keys and values, and mask; (B, H, T, d)
Result = TypeVar("Result")
Input = TypeVar("Input", Rows, Batch)
_BLOCK = 64  # columns of a block; `largest` first compares the maxima of blocks


@dataclass
class Places:
    """The places of hypotheses in a search, K for each of B sentences, and the cells that each hypothesis attends to.

    A cell holds the key and the value of one token. The token that a hypothesis has at a position is in the cell of the
    place where the hypothesis, or its ancestor, was at that position: each cell is written once and never moved.
    """

    rows: Tensor  # (N) indices, among all B·K places, of those whose next tokens are computed
    lengths: Tensor  # (B) cells that a hypothesis of the sentence attends to, the newest included
    ancestors: Tensor | None  # (B, K, P) the place whose cell is read at each position; None: one for all
    beam: int  # K
    longest: int  # an upper bound of `lengths`


class SearchSize(NamedTuple):
    """How many sentences a search computes at a time, and the positions that each may have."""

    slots: int
    source: int
    target: int


class Kernels:
    """The operations of the model on one device in one precision; this class implements them in plain torch.

    In bf16, the operands and results of products are rounded to bf16; their sums and everything else are fp32.
    """

    name = "torch"
    encoder_multiple: ClassVar[int] = 1  # a search encodes a multiple of so many rows
    # lowest and highest share of the speed of matrix products that training reaches
    utilization: ClassVar[tuple[float, float]] = (0.05, 0.4)
    chunk_logits: ClassVar[int] = 2**25  # logits in memory at a time in training
    uses_cores: ClassVar[bool] = False  # whether batches are searched in parallel, one on each core
    search_scale: int = 1  # the factor on the default `decode.batch_tokens`
    # Steps of a search between two fetches of its state. With 1, each step computes only active hypotheses. With more,
    # each step computes all places, and the host reads the result of a fetch after it has dispatched the next steps.
    steps_per_fetch: ClassVar[int] = 1
    fused_beam: ClassVar[int] = 0  # the widest beam for which `advance`, see `nmt.decoding.beam`, is one kernel
    advance: ClassVar[Callable[..., None]]
    fuses_step: ClassVar[bool] = False  # whether the optimizer divides gradients and skips updates in one kernel

    def __init__(self, device: torch.device, precision: Precision = "fp32") -> None:
        self.device, self.precision = device, precision
        self.dtype = torch.bfloat16 if precision == "bf16" else None  # of the operands of products; None: unchanged
        self.problem: str | None = None  # why faster kernels cannot be used here

    @property
    def kind(self) -> str:
        """The kind of device."""
        return self.device.type

    @property
    def description(self) -> str:
        """The implementation, the kind of device, and the precision."""
        return f"{self.name}, {self.kind}, {self.precision}"

    def sizes(self, source: int, target: int) -> tuple[int, int]:
        """Return the numbers of rows to which a batch of this size is filled, see `nmt.batching.batch.assemble`."""
        return max(1, source), max(1, target)

    def to_device(self, tensor: Tensor) -> Tensor:
        """Return a tensor on the device."""
        return tensor.to(self.device)

    def fetch(self, *tensors: Tensor) -> Callable[[], list[Tensor]]:
        """Return a function that waits for the device to compute these tensors, and returns copies in RAM."""
        return lambda: [tensor.cpu() for tensor in tensors]

    def seed(self, seed: int) -> None:
        """Set the seed of the random numbers of the next forward pass."""
        torch.manual_seed(seed)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        """Return x (..., I) times the transpose of weight (O, I), plus bias (O); then ReLU if `relu`."""
        x, weight, bias = self.rounded(x), self.rounded(weight), None if bias is None else self.rounded(bias)
        output = F.linear(x, weight, bias)
        return output.relu() if relu else output

    def add_norm(self, residual: Residual, dropout: float, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Return z = x + dropout(y) for a residual (x, y), and the layer norm of z, all (..., D)."""
        z = self.add(residual, dropout)
        return z, F.layer_norm(z, z.shape[-1:], norm.weight, norm.bias, norm.eps)

    def add(self, residual: Residual, dropout: float) -> Tensor:
        """Return x + dropout(y) for a residual (x, y); x if y is None."""
        x, y = residual
        if y is None:
            return x
        return x + self.dropout(y, dropout) if dropout else x + y

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Set each number to 0 with probability p, and divide the others by 1 - p."""
        return F.dropout(x, p)

    def rotate(self, projected: Tensor, heads: int, positions: Tensor) -> Tensor:
        """Rotate queries and keys by angles proportional to their positions (N) (Su et al. 2021).

        The product of a query at position m and a key at position n then depends only on their contents and on n - m.
        Queries, keys and values are side by side (N, 3D); values are not rotated, and a cache holds rotated keys.
        """
        dim = projected.size(1) // 3
        angles = rotary_angles(positions, dim // heads, projected)
        queries_keys = projected[:, : 2 * dim].view(-1, 2 * heads, dim // heads)  # (N, 2H, d)
        rotated = rotate_pairs(queries_keys, angles.unsqueeze(1)).flatten(1)
        return torch.cat([rotated, projected[:, 2 * dim :]], dim=-1)

    def attend(
        self, queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], heads: int, causal: bool = False
    ) -> Tensor:
        """Return softmax(Q K^T / sqrt(d)) V of each sentence (N, D), for queries (N, D) of rows[0].

        Keys and values of rows[1] are side by side (M, 2D); if None, queries are (N, 3D) with all three side by side.
        A query attends to the keys of its sentence, with `causal` to those up to its own position.
        """
        return attend_by_grid(queries, keys_values, rows, heads, _dot_product(causal))

    def attend_step(
        self, queries: Tensor, cells: Tensor, places: Places, heads: int, newest: Tensor | None = None
    ) -> Tensor:
        """Return softmax(Q K^T / sqrt(d)) V (N, D) of the one query (N, D) of each hypothesis.

        Cells are (P, B, K, 2D), those of the source (P, B, 1, 2D), keys and values side by side; cells to which
        `places` does not refer may hold anything. The newest keys and values (N, 2D) are first written to their cells.
        """
        return attend_step_by_gather(queries, cells, places, heads, newest, _dot_product())

    def best_tokens(
        self, logits: Tensor, must_end: Tensor, count: int, as_log_probs: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of the C best next tokens of each row, best first, and the tokens, (N, C).

        Logits (N, V) may be overwritten. Padding, `<unk>` and `<s>` are never generated, and rows that must end (N)
        generate only `</s>`; the probability of excluded tokens is not redistributed. Only the best tokens are
        normalised: log p = logit - normalizer has the order of the logits. Unless `as_log_probs`, logits are returned.
        """
        logits = logits.float()
        # log p of the first token is its logit - normalizer; log_softmax reads the logits twice, logsumexp four times
        normalizer = logits[:, :1] - logits.log_softmax(-1)[:, :1] if as_log_probs else 0.0
        # forcing `</s>` takes a pass over the logits; a host that waits for each step skips it if no row must end
        forbid(logits, must_end if self.steps_per_fetch > 1 or bool(must_end.any()) else None)
        best, tokens = largest(logits, count)
        return best - normalizer, tokens

    def search_size(self, lengths: Sequence[int], target: int, tokens: int) -> SearchSize:
        """Return the size of a search of sentences.

        `lengths` are those of the sources, `target` is that of the longest output; all slots together have space for
        about `tokens` source tokens.
        """
        return SearchSize(len(lengths), max(lengths), target)

    def recorder(self) -> Callable[[Callable[[], None]], None]:
        """Return a function that calls its argument, always the same one; it may record a call and replay it later."""
        return lambda function: function()

    def recorded(
        self, function: Callable[[Input], Result], what: str, may_record: bool = True
    ) -> Callable[[Input], tuple[Input, Result]]:
        """Return a function that copies rows or a batch to the device, and returns the copy and `function` of it.

        It may record `function` for each shape and replay the recording; then each call overwrites the last result.
        """

        def call(rows_or_batch: Input) -> tuple[Input, Result]:
            rows_or_batch = rows_or_batch.copied(self.to_device)
            return rows_or_batch, function(rows_or_batch)

        return call

    def reuse(self, key: object, size: int, make: Callable[[], Result]) -> Result:
        """Return the search that was made for the same key, if its recordings can be replayed; else make one.

        `size` is that of its cache, in bytes.
        """
        return make()

    def reduce_search_size(self, key: object, size: SearchSize) -> None:
        """Make `search_size` return fewer slots for these lengths, after the search of a key ran out of memory."""

    def loss(
        self,
        hidden: Tensor,
        matrix: Tensor,
        labels: Tensor,
        smoothing: float,
        vocabulary: int,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of the smoothed losses (differentiable) and of the negative log-likelihoods, in nats.

        Hidden states are (N, D), the output matrix (V and padding, D), its bias (V and padding), labels (N); rows whose
        label is padding do not count. The target distribution q gives 1-ε to the label, nothing to padding, and
        ε/(V-2) to each of the other V-2 tokens (Szegedy et al. 2016, with padding excluded as in implementations of
        Vaswani et al. 2017). The loss is the cross-entropy -Σ q log p, which is the Kullback-Leibler divergence up to a
        constant, the entropy of q.
        """
        if not torch.is_grad_enabled():  # the function would compute gradients also then
            matrix, bias = matrix.detach(), None if bias is None else bias.detach()
        losses: tuple[Tensor, Tensor] = ProjectedLoss.apply(  # type: ignore[no-untyped-call]
            hidden, matrix, bias, (labels, smoothing, vocabulary), self
        )
        return losses

    def logits_to_gradient(
        self, logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums of losses and of nll, and the gradient p - q of the logits (n, V and padding).

        With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_label - e (Σ z - z_pad).
        """
        logits, labels, share = logits.float(), labels.long().unsqueeze(1), smoothing / (vocabulary - 2)
        logit_sum = logits[:, :vocabulary].sum(1) - logits[:, PAD]
        logits[:, vocabulary:] = float("-inf")
        label_logits, largest = logits.gather(1, labels).squeeze(1), logits.amax(1)
        probabilities = torch.softmax(logits, dim=1, out=logits)
        # p of the largest logit is at least 1/V, so its logarithm is finite where that of p_label may not be
        normalizer = largest - probabilities.amax(1).log()
        loss = normalizer - (1 - smoothing - share) * label_logits - share * logit_sum
        without_loss = (labels == PAD).squeeze(1)
        gradient = probabilities.sub_(share)
        gradient[:, PAD] += share
        gradient[:, vocabulary:] = 0
        gradient.scatter_add_(1, labels, gradient.new_full(labels.shape, share + smoothing - 1))
        gradient.mul_(~without_loss.unsqueeze(1))  # indexing by a mask would synchronize with the device
        loss, nll = (x.masked_fill(without_loss, 0).sum() for x in (loss, normalizer - label_logits))
        return loss, nll, gradient

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return x (N, I) times the transpose of weight (O, I); not differentiable."""
        return F.linear(x, weight)

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum over rows of left (N, O) times right (N, I), (O, I) in fp32; not differentiable."""
        return (left.t() @ right).float()

    def round_weights(self, weights: Tensor) -> None:
        """Prepare the trained weights, all in one tensor, for the products of an update."""

    def release_memory(self) -> bool:
        """Release recordings and kept searches; return whether there were any."""
        return False

    def step(self, optimizer: torch.optim.Optimizer, scale: Tensor, finite: Tensor) -> None:
        """Divide all gradients by a scale and step the optimizer, unless the results of the update are not finite."""
        if self.fuses_step:
            # The fused optimizer divides gradients by grad_scale, and changes nothing if found_inf is 1, as used by
            # torch.amp.GradScaler. So the host does not wait for a device, and the division takes no pass of its own.
            optimizer.grad_scale = scale  # type: ignore[attr-defined]
            optimizer.found_inf = 1 - finite.float()  # type: ignore[attr-defined]
            optimizer.step()
        elif finite:
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    weight.grad.div_(scale)
            optimizer.step()

    def rounded(self, x: Tensor) -> Tensor:
        """Return an operand of a product in the type of this precision."""
        return x if self.dtype is None else x.to(self.dtype)


PLAIN = Kernels(torch.device("cpu"))


class ProjectedLoss(torch.autograd.Function):
    """The loss together with the output projection.

    The logits are the largest tensor of a training step by far, V numbers a token. So they are computed, turned into
    their gradient p - q, and used for the gradients of hidden states and matrix a chunk at a time, in the forward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        options: tuple[Tensor, float, int],
        kernels: Kernels,
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of losses and of nll; hidden (N, D), matrix (V and padding, D), see `Kernels.loss`."""
        labels, smoothing, vocabulary = options
        loss, nll = (hidden.new_zeros((), dtype=torch.float32) for _ in range(2))
        needs_hidden, needs_matrix, needs_bias = ctx.needs_input_grad[:3]  # a frozen matrix needs none
        bias_gradient = torch.zeros_like(bias) if bias is not None and needs_bias else None
        hidden, matrix = kernels.rounded(hidden), kernels.rounded(matrix)
        hidden_gradients, matrix_gradient = [], None
        rows = max(1, kernels.chunk_logits // len(matrix))
        chunk = rows // 64 * 64 or rows  # oneDNN compiles a product for each number of rows
        for part, part_labels in zip(torch.split(hidden, chunk), torch.split(labels, chunk), strict=True):
            logits = kernels.product(part, matrix)
            logits = logits if bias is None else logits.add_(bias)
            part_loss, part_nll, gradient = kernels.logits_to_gradient(logits, part_labels, smoothing, vocabulary)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0, dtype=bias_gradient.dtype)
            loss, nll, gradient = loss + part_loss, nll + part_nll, gradient.to(hidden.dtype)
            if needs_hidden:
                hidden_gradients.append(kernels.product(gradient, matrix.t()))
            if needs_matrix:
                outer = kernels.outer_product(gradient, part)
                matrix_gradient = outer if matrix_gradient is None else matrix_gradient.add_(outer)
        ctx.save_for_backward(torch.cat(hidden_gradients) if needs_hidden else None, matrix_gradient, bias_gradient)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients."""
        scaled = (None if saved is None else saved * gradients[0] for saved in ctx.saved_tensors)
        return (*scaled, None, None)


def rotary_angles(positions: Tensor, width: int, like: Tensor) -> Tensor:
    """Return the angles (N, d/2): m · 10000^(-2i/d) for the i-th pair of numbers at position m."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    pairs = torch.arange(0, width, 2, dtype=dtype, device=like.device)
    return torch.outer(positions.to(dtype), torch.exp(pairs * (-math.log(10000.0) / width)))


def rotate_pairs(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of numbers (x_i, x_{i + d/2}) of x (…, d) in its plane by its angle (…, d/2).

    The paper pairs neighbours; which numbers make a pair is only the order in which the projection computes them.
    """
    cosine, sine = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)


def attend_by_grid(
    queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], heads: int, attention: Attention
) -> Tensor:
    """Return what `Kernels.attend` does, for any attention, a padded length group at a time."""
    if keys_values is None:
        queries, keys_values = torch.split(queries, [queries.size(1) // 3, 2 * queries.size(1) // 3], dim=1)
    outputs = []
    groups = zip(*(side.length_groups() for side in rows), strict=True)
    for (query_slice, query_rows), (key_slice, key_rows) in groups:
        if not len(query_rows.ids) or not len(key_rows.ids):
            outputs.append(0 * queries[query_slice])  # for filler sentences, which have no keys or no queries
            continue
        mask = key_rows.mask()
        if mask is not None:
            # a sentence without keys attends to its padding, which is 0: a softmax over no keys would be NaN
            mask = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        (q,) = split_heads(query_rows.grid(queries[query_slice]), 1, heads)
        k, v = split_heads(key_rows.grid(keys_values[key_slice]), 2, heads)
        attended = attention(q, (k, v), mask)
        outputs.append(query_rows.from_grid(merge_heads(attended)))
    return torch.cat(outputs)


def attend_step_by_gather(
    queries: Tensor, cells: Tensor, places: Places, heads: int, newest: Tensor | None, attention: Attention
) -> Tensor:
    """Return what `Kernels.attend_step` does, for any attention."""
    sentences = places.rows // places.beam  # (N)
    lengths = places.lengths[sentences].unsqueeze(1)
    if newest is not None:
        cells[lengths[:, 0] - 1, sentences, places.rows % places.beam] = newest.to(cells.dtype)
    positions = torch.arange(places.longest, device=cells.device)
    if places.ancestors is None:
        read_places = torch.zeros_like(sentences).unsqueeze(1)
    else:
        read_places = places.ancestors[:, :, : places.longest].flatten(0, 1)[places.rows]  # (N, P)
    visible = positions < lengths  # (N, P)
    gathered = cells[positions, sentences.unsqueeze(1), read_places.long()]  # (N, P, 2D)
    keys, values = split_heads(gathered.masked_fill(~visible.unsqueeze(2), 0), 2, heads)
    (q,) = split_heads(queries.unsqueeze(1), 1, heads)
    return merge_heads(attention(q, (keys, values), visible[:, None, None])).flatten(0, 1)


def forbid(logits: Tensor, must_end: Tensor | None) -> None:
    """Set the logits (N, V) of padding, `<unk>` and `<s>`, and in rows that must end (N) all but `</s>`, to -inf."""
    logits[:, :EOS] = float("-inf")  # those three precede `</s>`
    if must_end is not None:
        logits[:, EOS + 1 :].masked_fill_(must_end.unsqueeze(1), float("-inf"))


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the C largest of each row of numbers (N, V), in descending order, and their columns: (N, C) each.

    In two steps, which is faster: the C largest numbers are in the C blocks with the largest maxima, because every
    number in another block is at most as large as C others.
    """
    rows, vocabulary = numbers.shape
    blocks = vocabulary // _BLOCK
    if vocabulary % _BLOCK or blocks < count:
        top = numbers.topk(min(count, vocabulary))
        return top.values, top.indices
    by_block = numbers.view(rows, blocks, _BLOCK)
    best_blocks = by_block.amax(-1).topk(count).indices  # (N, C)
    starts = torch.arange(rows, device=numbers.device).unsqueeze(1) * blocks
    candidates = by_block.flatten(0, 1).index_select(0, (starts + best_blocks).flatten()).view(rows, -1)  # (N, C·64)
    values, candidate_columns = candidates.topk(count)
    return values, best_blocks.gather(1, candidate_columns // _BLOCK) * _BLOCK + candidate_columns % _BLOCK


def split_heads(x: Tensor, count: int, heads: int) -> tuple[Tensor, ...]:
    """Return views (B, H, T, d) of `count` vectors side by side (B, T, count·D)."""
    return x.view(*x.shape[:2], count, heads, x.size(2) // (count * heads)).permute(2, 0, 3, 1, 4).unbind(0)


def parts_of(queries: Tensor, keys_values: Tensor | None) -> tuple[Tensor, ...]:
    """Return queries (N, D), keys (M, D) and values (M, D) as column ranges, see `Kernels.attend`."""
    return queries.chunk(3, 1) if keys_values is None else (queries, *keys_values.chunk(2, 1))


def merge_heads(x: Tensor) -> Tensor:
    """Return (B, H, T, d) as (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def _dot_product(causal: bool = False) -> Attention:
    def attention(q: Tensor, keys_values: KeysValues, mask: Tensor | None) -> Tensor:
        # causal attention does not reach the padding behind a sentence
        keys, values = (x.to(q.dtype) for x in keys_values)
        return F.scaled_dot_product_attention(q, keys, values, None if causal else mask, is_causal=causal)

    return attention
