"""Ports of this machine for tests that run next to each other."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PORTS = range(20_000, 29_000)  # below those that the kernel gives to a process that asks for any
_numbers = itertools.count(os.getpid() * 100)


def reserve_port() -> int:
    """Return a port that is free, and that no process gets unless it asks for this one."""
    while True:
        port = PORTS[next(_numbers) % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port on which nothing listens, and which nothing else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
