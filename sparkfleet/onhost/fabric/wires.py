"""Find who is on the wire of each netdev, and the address by which this login came in; read-only.

Request: ``{"netdevs": [NAME...]}``. Answer: ``{"ends": {NETDEV: [MAC...]}, "addresses": {NETDEV:
{MAC: ADDRESS}}, "server": ADDRESS}``: who answers a ping to all IPv6 nodes, and the address of this
host in SSH_CONNECTION, "" where the login is not by SSH.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from sparkfleet.onhost.fabric.neighbours import find_neighbours


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


if __name__ == "__main__":
    main()
