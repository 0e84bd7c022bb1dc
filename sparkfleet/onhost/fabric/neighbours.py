"""Ask who is on the wire of a netdev, also where it just got its carrier; read-only."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path

from sparkfleet.onhost.fabric.ping import run_ping

TRIES = 3  # pings, a second each, until another host answers
SETTLING = 5.0  # seconds until an address is usable: IPv6 first asks whether another host has it
TICK = 0.1  # seconds


def find_neighbours(netdev: str) -> dict[str, str]:
    """Return IPv6 by MAC addresses on the wire of `netdev`, this host's other netdevs included.

    For some seconds after a boot, or after a cable was plugged in, neither this host nor a peer has
    an address that it may use.
    """
    deadline = time.monotonic() + SETTLING
    while has_tentative_address(netdev) and time.monotonic() < deadline:
        time.sleep(TICK)
    own = read_own_macs()
    found: dict[str, str] = {}
    for _ in range(TRIES):
        found = read_wire_addresses(netdev) or found
        if found.keys() - own:
            break
    return found


def has_tentative_address(netdev: str) -> bool:
    """Return whether an IPv6 address of `netdev` cannot be used yet."""
    argv = ("ip", "-6", "-o", "addr", "show", "dev", netdev, "tentative")
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return False
    return bool(done.stdout.strip()) and b"dadfailed" not in done.stdout


def read_own_macs() -> set[str]:
    """Return the MAC addresses of this host."""
    macs = set()
    for file in Path("/sys/class/net").glob("*/address"):
        with contextlib.suppress(OSError):
            macs.add(file.read_text().strip())
    return macs


def read_wire_addresses(netdev: str) -> dict[str, str]:
    """Return the IPv6 address of each MAC address that answers a ping to all nodes of the wire."""
    run_ping(netdev, f"ff02::1%{netdev}", "-6", "-w", "1", count=2)
    argv = ("ip", "-6", "-json", "neigh", "show", "dev", netdev)
    with contextlib.suppress(OSError, ValueError):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        entries = json.loads(done.stdout)
        return {entry["lladdr"]: entry["dst"] for entry in entries if "lladdr" in entry}
    return {}
