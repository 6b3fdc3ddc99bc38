"""Tests of worker processes, which test_workers.py runs in a process whose torch has one thread."""

import io
import json
import mmap
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import MaxLength, RuntimeSettings
from nmt.decoding.engine import SearchRequest
from nmt.decoding.options import SearchOptions
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError, ModelError, NMTError
from nmt.kernels.cpu import CpuKernels
from nmt.system.console import Console
from nmt.system.workers import WorkerPool
from nmt.translation import pipeline
from nmt.translation.pipeline import LineInput, process_lines, score_batch, translate_stream
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator
from tests.builders import SENTENCES, tiny_loaded_model, tiny_model

QUIET = Console(quiet=True)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")


SHORT = MaxLength(factor=1, extra=5)  # a random model rarely predicts the end


def _call(task: tuple[Callable[[Any], Any], Any]) -> Any:
    function, item = task
    return function(item)


def mapped(pool: WorkerPool[Any, Any], function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    return pool.map((function, item) for item in items)


def asking(count: int, answer: Callable[[list[int]], list[int]]) -> WorkerPool[int, tuple[int, int]]:
    """Return a pool whose workers ask twice for each item."""

    def ask_twice(item: int) -> tuple[int, int]:
        return pool.call(item), pool.call(-item)

    pool: WorkerPool[int, tuple[int, int]] = WorkerPool(ask_twice, count, answer=answer)
    return pool


def test_workers_ask_the_first_process_which_answers_several_at_a_time() -> None:
    together = []

    def answer(requests: list[int]) -> list[int]:
        together.append(len(requests))
        time.sleep(0.02)  # meanwhile the others ask, too
        return [10 * request for request in requests]

    assert list(asking(4, answer).map(range(20))) == [(10 * item, -10 * item) for item in range(20)]
    assert sum(together) == 40
    assert max(together) > 1


def test_error_while_answering_is_raised_and_ends_the_workers() -> None:

    def fail(requests: list[int]) -> list[int]:
        raise ConfigError("a sentence does not fit in the memory")

    pool = asking(2, fail)
    with pytest.raises(ConfigError, match="does not fit"):
        list(pool.map(range(5)))
    assert not pool._workers


def test_a_fork_that_ends_leaves_the_workers_of_its_parent() -> None:
    pool = WorkerPool(_call, 2)
    results = mapped(pool, abs, iter(range(-9, 0)))
    assert next(results) == 9
    if (child := os.fork()) == 0:
        results.close()
        os._exit(list(mapped(pool, abs, [-1, -2])) != [1, 2])
    assert os.waitpid(child, 0)[1] == 0
    assert list(results) == [8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("uses_cores", [True, False])
def test_processes_translate_as_one_does(uses_cores: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU they do all the work; beside a GPU, searches and alignments are computed by the first process only."""
    monkeypatch.setattr(CpuKernels, "uses_cores", uses_cores)
    monkeypatch.setattr(Translator, "batch_lines", 7)
    monkeypatch.setattr(pipeline, "_CHUNK_BYTES", 50)
    lines = [f"{line} {{{number}}}" for number, line in enumerate(SENTENCES * 5)]
    data = "".join(f"{line}\n" for line in lines).encode()
    loaded = tiny_loaded_model()
    with torch.no_grad():
        loaded.model.output.weight.mul_(8)  # no translations are nearly equal: sentences are searched in other batches
    alone, several = (Translator(loaded, RuntimeSettings(device="cpu"), process_count=count) for count in (1, 3))
    processes = mmap.mmap(-1, 4096)  # shared: a byte for each process, by its number modulo the size
    run = TorchEngine.run

    def recorded(engine: TorchEngine, *rest: Any) -> Any:
        processes[os.getpid() % 4096] = 1
        return run(engine, *rest)

    monkeypatch.setattr(TorchEngine, "run", recorded)
    outputs = []
    for translator in (alone, several):
        processes[:] = bytes(4096)
        options = replace(translator.options(beam=2), alignment=True)
        output = io.BytesIO()
        translate_stream(translator, LineInput(io.BytesIO(data), 7), StreamOutput(output), options, True, QUIET)
        score = partial(score_batch, translator, options, True)
        given = LineInput(io.BytesIO(data), 7, parallel=lines)
        process_lines("scoring", given, StreamOutput(output), score, QUIET, translator)
        outputs.append(
            [*output.getvalue().decode().splitlines(), *(one.as_json() for one in translator.translate(lines, options))]
        )
    assert len(outputs[0]) == 3 * len(lines)
    for theirs, ours in zip(*outputs, strict=True):
        _check_close(json.loads(ours), json.loads(theirs))
    assert bool(processes[os.getpid() % 4096]) is not uses_cores
    assert (sum(processes[:]) > 1) is uses_cores
    assert isinstance(several.engine, TorchEngine), "only workers have a remote engine"


def _check_close(found: Any, expected: Any) -> None:
    """Compare JSON data, numbers with a tolerance."""
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=2e-3)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            _check_close(found[key], value)
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            _check_close(one, other)
    else:
        assert found == expected


def test_searches_with_equal_options_are_one() -> None:
    engine = TorchEngine.of_models([tiny_model(5, vocabulary=40)], RuntimeSettings(device="cpu"))
    greedy, wide = (SearchOptions(beam=beam, max_length=SHORT) for beam in (1, 3))
    ids = [[4 + (number + i) % 30 for i in range(1 + number % 8)] for number in range(9)]
    requests = [
        SearchRequest(ids[:4], greedy, None),
        SearchRequest(ids[4:6], wide, [[5], []]),
        SearchRequest(ids[6:], greedy, [[], [7, 8], []]),
        SearchRequest([], wide, None),
    ]
    expected = [engine.search(*request) for request in requests]
    searched: list[int] = []
    search = engine.search
    engine.search = lambda ids, *rest: searched.append(len(ids)) or search(ids, *rest)  # type: ignore[method-assign, func-returns-value]
    for found, alone in zip(engine.answer(requests), expected, strict=True):
        assert [[one.tokens for one in best] for best in found] == [[one.tokens for one in best] for best in alone]
    assert searched == [7, 2]


def _fail(item: int) -> int:
    raise ConfigError(f"item {item}: too much")


class _TwoArguments(Exception):
    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")


class _OfUsers(NMTError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; do something")


class _NotPicklable(Exception):
    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


ERRORS = (_TwoArguments("here", "wrong"), _NotPicklable(), _OfUsers("wrong"), KeyError("key"), OSError(2, "none", "f"))


def _raise(item: int) -> int:
    raise ERRORS[item]


@pytest.mark.parametrize("item", range(len(ERRORS)))
def test_error_that_pickling_would_change_keeps_its_message(item: int) -> None:
    error, pool = ERRORS[item], WorkerPool(_call, 1)
    with pytest.raises(Exception, match=re.escape(str(error))) as caught:
        list(mapped(pool, _raise, [item]))
    assert str(caught.value) in (str(error), f"{type(error).__name__}: {error}")
    assert isinstance(caught.value, NMTError) == isinstance(error, NMTError)
    assert "_raise" in caught.value.__notes__[0]


def _die(item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def _double(item: int) -> int:
    return 2 * item


def test_errors_are_raised_and_the_next_call_works() -> None:
    pool = WorkerPool(_call, 2)
    with pytest.raises(ConfigError, match="item 0: too much"):
        list(mapped(pool, _fail, range(5)))
    assert list(mapped(pool, _double, range(5))) == [0, 2, 4, 6, 8]


def test_killed_worker_raises() -> None:
    pool = WorkerPool(_call, 2)
    with pytest.raises(ModelError, match="a worker process died"):
        list(mapped(pool, _die, range(8)))
    assert list(mapped(pool, _double, range(5))) == [0, 2, 4, 6, 8]


def test_worker_killed_while_it_waits_raises() -> None:
    pool = WorkerPool(_call, 2)

    def items() -> Iterator[int]:
        yield from range(4)
        for process in pool._workers:
            os.kill(process, signal.SIGKILL)
        yield from [0] * 100_000

    with pytest.raises(ModelError, match="a worker process died"):
        list(mapped(pool, _double, items()))


def _take_turns(item: int) -> int:
    time.sleep(0.001 * (item * 7 % 5))
    return item


def test_results_are_in_order_and_may_be_large() -> None:
    pool = WorkerPool(_call, 3)
    assert list(mapped(pool, _take_turns, range(60))) == list(range(60))
    large = [bytes([i]) * 3_000_000 for i in range(6)]
    assert list(mapped(pool, _same, large)) == large


def _same(item: bytes) -> bytes:
    return item


def _cannot_be_pickled(item: int) -> object:
    return lambda: item


def test_result_that_cannot_be_pickled_raises() -> None:
    pool = WorkerPool(_call, 2)
    with pytest.raises((AttributeError, pickle.PicklingError), match="pickle") as failure:
        list(mapped(pool, _cannot_be_pickled, range(3)))
    assert "_run_task" in failure.value.__notes__[0]


def _stop(item: int) -> int:
    if item:
        os.kill(os.getpid(), signal.SIGSTOP)
    return os.getpid()


def _sleep(item: int) -> int:
    time.sleep(10**6 if item else 0)
    return os.getpid()


@pytest.mark.parametrize("function", [_stop, _sleep])
def test_interruption_kills_workers_that_are_stopped_or_busy(function: Callable[[int], int]) -> None:
    results = mapped(WorkerPool(_call, 2), function, [0, 0, 1, 1])
    worker = next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.parametrize("taken", [1, 4])
def test_workers_end_with_the_call(taken: int) -> None:
    results = mapped(WorkerPool(_call, 2), _name, range(4))
    processes = {next(results) for _ in range(taken)}
    del results
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


_FIRST = """
import os, time
from tests.system.workers_alone import WorkerPool, _call, _name, mapped
print(os.getpid())
for name in mapped(WorkerPool(_call, 2), _name, range(4)):
    print(name, flush=True)
time.sleep(10**6)
"""


def _name(item: int) -> int:
    time.sleep(0.1)
    return os.getpid()


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    command = [os.environ["PYTHON_EXEC"], "-c", _FIRST]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        parent, *workers = (int(first.stdout.readline()) for _ in range(5))
        assert parent not in workers
        first.kill()
    while any(Path(f"/proc/{worker}").exists() and not _is_zombie(worker) for worker in workers):
        time.sleep(0.05)


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
