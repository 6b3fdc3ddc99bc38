"""Batches in one process: the order of results, threads, progress and errors. Worker processes: test_workers.py."""

from collections.abc import Iterator

import pytest
import torch

from nmt.config import RuntimeSettings
from nmt.decoding.batch_runner import BatchRunner, Models
from nmt.decoding.engine import search_all
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.options import SearchOptions
from tests.builders import tiny_model

SENTENCES = [[5, 6, 7]] * 8


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param
    torch.set_num_threads(before)


def test_search_reports_progress_after_each_batch(threads: int) -> None:
    shares: list[float] = []
    # 4 tokens each with the end, a beam of 5: two sentences in a batch
    search_all(
        BatchRunner([tiny_model(1, vocabulary=10)]),
        SENTENCES,
        SearchOptions(batch_tokens=40),
        on_progress=shares.append,
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_forced_decoding_reports_progress_after_each_batch() -> None:
    shares: list[float] = []
    pairs = [(ids, ids) for ids in SENTENCES]
    force_all(BatchRunner([tiny_model(1, vocabulary=10)]), pairs, 8, on_progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_progress_is_reported_before_the_next_batch() -> None:
    events: list[object] = []

    def note(models: Models, batch: str) -> None:
        events.append(batch)

    device = torch.device("meta")  # no threads, as on a GPU
    BatchRunner([tiny_model(1).to(device)]).run(note, "ab", events.append)
    assert events == ["a", 0.5, "b", 1.0]


def test_results_are_in_order_and_each_thread_computes_alone(threads: int) -> None:
    torch_threads = []

    def double(models: Models, batch: int) -> int:
        torch_threads.append(torch.get_num_threads())
        return 2 * batch

    assert BatchRunner([tiny_model(1)]).run(double, range(20)) == list(range(0, 40, 2))
    assert set(torch_threads) == {1}


def test_error_of_a_batch_is_raised_and_the_rest_cancelled(threads: int) -> None:
    started = []

    def fail(models: Models, batch: int) -> None:
        started.append(batch)
        raise ValueError(f"batch {batch}")

    with pytest.raises(ValueError, match="batch 0"):
        BatchRunner([tiny_model(1)]).run(fail, range(1000))
    assert len(started) < 1000


def test_batches_are_computed_in_the_precision_of_the_runtime(threads: int) -> None:
    def precision(models: Models, batch: int) -> torch.dtype:
        return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    for name, expected in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        runner = BatchRunner([tiny_model(1)], RuntimeSettings(device="cpu", precision=name))  # type: ignore[arg-type]
        assert runner.run(precision, range(3)) == [expected] * 3


def test_forced_decoding_in_threads_keeps_the_attention_of_each_batch() -> None:
    """Several threads run the same model; each collects the queries of its own batch."""
    model = tiny_model(3, vocabulary=12)
    pairs = [([4 + i % 8] * (1 + i % 5), [5 + i % 7] * (1 + i % 4)) for i in range(60)]
    heads = [[(0, 0), (1, 1)]]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = force_all(BatchRunner([model]), pairs, 12, heads)
        torch.set_num_threads(4)
        together = force_all(BatchRunner([model]), pairs, 12, heads)
    finally:
        torch.set_num_threads(before)
    for (one,), (other,) in zip(alone, together, strict=True):
        torch.testing.assert_close(other.attention, one.attention)
        assert other.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)
