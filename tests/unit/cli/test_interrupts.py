"""SIGTERM and a closed terminal end a run as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sparkfleet.cli import signals

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_is_an_interrupt() -> None:
    signals.install_signal_handlers()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_nohup_keeps_its_meaning() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.install_signal_handlers()
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
