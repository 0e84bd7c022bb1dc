"""The program that measures, run on this machine over its loopback."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import PATIENCE

PROGRAM = Path(__file__).parents[3] / "sparkfleet" / "onhost" / "fabric" / "bandwidth.py"
OUTPUT = Path(__file__).parents[2] / "outputs" / "ib_write_bw.single-rail-mtu1024.txt"
FLOW = {"kind": "tcp", "address": "127.0.0.1", "streams": 2, "count": 20}
SENDER = FLOW | {"netdev": "lo", "own": "127.0.0.1"}
# Stands for ib_write_bw: listens on its port, or connects to it, as the real one does over TCP
# before any RDMA, and prints what a real one printed.
STAND_IN = """#!{python}
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
print("argv", *sys.argv[1:])
if sys.argv[-1] == "127.0.0.1":
    socket.create_connection(("127.0.0.1", port)).close()
    print(open({output!r}).read())
else:
    socket.create_server(("127.0.0.1", port)).accept()
"""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder that comes first on the program's PATH."""
    return tmp_path


@pytest.fixture
def ask(tools: Path) -> Iterator[Ask]:
    """Ask the running program; the first answer is its own."""
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        source = child.stdout
        sink = child.stdin

        def ask(**request: Any) -> dict[str, Any]:
            sink.write(json.dumps(request).encode() + b"\n")
            sink.flush()
            return dict(json.loads(source.readline()))

        yield ask
        sink.close()
        assert child.wait(PATIENCE) == 0


def _pass(ask: Ask, taker: dict[str, Any], sender: dict[str, Any]) -> dict[str, Any]:
    (port,) = ask(take=[taker])["ports"]
    (sent,) = ask(send=[sender | {"port": port}], seconds=0.1)["sent"]
    return dict(sent)


def test_streams_report_bytes_time_and_how_busy_the_cpus_were(ask: Ask) -> None:
    assert ask(timeout=60) == {"perftest": False}
    sent = _pass(ask, FLOW, SENDER)
    assert sent["bytes"] > 1_000_000
    assert sent["seconds"] >= 0.1
    assert sent["need"] > 0.5


def test_a_taker_that_wakes_up_late_reports_no_higher_rate(ask: Ask) -> None:
    ask(timeout=60)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        taken = pool.submit(_take_late, server)
        flow = SENDER | {"port": server.getsockname()[1], "streams": 1}
        (sent,) = ask(send=[flow], seconds=0.1)["sent"]
    assert sent["bytes"] == taken.result()
    assert sent["seconds"] >= 0.4


def _take_late(server: socket.socket) -> int:
    caller, _ = server.accept()
    with caller:
        caller.recv(1, socket.MSG_PEEK)  # the sender measures by now, however late it started
        time.sleep(0.4)
        count = sum(len(piece) for piece in iter(lambda: caller.recv(1 << 20), b""))
        caller.sendall(json.dumps([count, 0.01, 0.5]).encode())
    return count


def test_several_flows_go_at_the_same_time(ask: Ask) -> None:
    ask(timeout=60)
    ports = ask(take=[FLOW, FLOW])["ports"]
    sent = ask(send=[SENDER | {"port": port} for port in ports], seconds=0.1)["sent"]
    assert all(one["bytes"] > 0 for one in sent)


def test_round_trips_are_timed(ask: Ask) -> None:
    ask(timeout=60)
    sent = _pass(ask, FLOW | {"kind": "echo", "streams": 1}, SENDER | {"kind": "echo"})
    assert 1 < sent["microseconds"] < 100_000


def test_a_taker_that_does_not_answer_is_reported_and_others_go_on(ask: Ask) -> None:
    ask(timeout=60)
    (port,) = ask(take=[FLOW])["ports"]
    flows = [SENDER | {"port": 1}, SENDER | {"port": port}]
    dead, good = ask(send=flows, seconds=0.05)["sent"]
    assert dead == {"why": "Connection refused"}
    assert good["bytes"] > 0


def test_ib_write_bw_runs_on_both_sides_with_the_same_options(ask: Ask, tools: Path) -> None:
    path = tools / "ib_write_bw"
    path.write_text(STAND_IN.format(python=sys.executable, output=str(OUTPUT)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert ask(timeout=60) == {"perftest": True}
    device = {"hca": "rocep1s0f1", "ib_port": 1, "gid_index": 5, "iterations": 1000}
    flow = {"kind": "rdma", "address": "127.0.0.1", **device}
    text = _pass(ask, flow, flow)["text"]
    argv = text.splitlines()[0].split()
    assert argv[1:7] == ["-d", "rocep1s0f1", "-i", "1", "-x", "5"]
    assert argv[9:] == ["-q", "4", "-n", "1000", "-F", "--report_gbits", "127.0.0.1"]
    assert "92.57" in text


def test_it_ends_by_itself_when_its_time_is_up() -> None:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        child.stdin.write(b'{"timeout": 1}\n')
        child.stdin.flush()
        assert child.wait(PATIENCE) == 1
