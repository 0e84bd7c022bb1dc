"""Send to peers out of given rails and receive from peers, to measure rates.

First request: ``{"timeout": SECONDS}``, for everything. Answer: ``{"perftest": BOOL}``, whether
`ib_write_bw` is installed. Then, until the input ends, with a line for each answer:
``{"take": [FLOW...]}`` listens for each flow: ``{"ports": [PORT...]}``;
``{"send": [FLOW...], "seconds": SECONDS}`` sends all at once: ``{"sent": [RESULT...]}``.

A FLOW names its ``kind`` and ``address``, the taker's; a sender also gets ``port``, ``own``, the
address that it sends from, and ``netdev``, empty where the route decides it. A RESULT that failed
holds ``why``, else by kind:

tcp   from `streams`: ``bytes`` that arrived in ``seconds`` by the sender's clock (a taker that
      wakes up late finds much waiting: a rate that no link has); ``need``, for which part of that
      time the two threads of an average stream ran or waited for a CPU; ``idle``, the part of the
      CPUs' time that the busier host had to spare.
echo  from `count` round trips of one byte: ``microseconds``, their median.
rdma  from `ib_write_bw` with `hca`, `ib_port`, `gid_index`, `iterations`: ``text``, its output.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 2.0  # seconds without a byte, for a peer to call or to answer
RDMA_PATIENCE = 20.0  # seconds for one run of ib_write_bw
PIECE = 1024 * 1024  # bytes a call
PERFTEST = "ib_write_bw"
QUEUE_PAIRS = "4"  # one does not fill a rail: 111.7 Gb/s with four

children: list[subprocess.Popen[bytes]] = []


def read_cpu_load() -> tuple[float, int, int]:
    """Return for how long this thread ran or waited for a CPU, s, and idle and all ticks of all."""
    ran = "0"
    waited = "0"
    with contextlib.suppress(OSError):  # not every kernel is built with it
        ran, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return (int(ran) + int(waited)) / 1e9, ticks[3] + ticks[4], sum(ticks)


def measure_cpu_since(before: tuple[float, int, int]) -> tuple[float, float]:
    """Return what was needed since `before`, s, and which part of all CPU time was idle."""
    work, idle, ticks = (now - was for now, was in zip(read_cpu_load(), before))
    return work, idle / (ticks or 1)


def listen_for_flow(flow: dict[str, Any]) -> int:
    """Begin to listen for a flow, and return the port."""
    if flow["kind"] == "rdma":
        return serve_perftest(flow)
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.bind((flow["address"], 0))
    server.listen(64)
    server.settimeout(PATIENCE)
    receive = echo_bytes if flow["kind"] == "echo" else drain_stream
    threading.Thread(
        target=accept_callers, args=(server, flow["streams"], receive), daemon=True
    ).start()
    return int(server.getsockname()[1])


def accept_callers(
    server: socket.socket, count: int, receive: Callable[[socket.socket], None]
) -> None:
    """Let `receive` have each of the next `count` callers."""
    with server, contextlib.suppress(OSError):  # the other side reports a caller that does not come
        for _ in range(count):
            caller, _peer = server.accept()
            threading.Thread(target=receive, args=(caller,), daemon=True).start()


def drain_stream(caller: socket.socket) -> None:
    """Read to the end and answer how much came, and what that took of a CPU."""
    buffer = bytearray(PIECE)
    with caller, contextlib.suppress(OSError):
        caller.settimeout(PATIENCE)
        count = caller.recv_into(buffer)
        before = read_cpu_load()
        while True:
            got = caller.recv_into(buffer)
            if not got:
                break
            count += got
        caller.sendall(json.dumps([count, *measure_cpu_since(before)]).encode())


def echo_bytes(caller: socket.socket) -> None:
    """Send every byte back."""
    with caller, contextlib.suppress(OSError):
        caller.settimeout(PATIENCE)
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            piece = caller.recv(1)
            if not piece:
                break
            caller.sendall(piece)


def connect_flow(flow: dict[str, Any]) -> socket.socket:
    """Connect to the taker of a flow from the rail's address, and out of `netdev` if it is named.

    A peer may answer to another rail on the same wire, which a socket bound to its netdev never
    sees: then it is bound to the address alone.
    """
    try:
        return open_socket(flow, flow["netdev"])
    except OSError:
        if not flow["netdev"]:
            raise
        return open_socket(flow, "")


def open_socket(flow: dict[str, Any], netdev: str) -> socket.socket:
    """Connect to the taker of a flow, out of `netdev` unless it is empty."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if netdev:
        with contextlib.suppress(PermissionError):  # allowed to all users since Linux 5.7
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode() + b"\0")
    sock.settimeout(PATIENCE)
    sock.bind((flow["own"], 0))
    sock.connect((flow["address"], flow["port"]))
    return sock


def send_flow(flow: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send one flow and return its result."""
    try:
        if flow["kind"] == "rdma":
            return run_perftest(flow)
        return time_round_trips(flow) if flow["kind"] == "echo" else send_streams(flow, seconds)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"why": str(getattr(error, "strerror", None) or error) or "no answer"}


def time_round_trips(flow: dict[str, Any]) -> dict[str, Any]:
    """Time one byte there and back, again and again."""
    taken = []
    with connect_flow(flow) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(flow["count"]):
            began = time.perf_counter()
            sock.sendall(b"x")
            if not sock.recv(1):
                return {"why": "the peer closed the connection"}
            taken.append(time.perf_counter() - began)
    return {"microseconds": statistics.median(taken) * 1e6}


def send_streams(flow: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send as many streams as the flow has, at the same time, and sum up what arrived."""
    count = flow["streams"]
    with ThreadPoolExecutor(count) as pool:
        done = list(pool.map(send_stream, [flow] * count, [seconds] * count))
    span = max(result[2] for result in done) - min(result[1] for result in done)
    return {
        "bytes": sum(result[0] for result in done),
        "seconds": span,
        "need": sum(result[3] for result in done) / count / span,
        "idle": min(result[4] for result in done),
    }


def send_stream(flow: dict[str, Any], seconds: float) -> list[float]:
    """Send one stream; return bytes, begin, end, the CPU time of both threads, and what is idle."""
    source = os.memfd_create("zeros")
    os.truncate(source, PIECE)
    with connect_flow(flow) as sock, open(source, "rb"):
        sock.settimeout(None)  # else sendfile does not wait for room; it gets its own limit
        limit = struct.pack("ll", int(PATIENCE), 0)  # struct timeval
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PIECE)  # soon drained
        before = read_cpu_load()
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            os.sendfile(sock.fileno(), source, 0, PIECE)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(PATIENCE)
        work, idle = measure_cpu_since(before)
        reply = sock.recv(PIECE)
        ended = time.monotonic()
    if not reply:
        raise ConnectionError("the peer closed the connection before it reported")
    got, peer_work, spare = json.loads(reply)
    return [got, began, ended, work + peer_work, min(idle, spare)]


def build_perftest_command(flow: dict[str, Any], *taker: str) -> list[str]:
    """Return the command line of `ib_write_bw`; the same for both sides but for the address."""
    return [
        *(PERFTEST, "-d", flow["hca"], "-i", str(flow["ib_port"]), "-x", str(flow["gid_index"])),
        *("-p", str(flow["port"]), "-q", QUEUE_PAIRS, "-n", str(flow["iterations"])),
        *("-F", "--report_gbits", *taker),
    ]


def serve_perftest(flow: dict[str, Any]) -> int:
    """Start the side of `ib_write_bw` that listens, and return its port when it does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((flow["address"], 0))
        port = int(probe.getsockname()[1])
    command = build_perftest_command({**flow, "port": port})
    children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr))
    deadline = time.monotonic() + PATIENCE
    while not is_listening(port) and time.monotonic() < deadline:
        time.sleep(0.01)
    return port


def is_listening(port: int) -> bool:
    """Return whether something listens on a port."""
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables if table.exists() for row in table.open()]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def run_perftest(flow: dict[str, Any]) -> dict[str, Any]:
    """Run the side that sends, and return what it printed."""
    done = subprocess.run(
        build_perftest_command(flow, flow["address"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RDMA_PATIENCE,
        check=False,
    )
    return {"text": done.stdout.decode("utf-8", "backslashreplace")}


def handle_bandwidth_request(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request."""
    if "take" in request:
        return {"ports": [listen_for_flow(flow) for flow in request["take"]]}
    flows = request["send"]
    with ThreadPoolExecutor(len(flows)) as pool:
        return {"sent": list(pool.map(send_flow, flows, [request["seconds"]] * len(flows)))}


def main() -> None:
    """Answer requests until there are no more, or time is up."""
    first = json.loads(sys.stdin.buffer.readline())
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    signal.alarm(first["timeout"])
    try:
        print(json.dumps({"perftest": shutil.which(PERFTEST) is not None}), flush=True)
        for line in sys.stdin.buffer:
            print(json.dumps(handle_bandwidth_request(json.loads(line))), flush=True)
    finally:
        for child in children:
            child.kill()


if __name__ == "__main__":
    main()
