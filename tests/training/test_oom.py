"""Out of memory: a batch that does not fit is cut, and the update equals that of the whole batch."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.batching.batch import Batch
from nmt.errors import ConfigError
from nmt.system.device import oom_explained
from nmt.text.tokenizer import PAD
from nmt.training.progress import Adjustments
from nmt.training.step import Updater
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import PAIRS, difference, make_updater

# an epsilon that does not turn rounding errors of tiny gradients into whole steps
CALM = {"adam_epsilon": 1e-3, "length_groups": 1}


def groups_of(*groups: list[tuple[list[int], list[int]]]) -> Batch:
    batches = [batch_of(group) for group in groups]
    return Batch(
        tuple(group for batch in batches for group in batch.groups),
        sum(batch.source_tokens for batch in batches),
        sum(batch.target_tokens for batch in batches),
    )


def sentences(batch: Batch) -> list[tuple[int, ...]]:
    """Return all rows of a batch, source and target without padding, in any order."""
    return sorted(
        tuple(number for row in rows for number in row.tolist() if number != PAD)
        for group in batch.groups
        for rows in zip(group.source, group.target_in, group.target_out, strict=True)
    )


words = st.lists(st.integers(4, 11), max_size=6)


@given(st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=5), min_size=1, max_size=4), st.integers(1, 80))
def test_cut_parts_are_within_the_limit_and_complete(
    groups: list[list[tuple[list[int], list[int]]]], largest: int
) -> None:
    batch = groups_of(*groups)
    parts = batch.cut(largest)
    assert all(part.padded_tokens <= largest or part.sentences == 1 for part in parts)
    assert sorted(row for part in parts for row in sentences(part)) == sentences(batch)
    assert sum(part.source_tokens for part in parts) == batch.source_tokens
    assert sum(part.target_tokens for part in parts) == batch.target_tokens
    assert all(group.source.size(0) for part in parts for group in part.groups)
    if batch.padded_tokens <= largest:
        assert parts == [batch]


def test_cut_without_a_limit_returns_the_batch() -> None:
    batch = batch_of(PAIRS)
    assert batch.cut(None) == [batch]


@dataclass
class SmallMemory:
    """Raise OutOfMemoryError for batches of more than `limit` tokens, in the forward or in the backward pass."""

    updater: Updater
    limit: int
    backward: bool
    error: Callable[[], Exception] = torch.OutOfMemoryError
    failures: int = 0
    tried: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain = self.updater.objective.forward
        self.updater.objective.forward = self.loss  # type: ignore[method-assign]
        # one of the last weights whose gradient is known: those of the decoder have theirs by then
        next(self.updater.model.encoder.parameters()).register_hook(self.hook)

    def loss(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        self.tried.append(batch.padded_tokens)
        if not self.backward:
            self.fail_if_too_large()
        return self.plain(batch)

    def hook(self, gradient: torch.Tensor) -> None:
        if self.backward:
            self.fail_if_too_large()

    def fail_if_too_large(self) -> None:
        if self.tried[-1] > self.limit:
            self.failures += 1
            raise self.error()


def allocator() -> Exception:
    return RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: …")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, allocator])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("limit", [40, 25, 17])
def test_update_in_parts_equals_the_whole_update(limit: int, backward: bool, error: Callable[[], Exception]) -> None:
    chosen = tiny_recipe(**CALM)
    whole, small = make_updater(chosen), make_updater(chosen)
    batches = [batch_of(PAIRS[2:3]), groups_of(PAIRS[:2], PAIRS[2:])]
    memory = SmallMemory(small, limit, backward, error)
    adjustments = Adjustments()
    for step in (1, 2, 3):
        one = whole.update(batches, step)
        many = small.update(batches, step, adjustments)
        adjustments = many.adjustments
        assert one.adjustments == Adjustments()
        assert many.loss == pytest.approx(one.loss, rel=1e-5)
        assert many.likelihood == pytest.approx(one.likelihood, rel=1e-5)
        assert many.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
        assert (many.target_tokens, many.padded_target_tokens) == (one.target_tokens, one.padded_target_tokens)
        if step == 1:
            failures_of_the_first = memory.failures
    assert difference(whole, small) < 1e-5
    # a size that did not fit is not tried again
    assert memory.failures == failures_of_the_first >= 1
    assert adjustments.largest_batch is not None
    assert adjustments.largest_batch < batches[1].padded_tokens


def test_dropout_in_parts_is_a_function_of_step_and_cut() -> None:
    def weights_after(adjustments: Adjustments, limit: int) -> Updater:
        updater = make_updater(tiny_recipe(dropout=0.3, **CALM))
        SmallMemory(updater, limit, backward=True)
        updater.update([batch_of(PAIRS)], 1, adjustments)
        return updater

    failed = weights_after(Adjustments(), limit=55)
    with_known_limit = weights_after(Adjustments(largest_batch=45), limit=55)
    assert difference(failed, with_known_limit) == 0
    assert difference(failed, weights_after(Adjustments(), limit=1000)) > 0


def test_single_pair_that_does_not_fit_raises() -> None:
    updater = make_updater(tiny_recipe(**CALM))
    SmallMemory(updater, 10, backward=False)
    with pytest.raises(
        ConfigError, match=r"a single sentence pair of 12 tokens, .* memory of cpu; lower data\.filters\.max_to"
    ):
        updater.update([batch_of([([4, 5, 6, 7, 8], [5, 6, 7, 8, 9])] * 4)], 1)


def test_other_errors_are_not_out_of_memory_errors() -> None:
    updater = make_updater(tiny_recipe())
    SmallMemory(updater, 1, backward=True, error=lambda: RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        updater.update([batch_of(PAIRS)], 1)
    with pytest.raises(RuntimeError, match="shapes"), oom_explained(torch.device("cpu")):
        raise RuntimeError("shapes do not match")


def test_oom_explained_raises_config_error() -> None:
    with (
        pytest.raises(ConfigError, match=r"memory of cpu is full.*lower decode\.batch_tokens"),
        oom_explained(torch.device("cpu")),
    ):
        raise torch.OutOfMemoryError


LITTLE_MEMORY = """
import ctypes, resource
import torch
from nmt.config import ModelSettings
from nmt.training.progress import Adjustments
from tests.builders import batch_of, tiny_recipe
from tests.training.updates import PAIRS, difference, make_updater

torch.set_num_threads(1)
ctypes.CDLL(None).mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: tensors that are freed leave the address space


def bytes_of(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) * 1024


def measure(parts, limit=resource.RLIM_INFINITY):
    size = ModelSettings(encoder_layers=4, decoder_layers=1, dim=64, heads=2, feed_forward=2048, dropout=0.0)
    updater = make_updater(tiny_recipe(adam_epsilon=1e-3).model_copy(update={"model": size}))
    updater.update([batch_of(PAIRS)], 1)  # what is needed whatever the batch: moments of the optimizer
    pairs = [([4 + (i + j) % 8 for j in range(39)], [4 + (i * j) % 8 for j in range(39)]) for i in range(128)]
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    update = updater.update([batch_of(pairs)], 2, Adjustments(largest_batch=None if parts == 1 else 10240 // parts))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return updater, update

for parts in (4, 2):  # kernels for these sizes are compiled and kept
    measure(parts)
    in_parts = bytes_of("VmPeak")
plenty, update = measure(1)
whole = bytes_of("VmPeak")
little, cut_update = measure(1, (in_parts + whole) // 2)
print(whole - in_parts, cut_update.adjustments.largest_batch, difference(little, plenty), cut_update.loss / update.loss)
"""


def test_update_within_a_limited_address_space_is_split(warm_python: str) -> None:
    """The limit lies between what the whole batch needs and what its halves need, both measured in the process."""
    result = subprocess.run([warm_python, "-c", LITTLE_MEMORY], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    saved, largest, single_process, ratio = result.stdout.split()
    assert int(saved) > 100_000_000, "the limit is not between the two"
    assert int(largest) < 128 * 80
    assert float(single_process) < 1e-5
    assert float(ratio) == pytest.approx(1, rel=1e-5)
