"""Requests that wait are one batch; options, errors and abandoned requests divide it."""

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from nmt.config import RuntimeSettings
from nmt.decoding.torch_engine import TorchEngine
from nmt.serving.request_queue import RequestQueue, Submission
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model

PLAIN: Any = "plain options"
OTHER: Any = "other options"


class Recorder:
    """In place of a translator: records the lines of each call, and waits in the first one."""

    scale = 1

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun, self.go = Event(), Event()

    def translate_lines(self, lines: Sequence[str], _: object) -> list[str]:
        self.calls.append(list(lines))
        self.begun.set()
        assert self.go.wait(60)
        if "bad" in lines:
            raise ValueError("bad line")
        return [line.upper() for line in lines]


def submitted(queue: RequestQueue, lines: Sequence[str], options: Any = PLAIN, abandoned: bool = False) -> Future[Any]:
    """Submit lines and return the future of their translations."""
    result, event = Future[Any](), Event()
    if abandoned:
        event.set()
    queue.submit(Submission(lines, options, event, result))
    return result


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def queue(recorder: Recorder) -> RequestQueue:
    """A queue whose thread translates a first line until `go` is set."""
    queue = RequestQueue(recorder)  # type: ignore[arg-type]
    submitted(queue, ["first"])
    assert recorder.begun.wait(60)
    return queue


def test_requests_that_wait_are_translated_in_one_call_for_equal_options(
    recorder: Recorder, queue: RequestQueue
) -> None:
    results = [
        submitted(queue, lines, options) for lines, options in ((["a", "b"], PLAIN), (["c"], OTHER), (["d"], PLAIN))
    ]
    recorder.go.set()
    assert [result.result(60) for result in results] == [["A", "B"], ["C"], ["D"]]
    assert recorder.calls == [["first"], ["a", "b", "d"], ["c"]]


def test_error_of_a_request_is_not_that_of_others_in_its_batch(recorder: Recorder, queue: RequestQueue) -> None:
    good, bad, last = submitted(queue, ["a"]), submitted(queue, ["bad"]), submitted(queue, ["z"])
    recorder.go.set()
    with pytest.raises(ValueError, match="bad line"):
        bad.result(60)
    assert (good.result(60), last.result(60)) == (["A"], ["Z"])


def test_abandoned_requests_are_not_translated_and_batches_have_a_limit(
    recorder: Recorder, queue: RequestQueue
) -> None:
    gone, large, late = submitted(queue, ["x"], abandoned=True), submitted(queue, ["a"] * 300), submitted(queue, ["b"])
    recorder.go.set()
    with pytest.raises(CancelledError):
        gone.result(60)
    assert (large.result(60), late.result(60)) == (["A"] * 300, ["B"])
    assert [len(lines) for lines in recorder.calls] == [1, 300, 1]


def test_parts_of_a_long_document_let_other_requests_pass(recorder: Recorder, queue: RequestQueue) -> None:
    lines = [f"line {number}" for number in range(100)]
    recorder.go.set()
    parts: Any = list(queue.translate_batches(lines, PLAIN, Event()))
    assert [line for part, _ in parts for line in part] == lines
    assert [line for _, done in parts for line in done] == [line.upper() for line in lines]
    assert max(len(part) for part, _ in parts) < 50


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Events of each search: whether it has begun; all wait for the second one, which tests set."""
    begun, go, search = Event(), Event(), TorchEngine.search

    def waiting(engine: TorchEngine, *rest: Any) -> Any:
        begun.set()
        assert go.wait(60)
        return search(engine, *rest)

    monkeypatch.setattr(TorchEngine, "search", waiting)
    return [begun, go]


LONG = "the cat sleeps . a dog runs . " * 200


def test_short_requests_pass_a_long_line_whose_translation_is_the_same(searches: list[Event]) -> None:
    translator = Translator(tiny_loaded_model(), RuntimeSettings(device="cpu"))
    queue, done = RequestQueue(translator), list[str]()
    options = replace(translator.options(n_best=2), alignment=True)
    long: Any = submitted(queue, [LONG], options)
    long.add_done_callback(lambda _: done.append("long"))
    assert searches[0].wait(60)
    short: Any = submitted(queue, ["a dog"], options)
    short.add_done_callback(lambda _: done.append("short"))
    searches[1].set()
    found = [long.result(60)[0], short.result(60)[0]]
    assert done == ["short", "long"]
    expected = translator.translate_lines([LONG, "a dog"], options)
    assert [(one.text, one.alignment) for one in found] == [(one.text, one.alignment) for one in expected]
    # the parts are other batches, so numbers are rounded differently
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in expected], rel=1e-5)


def test_long_line_of_an_abandoned_request_is_not_searched_to_its_end(searches: list[Event]) -> None:
    translator = Translator(tiny_loaded_model(), RuntimeSettings(device="cpu"))
    queue, result, abandoned = RequestQueue(translator), Future[Any](), Event()
    queue.submit(Submission([LONG], translator.options(), abandoned, result))
    assert searches[0].wait(60)
    abandoned.set()
    searches[1].set()
    with pytest.raises(CancelledError):
        result.result(60)
    assert submitted(queue, ["a dog"], translator.options()).result(60)[0].text is not None
