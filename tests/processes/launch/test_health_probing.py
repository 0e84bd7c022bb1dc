"""The program that looks at a deployment on a host, run for real on this machine."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.launch.endpoint.health import HealthState, HostLook, judge_health
from sparkfleet.launch.endpoint.health.observation import parse_host_look
from sparkfleet.launch.endpoint.health.probing import (
    ProbeUse,
    collect_look,
    complete_look,
    look_at_cluster,
)
from sparkfleet.model import Cluster, Host, Value
from sparkfleet.onhost.deployment.health import confirm_suspended
from sparkfleet.onhost.shared.cluster_processes import HostProcess
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from tests.commandline import PATIENCE, becomes

CLUSTER = f"health-{os.getpid()}"  # two runs on a machine must not see each other's processes
ENGINE = f"export SPARKFLEET_CLUSTER={CLUSTER}\nexec -a VLLM::EngineCore sleep 60\n"
COLOURLESS = "(RayWorkerProc pid=9) all is well"
METRICS = """\
vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 0.0
vllm:generation_tokens_total{{engine="0"}} {tokens}
"""


class Server(ThreadingHTTPServer):
    """An endpoint of a test: statuses of paths, and counters; it waits for `free` at each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.running = 0
        self.growth = 0
        self.tokens = 0
        self.statuses: dict[str, int] = {}
        self.asked: list[str] = []
        self.free = threading.Event()
        self.free.set()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server

    def do_GET(self) -> None:
        own = self.server
        own.free.wait()
        own.tokens += own.growth
        text = {
            "/metrics": METRICS.format(running=own.running, tokens=own.tokens),
            "/v1/models": json.dumps({"data": [{"id": "m"}]}),
        }.get(self.path, "")
        self._reply(text)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(f"{body['max_tokens']} token of {body['model']}")
        message = {"message": {"content": "x"}, "finish_reason": "length"}
        self._reply(json.dumps({"choices": [message]}))

    def _reply(self, text: str) -> None:
        self.send_response(self.server.statuses.get(self.path, 200))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.free.set()
    made.shutdown()
    made.server_close()


class Node:
    """A folder of this machine as a host's cluster_dir, and the programs on it."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.folder = root / CLUSTER
        self.about = {"hosts": ["here"], "port": port, "served_name": "m", "executor": "uni"}
        self.link = LocalConnection(Host(name="here"))
        self.place = {"cluster_dir": str(root), "cluster": CLUSTER}

    def deed(self, do: str, **more: Any) -> dict[str, Any]:
        return self.link.run_program("deployment/processes", {"do": do, **self.place, **more})

    def start(self, script: str = ENGINE, **files: str) -> int:
        self.deed("write", contents={"serve.sh": script, **files})
        request = {"role": "serve", "script": "serve.sh", "hash": "h1", "about": self.about}
        return int(self.deed("start", settle=0.0, **request)["pid"])

    def look(self, *, patience: float = PATIENCE, stall: float = 0.3) -> HostLook:
        limits = {"patience": patience, "gap": 0.05, "stall": stall}
        request = {**self.place, "host": "here", **limits}
        return self.link.query("deployment/health", request, parse_host_look)

    def titles(self) -> Mapping[int, str]:
        return {entry.pid: entry.title for entry in self.look().processes}


@pytest.fixture
def node(tmp_path: Path, server: Server) -> Iterator[Node]:
    made = Node(tmp_path, server.server_address[1])
    yield made
    made.deed("stop", grace=0.1)


def judged(seen: HostLook) -> HealthState:
    return judge_health(collect_look({"here": seen}, {})).state


def test_the_colours_of_a_log_are_left_out(node: Node) -> None:
    script = "printf '\\033[36m(RayWorkerProc pid=9)\\033[0m all is well\\n'\n" + ENGINE
    node.start(script)
    assert becomes(lambda: node.look().logs["serve"].lines[-1:] == (COLOURLESS,))


def test_a_deployment_that_serves_is_seen_whole(node: Node, server: Server) -> None:
    server.running, server.growth = 1, 5
    pid = node.start(**{"nccl.env": "export NCCL_SOCKET_IFNAME=lo,absent9\n"})
    assert becomes(lambda: node.titles().get(pid) == "VLLM::EngineCore 60")
    seen = node.look()
    assert seen.roles["serve"].alive
    assert seen.folder == str(node.folder)
    assert list(seen.rails) == ["lo"]
    assert seen.endpoint is not None
    assert seen.endpoint.status == 200
    first, last = seen.endpoint.samples
    assert last["vllm:generation_tokens_total"] > first["vllm:generation_tokens_total"]
    assert not seen.busy


def test_an_empty_folder_has_no_deployment(node: Node) -> None:
    seen = node.look()
    assert (seen.hash, seen.endpoint, seen.processes) == (None, None, ())
    assert judged(seen) is HealthState.STOPPED


def test_requests_without_progress_are_watched_for_the_whole_time(
    node: Node, server: Server
) -> None:
    server.running = 1
    node.start()
    seen = node.look(stall=0.3)
    assert seen.endpoint is not None
    assert seen.endpoint.samples[-1]["at"] - seen.endpoint.samples[0]["at"] >= 0.3
    assert judged(seen) is HealthState.WEDGED


def test_an_endpoint_that_is_silent_is_given_up(node: Node, server: Server) -> None:
    server.free.clear()
    node.start()
    seen = node.look(patience=0.2)
    assert seen.endpoint is not None
    assert (seen.endpoint.status, seen.endpoint.error) == (0, "timed out")
    assert judged(seen) is HealthState.WEDGED


def test_the_status_of_an_endpoint_is_reported(node: Node, server: Server) -> None:
    server.statuses["/health"] = 503
    node.start()
    seen = node.look()
    assert seen.endpoint is not None
    assert seen.endpoint.status == 503
    assert seen.endpoint.samples == ()


def test_a_suspended_process_is_seen(node: Node) -> None:
    pid = node.start()
    os.kill(pid, signal.SIGSTOP)
    assert becomes(lambda: any(entry.suspended for entry in node.look().processes))
    assert judged(node.look()) is HealthState.WEDGED


def test_a_process_that_was_suspended_for_a_moment_is_not() -> None:
    def process(pid: int, state: str) -> HostProcess:
        return HostProcess(pid=pid, parent=1, session=1, began=0, state=state)

    first = [process(1, "T"), process(2, "S"), process(3, "T")]
    later = [process(1, "T"), process(2, "T"), process(3, "R")]
    assert [entry.state for entry in confirm_suspended(first, later)] == ["T", "S", "R"]


def test_a_role_that_ended_is_seen_with_the_end_of_its_log(node: Node) -> None:
    pid = node.start(f"echo loading\necho 'CUDA error'\n{ENGINE}")
    lines = ("loading", "CUDA error")
    assert becomes(lambda: node.look().logs["serve"].lines == lines)
    os.kill(pid, signal.SIGKILL)
    assert becomes(lambda: not node.look().roles["serve"].alive)
    seen = node.look()
    assert seen.logs["serve"].lines == lines
    assert seen.logs["serve"].at is not None
    assert judged(seen) is HealthState.RANK_LOST


def test_a_start_before_the_last_boot_is_seen(node: Node) -> None:
    node.start()
    record = node.folder / "deployment.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "boot": "another"}))
    seen = node.look()
    assert seen.rebooted
    assert not seen.roles["serve"].alive
    assert judged(seen) is HealthState.RANK_LOST


@contextmanager
def opened(
    node: Node, *, refused: tuple[str, ...] = ()
) -> Iterator[tuple[ConnectionPool, Cluster]]:
    """Yield a pool and a cluster of this machine, and hosts that are not reached."""

    def connect(host: Host) -> LocalConnection:
        if host.name in refused:
            raise UnreachableError("timed out", host=host.name)
        return LocalConnection(host)

    variables = {"cluster_dir": Value(data=str(node.root))}
    hosts = tuple(Host(name=name, vars=variables) for name in ("here", *refused))
    with ConnectionPool(connect) as pool:
        yield pool, Cluster(name=CLUSTER, hosts=hosts)


def test_a_look_at_a_cluster_shows_what_it_waits_for(node: Node) -> None:
    node.start()
    shown: list[str] = []
    with opened(node) as (pool, cluster):
        look = look_at_cluster(pool, cluster, probe=ProbeUse.ALWAYS, show=shown.append)
    assert judge_health(look).state is HealthState.SERVING
    assert [text.partition(",")[0] for text in shown] == [
        "checking here",
        "asking here for one token",
    ]


@pytest.mark.parametrize(
    ("script", "use", "asked"),
    [
        (ENGINE, ProbeUse.LAST, []),  # its title shows that the rank is there
        (ENGINE, ProbeUse.ALWAYS, ["1 token of m"]),
        (ENGINE.replace("VLLM::EngineCore", "python"), ProbeUse.LAST, ["1 token of m"]),
        (ENGINE.replace("VLLM::EngineCore", "python"), ProbeUse.NEVER, []),
    ],
    ids=["titled-last", "titled-always", "untitled-last", "untitled-never"],
)
def test_a_request_is_sent_where_nothing_else_shows_a_rank(
    node: Node, server: Server, script: str, use: ProbeUse, asked: list[str]
) -> None:
    pid = node.start(script)
    assert becomes(lambda: "60" in node.titles().get(pid, ""))
    with opened(node) as (pool, cluster):
        health = judge_health(look_at_cluster(pool, cluster, probe=use))
    assert server.asked == asked
    assert health.probed is bool(asked)
    assert health.state is HealthState.SERVING


def test_an_engine_that_refuses_the_one_token_is_wedged(node: Node, server: Server) -> None:
    server.statuses["/v1/chat/completions"] = 500
    node.start()
    with opened(node) as (pool, cluster):
        health = judge_health(look_at_cluster(pool, cluster, probe=ProbeUse.ALWAYS))
    assert health.state is HealthState.WEDGED
    assert health.reason.startswith("a one-token request failed with status 500")


def test_tokens_of_others_save_the_request(node: Node, server: Server) -> None:
    server.running, server.growth = 1, 5
    node.start()
    with opened(node) as (pool, cluster):
        look_at_cluster(pool, cluster, probe=ProbeUse.ALWAYS)
    assert server.asked == []


def test_a_host_that_is_not_reached_leaves_the_others_read(node: Node) -> None:
    node.about["hosts"] = ["here", "away"]
    node.start()
    with opened(node, refused=("away",)) as (pool, cluster):
        look = look_at_cluster(pool, cluster)
    assert look.errors == {"away": "timed out"}
    health = judge_health(look)
    assert (health.state, health.host) == (HealthState.UNKNOWN, "away")


@pytest.mark.parametrize("field", ["hosts", "port", "ray_nodes", "ready_timeout"])
def test_a_record_of_another_shape_is_an_error_of_its_host(node: Node, field: str) -> None:
    node.about[field] = ["x"] if field in ("port", "ray_nodes", "ready_timeout") else "here"
    node.start()
    with pytest.raises(CommandError, match="unknown shape"):
        node.look()


def test_a_host_that_answers_something_else_is_not_unreached() -> None:
    look = collect_look({}, {"a": CommandError("python3 is missing", host="a")})
    assert look.broken == {"a": "python3 is missing"}
    assert judge_health(look).state is HealthState.UNKNOWN


def test_nothing_more_is_asked_of_a_cluster_that_does_not_work() -> None:
    look = collect_look({"a": HostLook()}, {})
    cluster = Cluster(name="c", hosts=(Host(name="a"),))

    def fail(_: Host) -> LocalConnection:
        raise AssertionError

    with ConnectionPool(fail) as pool:
        assert complete_look(pool, cluster, look, probe=ProbeUse.ALWAYS) == look
