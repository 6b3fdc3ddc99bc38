"""The first signal is recorded, a second Ctrl-C raises; afterwards the previous handlers are restored."""

import os
import signal
from types import FrameType

import pytest

from nmt.training.signals import Interruption

STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", STOPPING)
def test_first_signal_is_recorded_and_second_interrupt_raises(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert interruption.signal is None
        os.kill(os.getpid(), number)
        assert interruption.signal == number
        # schedulers often send several signals, which must not interrupt the saving
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert interruption.signal == number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) is before


def test_second_interrupt_has_the_previous_handler() -> None:
    """As that of a command, which gives a third Ctrl-C another handler."""
    received: list[int] = []

    def third(number: int, frame: FrameType | None) -> None:
        received.append(3)

    def previous(number: int, frame: FrameType | None) -> None:
        received.append(2)
        signal.signal(signal.SIGINT, third)

    before = signal.signal(signal.SIGINT, previous)
    try:
        with Interruption():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is third
    finally:
        signal.signal(signal.SIGINT, before)
    assert received == [2, 3]


def test_handlers_are_restored_after_an_exception() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), Interruption():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigusr1_requests_saving_only() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        assert interruption.save_requested
        assert interruption.signal is None


def test_ignored_signals_stay_ignored() -> None:
    """As under nohup, which ignores SIGHUP for the program that it starts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGHUP)
            assert interruption.signal is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_cancels_long_work() -> None:
    done: list[int] = []

    def work(interruption: Interruption, number: int) -> str:
        done.append(1)
        signal.raise_signal(number)
        done.append(2)
        return "result"

    with Interruption() as interruption:
        assert interruption.unless_stopped(lambda: work(interruption, signal.SIGUSR1)) == "result"
        assert interruption.unless_stopped(lambda: work(interruption, signal.SIGTERM)) is None
        assert done == [1, 2, 1]
        # work that starts after the signal is not cancelled
        assert interruption.unless_stopped(lambda: work(interruption, signal.SIGTERM)) == "result"
        with pytest.raises(ZeroDivisionError):
            interruption.unless_stopped(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGINT, "saving after this step; press Ctrl-C again to stop at once"),
        (signal.SIGTERM, "SIGTERM: saving after this step; press Ctrl-C to stop at once"),
    ],
)
def test_first_signal_is_answered_at_once(number: signal.Signals, message: str) -> None:
    messages: list[str] = []
    with Interruption(messages.append):
        signal.raise_signal(signal.SIGUSR1)
        assert messages == []
        signal.raise_signal(number)
        assert messages == [message]
        signal.raise_signal(signal.SIGTERM)
        assert messages == [message]
    with Interruption(messages.append) as interruption:
        interruption.unless_stopped(lambda: signal.raise_signal(number))
    assert "stopping and saving; press Ctrl-C" in messages[1]
