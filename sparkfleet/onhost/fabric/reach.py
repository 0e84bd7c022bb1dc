"""Prove what peers reach of this host and what it reaches of them, while all run this at once.

1. Request: ``{"token": TEXT, "listen": [[ADDRESS, PORT]...], "hcas": [NAME...], "timeout": S}``.
   Port 0 asks for any free one. Answer: ``{"listening": [[ADDRESS, PORT, ACTUAL]...],
   "busy": [[ADDRESS, PORT, WHY]...]}``. A caller that sends a line gets the HMAC of that line
   under `token`: proof that an address is this host's.
2. Request: ``{"connect": [CALL...], "ping": [PING...]}``. Both name the ``netdev`` and its ``own``
   address, the peer's ``address``, and ``pin``: whether the socket is bound to the netdev too,
   because the route to the address does not decide it. A CALL also has ``port`` and ``line``; an
   empty line is not sent, since something else listens there; and ``macs``, the MAC addresses of
   the peer's port, which one cable joins to this host. A PING has ``size`` and ``count``.
   Answer: ``{"connections": [...], "pings": [...], "counters": {HCA: {NAME: INCREASE}},
   "neighbours": [[NETDEV, ADDRESS, MAC]...], "ends": {NETDEV: [MAC...]}}``, in the order asked; a
   ping is answered for small packets and for those of `size` that may not be fragmented, and
   repeated by itself where packets got lost; `neighbours` is the ARP table; `ends` has the MAC
   addresses on the wire of each netdev out of which some address did not answer on any port, or
   answered with a MAC of another port.
3. It listens until its input ends, and in any case no longer than `timeout` seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkfleet.onhost.fabric.neighbours import find_neighbours
from sparkfleet.onhost.fabric.ping import run_ping

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_TIMEOUT = 2.0  # seconds
PING_DEADLINE = 3  # seconds for all packets of one ping
SMALL_PINGS = 5
REPEATED = 4  # times as many packets where a ping is repeated
WORKERS = 32
LINE = 256  # bytes that a caller may send
ARP_COMPLETE = 0x2  # ATF_COM in /proc/net/arp


def open_listeners(token: bytes, targets: list[list[Any]]) -> dict[str, list[list[Any]]]:
    """Open the listeners; return which are open and which could not be."""
    listening = []
    busy = []
    for address, port in targets:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen(64)
        except OSError as error:
            busy.append([address, port, error.strerror])
            continue
        listening.append([address, port, server.getsockname()[1]])
        threading.Thread(target=serve_proofs, args=(server, token), daemon=True).start()
    return {"listening": listening, "busy": busy}


def serve_proofs(server: socket.socket, token: bytes) -> None:
    """Answer every caller with proof of who this host is."""
    while True:
        caller, _ = server.accept()
        with caller, contextlib.suppress(OSError):
            caller.settimeout(CONNECT_TIMEOUT)
            caller.sendall(make_proof(token, read_line(caller)) + b"\n")


def read_line(sock: socket.socket) -> bytes:
    """Return what a peer sends up to a line end, without it."""
    line = b""
    while len(line) < LINE and not line.endswith(b"\n"):
        piece = sock.recv(LINE)
        if not piece:
            break
        line += piece
    return line.strip()


def make_proof(token: bytes, line: bytes) -> bytes:
    """Return the answer that only a holder of `token` can give."""
    return hmac.new(token, line, hashlib.sha256).hexdigest().encode()


def connect_to_peer(call: dict[str, Any]) -> dict[str, Any]:
    """Call a peer; return its answer, or why there is none.

    Where two rails share a wire, the peer may answer to the other rail's MAC address, and a socket
    that is bound to its netdev never sees that. So it is bound to the address alone, whose route
    names the netdev; a pinned call that failed is repeated that way.
    """
    answer = try_connection(call, call["netdev"] if call["pin"] else "")
    if answer["connected"] or not call["pin"]:
        return answer
    return {**try_connection(call, ""), "unpinned": True}


def try_connection(call: dict[str, Any], netdev: str) -> dict[str, Any]:
    """Connect to a peer from the own address, out of `netdev` unless it is empty."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        if netdev:
            with contextlib.suppress(PermissionError):  # allowed to all users since Linux 5.7
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode() + b"\0")
        sock.settimeout(CONNECT_TIMEOUT)
        try:
            sock.bind((call["own"], 0))
            sock.connect((call["address"], call["port"]))
        except OSError as error:
            return {"connected": False, "why": error.strerror or "timed out"}
        if not call["line"]:
            return {"connected": True}
        try:
            sock.sendall(call["line"].encode() + b"\n")
            answer = read_line(sock).decode("ascii", "replace")
        except OSError as error:
            return {"connected": False, "why": f"connected, then {error.strerror or 'silence'}"}
        if not answer:
            return {"connected": False, "why": "connected, then silence"}
        return {"connected": True, "answer": answer}


def ping_peer(ping: dict[str, Any]) -> dict[str, Any]:
    """Send a few small packets, which also fill the ARP table, then `count` of `size` bytes."""
    source = ping["netdev"] if ping["pin"] else ping["own"]
    small = send_pings(ping, source, "small")
    if ping["pin"] and not small["received"]:  # as with calls
        source = ping["own"]
        small = send_pings(ping, source, "small")
    return {"small": small, "large": send_pings(ping, source, "large"), "source": source}


def send_pings(ping: dict[str, Any], source: str, kind: str, *, times: int = 1) -> dict[str, Any]:
    """Ping with small packets, or with large ones that may not be fragmented."""
    options = ["-A", "-w", str(PING_DEADLINE)]  # -A: the next one as soon as one is answered
    count = SMALL_PINGS
    if kind == "large":
        options += ["-M", "do", "-s", str(ping["size"])]
        count = ping["count"]
    return run_ping(source, ping["address"], *options, count=count * times)


def repeat_lossy_ping(ping: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Repeat what lost packets while no other ping of this host runs, with more packets.

    A ping with a raw socket gets the answers to all pings of its host, at least at first: jumbo
    packets of four of them overflow its buffer (`drops` in /proc/net/raw), and no link lost them.
    """
    kinds = ("small", "large") if answer["small"]["received"] else ()
    again = {
        kind: send_pings(ping, answer["source"], kind, times=REPEATED)
        for kind in kinds
        if has_lost_packets(answer[kind])
    }
    return {**answer, **again}


def has_lost_packets(answer: dict[str, Any]) -> bool:
    """Return whether more than one packet did not come back, less those still under way."""
    if answer["sent"] is None:
        return False
    end = answer["last"] if answer["complete"] else answer["sent"]
    return bool(end - answer["received"] > 1)


def find_doubtful_netdevs(
    calls: list[dict[str, Any]], answers: list[dict[str, Any]], neighbours: list[list[str]]
) -> list[str]:
    """Return the netdevs where an address did not answer, or with the MAC of another port.

    Where the twin of a rail answers for it, the cable is the same, and who else is on the wire
    need not be asked: that takes a second or more.
    """
    tried = {(call["netdev"], call["address"]) for call in calls}
    pairs = zip(calls, answers)
    tried -= {(call["netdev"], call["address"]) for call, answer in pairs if answer["connected"]}
    expected = {(call["netdev"], call["address"]): call["macs"] for call in calls}
    tried |= {
        (netdev, address)
        for netdev, address, mac in neighbours
        if mac not in expected.get((netdev, address), [mac])
    }
    return sorted({netdev for netdev, _ in tried})


def read_neighbours() -> list[list[str]]:
    """Return netdev, address and MAC address of each complete entry of the ARP table."""
    with contextlib.suppress(OSError):
        rows = [line.split() for line in Path("/proc/net/arp").read_text().splitlines()[1:]]
        return [[row[5], row[0], row[3]] for row in rows if int(row[2], 16) & ARP_COMPLETE]
    return []


def read_hca_counters(hcas: list[str]) -> dict[str, dict[str, int]]:
    """Return the port and hardware counters of each HCA."""
    return {hca: dict(read_port_counters(hca)) for hca in hcas}


def read_port_counters(hca: str) -> Iterator[tuple[str, int]]:
    """Yield the counters that sysfs shows of an HCA's first port."""
    for folder in ("counters", "hw_counters"):
        for file in Path(f"/sys/class/infiniband/{hca}/ports/1/{folder}").glob("*"):
            with contextlib.suppress(OSError, ValueError):
                yield file.name, int(file.read_text())


def compute_increases(before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return by how much each counter rose since `before`."""
    now = read_hca_counters(list(before))
    return {
        hca: {
            name: now[hca][name] - was for name, was in old.items() if now[hca].get(name, was) > was
        }
        for hca, old in before.items()
    }


def main() -> None:
    """Listen, call, answer, and wait for the end of the input."""
    request = json.loads(sys.stdin.buffer.readline())
    signal.alarm(request["timeout"])
    before = read_hca_counters(request["hcas"])
    print(json.dumps(open_listeners(request["token"].encode(), request["listen"])), flush=True)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    calls = json.loads(line)
    with ThreadPoolExecutor(WORKERS) as pool:
        pinged = [pool.submit(ping_peer, ping) for ping in calls["ping"]]
        connections = [pool.submit(connect_to_peer, call) for call in calls["connect"]]
    answers = [call.result() for call in connections]
    pings = [repeat_lossy_ping(ping, first.result()) for ping, first in zip(calls["ping"], pinged)]
    neighbours = read_neighbours()
    doubtful = find_doubtful_netdevs(calls["connect"], answers, neighbours)
    with ThreadPoolExecutor(WORKERS) as pool:
        wires = [list(found) for found in pool.map(find_neighbours, doubtful)]
    answer = {
        "connections": answers,
        "pings": pings,
        "counters": compute_increases(before),
        "neighbours": neighbours,
        "ends": dict(zip(doubtful, wires)),
    }
    print(json.dumps(answer), flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
