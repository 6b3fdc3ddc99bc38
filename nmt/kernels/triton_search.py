"""A step of a search on a GPU, in Triton: attention of one query of each hypothesis, the best tokens, the next state.

B sentences, K hypotheses of each, N = B·K rows, n hypotheses to return, P positions, D width, H heads, V vocabulary, C
candidates of a row.
Scores, exponentials and sums are fp32. Exponentials are powers of two, with the factor log2(e) in the scale.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.kernels.native_search import SearchRules
from nmt.kernels.reference import Places
from nmt.text.tokenizer import BOS, EOS

BLOCK = 16  # cells that a program reads at a time
SOURCE_BLOCK, SOURCE_WARPS = 32, 2  # of the kernel that reads source cells once for all hypotheses of a sentence
MOST_TOGETHER = 32  # the most hypotheses for that kernel, which keeps their sums in registers
WIDEST = 128  # wider heads get smaller blocks of the source, which fit in the shared memory of any GPU
LANES, LANES_OF_WARP = 1024, 128  # columns of logits that a program reads at a time
HISTORY_BLOCK = 64  # positions of hypotheses that a program copies at a time
LOWEST = tl.constexpr(-1e30)  # less than any logit, and finite: infinity minus infinity is not a number


def attend_step(queries: Tensor, cells: Tensor, places: Places, heads: int, newest: Tensor | None) -> Tensor:
    """Return what `Kernels.attend_step` does, for rows in all places; queries and newest are columns of one matrix."""
    rows, dim = queries.shape
    assert rows == cells.size(1) * places.beam, "a row for each place"
    assert newest is None or newest.stride(0) == queries.stride(0), "one stride for both"
    output = torch.empty(rows, dim, dtype=queries.dtype, device=queries.device)
    width = dim // heads
    constants = {
        "BEAM": places.beam,
        "D": dim,
        "HEAD_WIDTH": width,
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "SCALE_2": width**-0.5 * math.log2(math.e),
    }
    strides = queries.stride(0), *cells.stride()[:3]
    if places.ancestors is None and 1 < places.beam <= MOST_TOGETHER:
        _attend_together_kernel[(cells.size(1), heads)](
            queries, cells, places.lengths, output, *strides[:3], **constants,
            ROWS=max(16, triton.next_power_of_2(places.beam)),
            BLOCK=SOURCE_BLOCK if constants["WIDTH"] <= WIDEST else 16, num_warps=SOURCE_WARPS,
        )  # fmt: skip
        return output
    ancestors_stride = 0 if places.ancestors is None else places.ancestors.stride(1)
    _attend_kernel[(rows, heads)](
        queries, newest, cells, places.ancestors, places.lengths, output, *strides, ancestors_stride, **constants,
        BLOCK=BLOCK, num_warps=1,
    )  # fmt: skip
    return output


@triton.jit  # type: ignore[untyped-decorator]
def _attend_kernel(
    queries: tl.tensor, newest: tl.tensor, cells: tl.tensor, ancestors: tl.tensor, lengths: tl.tensor,
    output: tl.tensor, query_stride: tl.tensor, position_stride: tl.tensor, sentence_stride: tl.tensor,
    place_stride: tl.tensor, row_stride: tl.tensor, BEAM: tl.constexpr, D: tl.constexpr, HEAD_WIDTH: tl.constexpr,
    WIDTH: tl.constexpr, SCALE_2: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Attend from one query in one head; write the newest key and value, used by this program only, to their cell."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * HEAD_WIDTH + tl.arange(0, WIDTH)
    inside = tl.arange(0, WIDTH) < HEAD_WIDTH
    sentence = row // BEAM
    count = tl.load(lengths + sentence).to(tl.int32)
    sentence_cells = cells + sentence * sentence_stride
    q = tl.load(queries + row * query_stride + column, mask=inside, other=0.0).to(tl.float32) * SCALE_2
    largest = LOWEST
    total = 0.0
    weighted = tl.zeros([WIDTH], tl.float32)
    if newest is not None:
        count -= 1
        key = tl.load(newest + row * query_stride + column, mask=inside, other=0.0)
        value = tl.load(newest + row * query_stride + D + column, mask=inside, other=0.0)
        newest_cell = sentence_cells + count.to(tl.int64) * position_stride + (row % BEAM) * place_stride + column
        tl.store(newest_cell, key.to(cells.dtype.element_ty), mask=inside)
        tl.store(newest_cell + D, value.to(cells.dtype.element_ty), mask=inside)
        largest = tl.sum(q * key.to(tl.float32), 0)
        total = 1.0
        weighted = value.to(tl.float32)
    for start in range(0, count, BLOCK):
        position = start + tl.arange(0, BLOCK)
        visible = position < count
        shift = position.to(tl.int64) * position_stride
        if ancestors is not None:
            shift += tl.load(ancestors + row * row_stride + position, mask=visible, other=0).to(tl.int64) * place_stride
        mask = visible[:, None] & inside[None, :]
        cell = sentence_cells + shift[:, None] + column[None, :]
        k = tl.load(cell, mask=mask, other=0.0).to(tl.float32)
        v = tl.load(cell + D, mask=mask, other=0.0).to(tl.float32)
        scores = tl.where(visible, tl.sum(k * q[None, :], 1), LOWEST)
        new_largest = tl.maximum(largest, tl.max(scores, 0))
        weights = tl.where(visible, tl.exp2(scores - new_largest), 0.0)
        correction = tl.exp2(largest - new_largest)
        weighted = weighted * correction + tl.sum(weights[:, None] * v, 0)
        total = total * correction + tl.sum(weights, 0)
        largest = new_largest
    tl.store(output + row * D + column, (weighted / total).to(output.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _attend_together_kernel(
    queries: tl.tensor, cells: tl.tensor, lengths: tl.tensor, output: tl.tensor, query_stride: tl.tensor,
    position_stride: tl.tensor, sentence_stride: tl.tensor, BEAM: tl.constexpr, D: tl.constexpr,
    HEAD_WIDTH: tl.constexpr, WIDTH: tl.constexpr, SCALE_2: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Attend from the queries of all hypotheses of a sentence in one head to the same cells, which are read once."""
    sentence = tl.program_id(0).to(tl.int64)
    count = tl.load(lengths + sentence).to(tl.int32)
    place = tl.arange(0, ROWS)
    row = sentence * BEAM + place
    column = tl.program_id(1) * HEAD_WIDTH + tl.arange(0, WIDTH)
    inside = tl.arange(0, WIDTH) < HEAD_WIDTH
    row_mask = (place < BEAM)[:, None] & inside[None, :]
    q = tl.load(queries + row[:, None] * query_stride + column[None, :], mask=row_mask, other=0.0)
    largest = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    weighted = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, count, BLOCK):
        position = start + tl.arange(0, BLOCK)
        visible = position < count
        mask = visible[:, None] & inside[None, :]
        cell = cells + sentence * sentence_stride + position.to(tl.int64)[:, None] * position_stride + column[None, :]
        k = tl.load(cell, mask=mask, other=0.0)
        v = tl.load(cell + D, mask=mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * SCALE_2
        scores = tl.where(visible[None, :], scores, LOWEST)
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.where(visible[None, :], tl.exp2(scores - new_largest[:, None]), 0.0)
        correction = tl.exp2(largest - new_largest)
        product = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        weighted = weighted * correction[:, None] + product
        total = total * correction + tl.sum(weights, 1)
        largest = new_largest
    result = (weighted / total[:, None]).to(output.dtype.element_ty)
    tl.store(output + row[:, None] * D + column[None, :], result, mask=row_mask)


def best_tokens(logits: Tensor, must_end: Tensor, count: int, as_log_probs: bool) -> tuple[Tensor, Tensor]:
    """Return what `Kernels.best_tokens` does, in one pass over the logits (N, V).

    The columns of a row are divided among lanes, and the maxima of lanes are compared first: the C largest numbers
    are in the C lanes with the largest maxima, because every number in another lane is at most as large as C others.
    """
    rows, vocabulary = logits.shape
    best = torch.empty(rows, count, dtype=torch.float32, device=logits.device)
    tokens = torch.empty(rows, count, dtype=torch.int64, device=logits.device)
    lanes = max(16, min(LANES, triton.next_power_of_2(triton.cdiv(vocabulary, 8))))
    lanes = max(lanes, triton.next_power_of_2(count))
    _best_kernel[(rows,)](
        logits, must_end, best, tokens, logits.stride(0), vocabulary, COUNT=count,
        CHOSEN=triton.next_power_of_2(count), LANES=lanes,
        IN_LANE=triton.next_power_of_2(triton.cdiv(vocabulary, lanes)), AS_LOG_PROBS=as_log_probs, FIRST_GENERATED=EOS,
        num_warps=max(1, min(8, lanes // LANES_OF_WARP)),
    )  # fmt: skip
    return best, tokens


@triton.jit  # type: ignore[untyped-decorator]
def _best_kernel(
    logits: tl.tensor, must_end: tl.tensor, best: tl.tensor, tokens: tl.tensor, stride: tl.tensor,
    vocabulary: tl.tensor, COUNT: tl.constexpr, CHOSEN: tl.constexpr, LANES: tl.constexpr, IN_LANE: tl.constexpr,
    AS_LOG_PROBS: tl.constexpr, FIRST_GENERATED: tl.constexpr,
) -> None:  # fmt: skip
    """Write the best tokens of one row; tokens before FIRST_GENERATED, `</s>`, are never generated.

    All results are NaN if one logit of the row is NaN.
    """
    row = tl.program_id(0).to(tl.int64)
    last = vocabulary
    if tl.load(must_end + row):
        last = FIRST_GENERATED + 1
    numbers = logits + row * stride
    lane = tl.arange(0, LANES)
    maxima = tl.full([LANES], LOWEST, tl.float32)
    largest = tl.full([LANES], LOWEST, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for start in range(0, vocabulary, LANES):
        column = start + lane
        number = tl.load(numbers + column, mask=column < vocabulary, other=LOWEST).to(tl.float32)
        number = tl.where(number < LOWEST, LOWEST, number)
        maxima = tl.maximum(maxima, tl.where((column >= FIRST_GENERATED) & (column < last), number, LOWEST))
        if AS_LOG_PROBS:
            new_largest = tl.maximum(largest, number)
            total = total * tl.exp(largest - new_largest) + tl.exp(number - new_largest)
            largest = new_largest
        else:
            total += number - number  # NaN if the number is NaN, else 0
    normalizer = tl.sum(total, 0)
    if AS_LOG_PROBS:
        row_maximum = tl.max(largest, 0)
        normalizer = row_maximum + tl.log(tl.sum(total * tl.exp(largest - row_maximum), 0))
    chosen = tl.arange(0, CHOSEN)
    lanes = chosen
    for i in tl.static_range(COUNT):
        place = tl.argmax(maxima, 0)
        lanes = tl.where(chosen == i, place, lanes)
        maxima = tl.where(lane == place, float("-inf"), maxima)
    candidate = tl.reshape(lanes[:, None] + tl.arange(0, IN_LANE)[None, :] * LANES, [CHOSEN * IN_LANE])
    valid = tl.reshape((chosen < COUNT)[:, None] & (tl.arange(0, IN_LANE) >= 0)[None, :], [CHOSEN * IN_LANE])
    valid = valid & (candidate >= FIRST_GENERATED) & (candidate < last)
    number = tl.load(numbers + candidate, mask=valid, other=float("-inf")).to(tl.float32)
    candidate_index = tl.arange(0, CHOSEN * IN_LANE)
    for i in tl.static_range(COUNT):
        place = tl.argmax(number, 0)
        token = tl.sum(tl.where(candidate_index == place, candidate, 0), 0)
        tl.store(best + row * COUNT + i, tl.max(number, 0) - normalizer)
        tl.store(tokens + row * COUNT + i, tl.minimum(token, vocabulary - 1).to(tl.int64))
        number = tl.where(candidate_index == place, float("-inf"), number)


def advance(beams: Any, log_probs: Tensor, tokens: Tensor, penalties: Tensor, rules: SearchRules) -> None:
    """Change the state of a beam search as `nmt.decoding.beam.advance` does, for the best tokens (B, K, C).

    Finished hypotheses are in any order; positions after their last tokens are not written.
    """
    margin = None if math.isinf(rules.margin) else rules.margin
    count, beam, width = tokens.shape
    positions, best = beams.history.size(3), beams.finished.size(1)
    _advance_kernel[(count,)](
        log_probs, tokens, penalties, beams.log_probs, beams.tokens, beams.lengths, beams.limits,
        beams.history, beams.finished, beams.finished_log_probs, beams.finished_lengths, beams.finished_tokens,
        positions, K=beam, C=width, N=best, PLACES=triton.next_power_of_2(beam),
        CANDIDATES=triton.next_power_of_2(beam * width),
        BEST=triton.next_power_of_2(best), MARGIN=margin, GROWTH_DIVISOR=rules.growth_divisor, BOS=BOS, EOS=EOS,
        BLOCK=HISTORY_BLOCK, num_warps=1,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _advance_kernel(
    next_log_probs: tl.tensor, next_tokens: tl.tensor, penalties: tl.tensor, log_probs: tl.tensor, tokens: tl.tensor,
    lengths: tl.tensor, limits: tl.tensor, history: tl.tensor, finished: tl.tensor, finished_log_probs: tl.tensor,
    finished_lengths: tl.tensor, finished_tokens: tl.tensor, positions: tl.tensor, K: tl.constexpr, C: tl.constexpr,
    N: tl.constexpr, PLACES: tl.constexpr, CANDIDATES: tl.constexpr, BEST: tl.constexpr, MARGIN: tl.constexpr,
    GROWTH_DIVISOR: tl.constexpr, BOS: tl.constexpr, EOS: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Change the state of one sentence."""
    sentence = tl.program_id(0)
    length = tl.load(lengths + sentence).to(tl.int32)
    place = tl.arange(0, PLACES)
    best = tl.arange(0, BEST)
    candidate = tl.arange(0, CANDIDATES)
    previous, total, is_damaged = _sums(log_probs + sentence * K, next_log_probs + sentence * K * C, candidate, K, C)
    token = tl.load(next_tokens + sentence * K * C + candidate, mask=candidate < K * C, other=0).to(tl.int32)
    if tl.max(previous, 0) > float("-inf"):
        histories = history + sentence.to(tl.int64) * K * 2 * positions
        penalty = tl.load(penalties + length)
        scores = tl.load(finished + sentence * N + best, mask=best < N, other=float("inf"))
        if is_damaged:
            tl.store(finished + sentence * N + best, float("-inf"), mask=best < N)
            tl.store(finished_lengths + sentence * N + best, 0, mask=best < N)
        new_log_probs = tl.full([PLACES], float("-inf"), tl.float32)
        new_tokens = tl.full([PLACES], BOS, tl.int32)
        parents = tl.zeros([PLACES], tl.int32)
        extended = 0
        lowest_log_prob = float("-inf")
        for rank in tl.static_range(2 * K):
            log_prob = tl.max(total, 0)
            best_index = tl.argmax(total, 0)
            newest = tl.sum(tl.where(candidate == best_index, token, 0), 0)
            total = tl.where(candidate == best_index, float("-inf"), total)
            if MARGIN is not None and rank == N - 1:
                lowest_log_prob = log_prob - MARGIN
            normalized = log_prob / penalty
            if rank < K and newest == EOS and normalized > tl.min(scores, 0):
                row = sentence.to(tl.int64) * N + tl.argmin(scores, 0)
                scores = tl.where(best == tl.argmin(scores, 0), normalized, scores)
                tl.store(finished + row, normalized)
                tl.store(finished_log_probs + row, log_prob)
                tl.store(finished_lengths + row, length.to(tl.int64))
                _copy(finished_tokens + row * positions, histories + (best_index // C) * 2 * positions, length, BLOCK)
            if newest != EOS and log_prob > float("-inf"):
                is_next = place == extended
                new_log_probs = tl.where(is_next, log_prob, new_log_probs)
                new_tokens = tl.where(is_next, newest, new_tokens)
                parents = tl.where(is_next, best_index // C, parents)
                extended += 1
        longest = tl.load(limits + sentence).to(tl.int32)
        if MARGIN is not None:
            longest = tl.minimum(longest, length + length // GROWTH_DIVISOR + 1)
        bound = tl.min(scores, 0) * tl.load(penalties + longest)
        is_kept = (new_log_probs > bound) & (new_log_probs >= lowest_log_prob) & (place < K)
        new_log_probs = tl.where(is_kept, new_log_probs, float("-inf"))
        new_tokens = tl.where(is_kept, new_tokens, BOS)
        tl.store(log_probs + sentence * K + place, new_log_probs, mask=place < K)
        tl.store(tokens + sentence * K + place, new_tokens.to(tl.int64), mask=place < K)
        if tl.max(new_log_probs, 0) > float("-inf"):
            tl.store(lengths + sentence, (length + 1).to(tl.int64))
            _continue(histories, parents, new_tokens, positions, length, K, PLACES, BLOCK)


@triton.jit  # type: ignore[untyped-decorator]
def _sums(
    log_probs: tl.tensor, next_log_probs: tl.tensor, candidate: tl.tensor, K: tl.constexpr, C: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return for each candidate the log-probability of its parent, and the sum with that of the next token.

    If a sum is NaN, all sums are -inf, and the third result is True.
    """
    valid = candidate < K * C
    previous = tl.load(log_probs + candidate // C, mask=valid, other=float("-inf"))
    total = previous + tl.load(next_log_probs + candidate, mask=valid, other=0.0)
    total = tl.where(previous > float("-inf"), total, float("-inf"))
    is_damaged = tl.max((total != total).to(tl.int32), 0) > 0
    return previous, tl.where(is_damaged, float("-inf"), total), is_damaged


@triton.jit  # type: ignore[untyped-decorator]
def _copy(to: tl.tensor, source: tl.tensor, length: tl.tensor, BLOCK: tl.constexpr) -> None:
    """Copy `length` numbers from `source` to `to`."""
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        tl.store(to + position, tl.load(source + position, mask=position < length), mask=position < length)


@triton.jit  # type: ignore[untyped-decorator]
def _continue(
    history: tl.tensor, parents: tl.tensor, tokens: tl.tensor, positions: tl.tensor, length: tl.tensor,
    K: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Replace the history (K, 2, P) of each place by that of its parent, up to `length`, and add the newest token."""
    place = tl.arange(0, PLACES)
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        mask = (place < K)[:, None] & (position < length)[None, :]
        old = history + parents[:, None] * 2 * positions + position[None, :]
        new = history + place[:, None] * 2 * positions + position[None, :]
        old_tokens = tl.load(old, mask=mask)
        old_places = tl.load(old + positions, mask=mask)
        tl.debug_barrier()  # all are read before one is written
        tl.store(new, old_tokens, mask=mask)
        tl.store(new + positions, old_places, mask=mask)
    newest = history + place * 2 * positions + length
    fits = (place < K) & (length < positions)
    tl.store(newest, tokens, mask=fits)
    tl.store(newest + positions, place, mask=fits)
