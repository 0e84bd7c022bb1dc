"""Find who is on the wire of each netdev, and the address by which this login came in; read-only.

Request: ``{"netdevs": [NAME...]}``. Answer: ``{"ends": {NETDEV: [MAC...]}, "addresses": {NETDEV:
{MAC: ADDRESS}}, "server": ADDRESS}``: who answers a ping to all IPv6 nodes, and the address of this
host in SSH_CONNECTION, "" where the login is not by SSH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from sparkfleet.onhost.fabric.reach import read_wire_addresses

TRIES = 3  # pings, a second each, until one is answered
SETTLING = 5.0  # s for an address to become usable: IPv6 first asks whether another host has it
TICK = 0.1  # s


def main() -> None:
    """Answer the request on standard input."""
    netdevs = json.loads(sys.stdin.buffer.readline())["netdevs"]
    with ThreadPoolExecutor(max(len(netdevs), 1)) as pool:
        found = list(pool.map(find_neighbours, netdevs))
    login = os.environ.get("SSH_CONNECTION", "").split()
    server = login[2] if len(login) > 2 else ""
    addresses = dict(zip(netdevs, found))
    ends = {netdev: list(by_mac) for netdev, by_mac in addresses.items()}
    print(json.dumps({"ends": ends, "addresses": addresses, "server": server}))


def find_neighbours(netdev: str) -> dict[str, str]:
    """Return IPv6 by MAC addresses on the wire of `netdev`, also where hosts have just booted."""
    deadline = time.monotonic() + SETTLING
    while has_tentative_address(netdev) and time.monotonic() < deadline:
        time.sleep(TICK)
    found: dict[str, str] = {}
    for _ in range(TRIES):
        found = read_wire_addresses(netdev) or found
        if found:
            break
    return found


def has_tentative_address(netdev: str) -> bool:
    """Return whether an IPv6 address of `netdev` cannot be used yet, as just after a boot."""
    argv = ("ip", "-6", "-o", "addr", "show", "dev", netdev, "tentative")
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return False
    return bool(done.stdout.strip()) and b"dadfailed" not in done.stdout


if __name__ == "__main__":
    main()
