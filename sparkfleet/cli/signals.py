"""Signals that stop a run as Ctrl-C does: SIGTERM, and a closed terminal."""

from __future__ import annotations

import os
import signal
from types import FrameType


def install_signal_handlers() -> None:
    """Raise KeyboardInterrupt on either signal; under nohup a closed terminal is ignored."""
    signal.signal(signal.SIGTERM, _raise_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _handle_hangup)


def _raise_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _handle_hangup(_signal: int, _frame: FrameType | None) -> None:
    """Continue without the terminal, where every write would fail, so that the rollback completes.

    The kernel sends the signal, and often the shell once more. A handler and not SIG_IGN, which
    programs that are started now would inherit.
    """
    signal.signal(signal.SIGHUP, _ignore_signal)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    raise KeyboardInterrupt


def _ignore_signal(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing."""
