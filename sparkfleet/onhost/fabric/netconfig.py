"""Look at this host's network configuration, or change it with a timed undo; runs as root.

Request: ``{"do": ...}`` and what that action needs:

- look: answer with the files of netplan and NetworkManager, routes of all tables, addresses
- try (``id``, ``seconds``, ``management``, ``files``, ``rails``, ``sysctls``, ``apply``, ``undo``,
  ``keep``): put a change into effect, in ``/run`` only. A process of its own restores what was
  before after `seconds`, unless the change is confirmed by then; it needs no connection.
- confirm (``id``): write the change to ``/etc``; it is an error if the timer was faster
- undo (``id``): restore what was before at once
- restore (``management``): restore what was before the first confirmed change
- renew (``rails``, ``management``): remove the IPv4 addresses of these netdevs, and add them again
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.network_change import (
    FOLDER,
    OUTCOME,
    PENDING,
    SAVED,
    hold_change_lock,
    keep_change,
    load_pending,
    prepare_change,
    read_sysctls,
    restore_saved,
    try_change,
    undo_change,
    write_file,
)
from sparkfleet.onhost.shared.rail_state import (
    find_differences,
    read_rail_state,
    run_network_tool,
    set_rails,
)
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text

PATTERNS = (
    "/etc/netplan/*.yaml",
    "/etc/NetworkManager/system-connections/*",
    "/etc/sysctl.d/90-arp.conf",
)
SYSCTLS = ("net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce")
DEVICES = ["nmcli", "-t", "-f", "DEVICE,STATE,CON-UUID", "device"]
ARMING = 5.0  # seconds for the timer to start
FORGETTING = 3.0  # seconds for GIDs to follow an address
TICK = 0.1  # seconds between two looks of the timer
MAX_DESCRIPTORS = 1024
LOGIN_HINT = "set ansible_host to an address on Ethernet or Wi-Fi; nothing was changed"
SCOPE = "sparkfleet-links-revert.scope"


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    handlers = {
        "look": answer_look,
        "try": answer_try,
        "confirm": answer_confirm,
        "undo": answer_undo,
        "restore": answer_restore,
        "renew": answer_renew,
    }
    try:
        answer = handlers[request["do"]](request)
    except OSError as error:
        answer = build_os_error_answer(error, FOLDER)
    print(json.dumps(answer))


def answer_look(_request: dict[str, Any]) -> dict[str, Any]:
    """Return what configures the network of this host, and what it is."""
    files = {}
    for pattern in PATTERNS:
        for path in sorted(Path("/").glob(pattern[1:])):
            text = read_optional_text(path) if path.is_file() else None
            if text is not None:
                files[str(path)] = text
    saved = load_json_object(read_optional_text(SAVED))
    return {
        "files": files,
        "netplan": find_root_tool("netplan") is not None,
        "devices": read_tool(DEVICES),
        "routes": read_tool(["ip", "-j", "route", "show", "table", "all"]),
        "addresses": read_tool(["ip", "-j", "addr"]),
        "sysctls": read_sysctls(list(SYSCTLS)),
        "pending": load_pending().get("id", ""),
        "outcome": load_json_object(read_optional_text(OUTCOME)),
        "saved": {
            "files": {name: file and file["text"] for name, file in saved["files"].items()},
            "rails": {name: format_rail(own) for name, own in saved["rails"].items()},
        }
        if saved
        else None,
    }


def format_rail(own: dict[str, Any]) -> str:
    """Return the address and the MTU of a rail as text."""
    return f"{', '.join(own['addresses']) or 'no address'}, MTU {own['mtu']}"


def find_root_tool(name: str) -> str | None:
    """Return the path of a program, also where sudo has a short PATH."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


def read_tool(argv: list[str]) -> str:
    """Return what a program prints, "" where it is missing or fails."""
    path = find_root_tool(argv[0])
    if path is None:
        return ""
    done = subprocess.run(
        [path, *argv[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return "" if done.returncode else done.stdout


def answer_try(request: dict[str, Any]) -> dict[str, Any]:
    """Try a change, with a timer that undoes it."""
    with hold_change_lock():
        problem = find_obstacle(request)
        if problem:
            return {"error": problem, "hint": "nothing was changed; run {task:links.plan} again"}
        change = prepare_change(request)
        write_file(PENDING, json.dumps(change))
        if not arm_timer(change["id"], request["seconds"]):
            PENDING.unlink()
            return {"error": "the timer did not start; nothing was changed", "hint": "see dmesg"}
        try:
            failed = try_change(change)
        except OSError as error:
            failed = f"{error.filename}: {error.strerror}"
        if failed:
            left = undo_change(change, failed)
            return {"failed": failed, "left": left}
    return {"failed": "", "left": []}


def find_obstacle(request: dict[str, Any]) -> str:
    """Return why a change may not be tried, "" if it may."""
    pending = load_pending()
    if pending:
        return f"change {pending['id']} is waiting to be confirmed"
    for file in request["files"]:
        if read_optional_text(Path(file["path"])) != file["before"]:
            return f"{file['path']} was changed since it was read"
    return find_login_on_rails(list(request["rails"]), request["management"])


def find_login_on_rails(rails: list[str], management: str) -> str:
    """Return which rail carries the login or the default route, "" if none does."""
    for link in json.loads(read_tool(["ip", "-j", "addr"]) or "[]"):
        addresses = [entry.get("local") for entry in link.get("addr_info", ())]
        if link.get("ifname") in rails and management and management in addresses:
            return f"{link['ifname']} has {management}, through which this host is reached"
    routes = json.loads(read_tool(["ip", "-j", "route", "show", "default"]) or "[]")
    for route in routes:
        if route.get("dev") in rails:
            return f"the default route is on {route['dev']}"
    return ""


def arm_timer(change_id: str, seconds: float) -> bool:
    """Start the process that undoes a change; return whether it runs."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            run_timer(change_id, seconds, writer)
        finally:
            os._exit(0)
    os.close(writer)
    os.wait()
    ready = select.select([reader], [], [], ARMING)[0]
    started = bool(ready) and bool(os.read(reader, 1))
    os.close(reader)
    return started


def run_timer(change_id: str, seconds: float, pipe: int) -> None:
    """Leave the login's session, wait, and undo the change unless it is confirmed."""
    os.setsid()
    if os.fork():
        os._exit(0)
    deadline = time.monotonic() + seconds
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.chdir("/")
    os.write(pipe, b"1")
    os.closerange(3, MAX_DESCRIPTORS)  # the lock too, which this process takes itself later
    join_scope()
    while load_pending().get("id") == change_id:
        if time.monotonic() >= deadline:
            with hold_change_lock():
                change = load_pending()
                if change.get("id") == change_id:
                    undo_change(change, f"not confirmed within {seconds:g} s")
            return
        time.sleep(TICK)


def join_scope() -> None:
    """Move this process out of the login's session, whose end may end all of it, to systemd."""
    if not Path("/run/systemd/system").is_dir():
        return
    manager = "org.freedesktop.systemd1"
    call = ["busctl", "call", manager, "/org/freedesktop/systemd1", f"{manager}.Manager"]
    unit = ["StartTransientUnit", "ssa(sv)a(sa(sv))", SCOPE, "fail"]
    run_network_tool([*call, *unit, "1", "PIDs", "au", "1", str(os.getpid()), "0"])


def answer_confirm(request: dict[str, Any]) -> dict[str, Any]:
    """Keep the change that is tried."""
    with hold_change_lock():
        change = load_pending()
        if change.get("id") != request["id"]:
            why = load_json_object(read_optional_text(OUTCOME)).get("why", "no such change")
            return {"error": f"the change was undone on this host: {why}", "hint": "try again"}
        keep_change(change)
    return {"kept": [file["path"] for file in change["files"]]}


def answer_undo(request: dict[str, Any]) -> dict[str, Any]:
    """Undo the change that is tried; one that was undone before is reported as such."""
    with hold_change_lock():
        change = load_pending()
        if change.get("id") == request["id"]:
            return {"why": "undone", "left": undo_change(change, "undone")}
    outcome = load_json_object(read_optional_text(OUTCOME))
    if outcome.get("id") == request["id"]:
        return {"why": outcome["why"], "left": outcome["left"]}
    return {"why": "", "left": []}


def answer_restore(request: dict[str, Any]) -> dict[str, Any]:
    """Restore what was before the first change."""
    with hold_change_lock():
        pending = load_pending()
        if pending:
            return {
                "error": f"change {pending['id']} is waiting to be confirmed",
                "hint": "wait until it is confirmed or undone",
            }
        saved = load_json_object(read_optional_text(SAVED))
        if not saved:
            return {"left": []}
        problem = find_login_on_rails(list(saved["rails"]), request["management"])
        if problem:
            return {"error": problem, "hint": LOGIN_HINT}
        return {"left": restore_saved(saved)}


def wait_without_gids(addresses: list[str]) -> None:
    """Wait until no table of GIDs has an address, for a moment: the driver follows the kernel."""
    octets = [socket.inet_aton(address.partition("/")[0]).hex() for address in addresses]
    ends = tuple(f"ffff:{text[:4]}:{text[4:]}" for text in octets)
    deadline = time.monotonic() + FORGETTING
    while time.monotonic() < deadline:
        if not any(gid.endswith(ends) for gid in list_gids()):
            return
        time.sleep(TICK)


def list_gids() -> list[str]:
    """Return the GIDs of all ports."""
    gids = []
    for file in Path("/sys/class/infiniband").glob("*/ports/*/gids/*"):
        with contextlib.suppress(OSError):
            gids.append(file.read_text().strip())
    return gids


def answer_renew(request: dict[str, Any]) -> dict[str, Any]:
    """Remove and add the addresses of netdevs, so that the kernel makes their GIDs anew."""
    with hold_change_lock():
        problem = find_login_on_rails(request["rails"], request["management"])
        if problem:
            return {"error": problem, "hint": LOGIN_HINT}
        state = read_rail_state(request["rails"])
        for netdev, own in state.items():
            set_rails({netdev: {**own, "addresses": []}})
            wait_without_gids(own["addresses"])
            set_rails({netdev: own})
        return {"left": find_differences(state)}


if __name__ == "__main__":
    main()
