"""A rank: it lives as long as its parent, unless it lingers."""

from __future__ import annotations

import os
import signal
import sys
import time

from . import child


def main() -> None:
    """Wait for the end of the parent."""
    if child.request()["linger"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while sys.stdin.buffer.read(1):
            pass
        time.sleep(100_000)
    while os.read(0, 4096):
        pass


main()
