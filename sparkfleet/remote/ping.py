"""Whether a machine that SSH does not reach is there at all."""

from __future__ import annotations

import subprocess

PATIENCE = 2.0  # seconds
STARVED = (
    "it may be out of memory and recover by itself; otherwise power it off and on, then check "
    "guard_loading and gpu-memory-utilization"
)


def suggest_recovery(address: str) -> str:
    """Return what to do about a host whose SSH fell silent."""
    if answers_ping(address):
        return f"it answers a ping: {STARVED}"
    return f"is it up? try: ping {address}"


def answers_ping(address: str) -> bool:
    """Whether `address` answers a ping in time; False also where this machine has no `ping`.

    A host that is starved of memory still does, while its SSH is silent.
    """
    try:
        done = subprocess.run(
            ["ping", "-c", "1", address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
