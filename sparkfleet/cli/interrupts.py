"""What ends a run as Ctrl-C does: SIGTERM, and the end of the terminal."""

from __future__ import annotations

import os
import signal
from types import FrameType


def listen() -> None:
    """Raise KeyboardInterrupt at both; where nohup was asked for, the terminal may go."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hang_up)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _hang_up(_signal: int, _frame: FrameType | None) -> None:
    """Go on without the terminal, which fails whoever writes to it, and undo undisturbed.

    The kernel tells of its end, and often the shell once more. A handler and not SIG_IGN, which
    programs that are started now would inherit.
    """
    signal.signal(signal.SIGHUP, _unheeded)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    raise KeyboardInterrupt


def _unheeded(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing."""
