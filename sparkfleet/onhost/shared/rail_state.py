"""The addresses and MTUs of network interfaces: read, compared and set with `ip`."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

STEADY = 0.5  # seconds without a difference: what manages the interface may still be at work
TICK = 0.1  # seconds between two looks
TOOL_TIMEOUT = 30.0  # seconds for one command


def run_network_tool(argv: list[str]) -> str:
    """Run a command and return why it failed, "" if it did not."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(argv)}: {error}"
    message = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
    return f"{' '.join(argv)}: {message}" if done.returncode else ""


def read_rail_state(netdevs: list[str]) -> dict[str, dict[str, Any]]:
    """Return the IPv4 addresses and the MTU of each netdev that exists.

    `addresses` are those of someone's choice; `dynamic` those that a service gave, and
    ``169.254.0.0/16``, which nothing but that service can restore.
    """
    done = subprocess.run(
        ["ip", "-j", "addr"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    state = {}
    for link in json.loads(done.stdout):
        if link.get("ifname") in netdevs:
            entries = [entry for entry in link["addr_info"] if entry.get("family") == "inet"]
            static: list[str] = []
            dynamic: list[str] = []
            for entry in entries:
                given = entry.get("dynamic") or entry["local"].startswith("169.254.")
                (dynamic if given else static).append(f"{entry['local']}/{entry['prefixlen']}")
            state[link["ifname"]] = {
                "addresses": static,
                "dynamic": dynamic,
                "mtu": link["mtu"],
                "brief": [
                    f"{entry['local']}/{entry['prefixlen']}"
                    for entry in entries
                    if "broadcast" not in entry
                ],
            }
    return state


def find_differences(target: dict[str, dict[str, Any]]) -> list[str]:
    """Return each way in which a netdev is not as in `target`."""
    now = read_rail_state(list(target))
    found = []
    for netdev, wanted in sorted(target.items()):
        if netdev not in now:
            found.append(f"{netdev} does not exist")
            continue
        have = now[netdev]
        if have["mtu"] != wanted["mtu"]:
            found.append(f"{netdev} has MTU {have['mtu']}, not {wanted['mtu']}")
        if have["addresses"] != wanted["addresses"]:
            mine = ", ".join(have["addresses"]) or "no address"
            found.append(f"{netdev} has {mine}, not {', '.join(wanted['addresses']) or 'none'}")
    return found


def set_rails(target: dict[str, dict[str, Any]]) -> None:
    """Give each netdev the addresses and the MTU of `target`."""
    now = read_rail_state(list(target))
    for netdev, wanted in target.items():
        if netdev not in now:
            continue
        for address in now[netdev]["addresses"]:
            if address not in wanted["addresses"]:
                run_network_tool(["ip", "addr", "del", address, "dev", netdev])
        if now[netdev]["mtu"] != wanted["mtu"]:
            run_network_tool(["ip", "link", "set", netdev, "mtu", str(wanted["mtu"])])
        for address in wanted["addresses"]:
            if address not in now[netdev]["addresses"]:
                brief = address in wanted.get("brief", [])
                words = [] if brief else ["brd", "+"]
                run_network_tool(["ip", "addr", "add", address, *words, "dev", netdev])


def remove_other_addresses(target: dict[str, dict[str, Any]]) -> None:
    """Remove the addresses that netdevs of `target` have besides those that they are to have."""
    for netdev, own in read_rail_state(list(target)).items():
        if set(own["addresses"]) > set(target[netdev]["addresses"]):
            set_rails({netdev: {**own, "addresses": target[netdev]["addresses"]}})


def wait_for_rails(target: dict[str, dict[str, Any]], patience: float, *, force: bool) -> list[str]:
    """Wait until the netdevs are as in `target` and stay so; return the differences that are left.

    With `force` they are set, for what manages an interface does not always remove its address
    when its file is removed. Takes `patience` seconds at most.
    """
    deadline = time.monotonic() + patience
    steady_since = time.monotonic()
    while True:
        left = find_differences(target)
        now = time.monotonic()
        if left:
            if now > deadline:
                return left
            if force:
                set_rails(target)
            elif now > deadline - patience / 2:
                remove_other_addresses(target)
            steady_since = time.monotonic()
        elif now - steady_since >= STEADY or now > deadline:
            return []
        time.sleep(TICK)
