"""SIGTERM and a closed terminal end a run as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sparkfleet import __main__
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


def test_an_interrupt_while_modules_are_imported_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "_run_command_line", interrupt)
    try:
        code = __main__._run_for_exit_code("sparkfleet")
    except KeyboardInterrupt:
        pytest.fail("it was left to the interpreter, and would end pytest too")
    assert code == 130
    assert capsys.readouterr().err == "interrupted\n"
