"""The first signal is noted, the second ends; afterwards signals mean what they meant before."""

import os
import signal

import pytest

from nmt.learning.interruption import polite_interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_the_second_raises(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with polite_interruption() as interruption:
        assert interruption.signal is None
        os.kill(os.getpid(), number)
        assert interruption.signal == number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) is before


def test_handlers_come_back_after_an_exception() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), polite_interruption():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) is before
