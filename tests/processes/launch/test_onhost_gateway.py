"""The program that steers HAProxy on a host, run for real on this machine."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from tests.commandline import becomes
from tests.ports import reserve_port

HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
NAME = f"gateway-{os.getpid()}"  # two runs on a machine must not stop each other's processes
CONFIG = """
global
    setenv SPARKFLEET_GATEWAY {hash}
    stats socket unix@haproxy.sock mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend gateway
    bind 127.0.0.1:{port}
    acl listed path /v1/models
    http-request return status 200 content-type application/json string '{models}' if listed
    use_backend large
backend large
    http-error status 503 content-type text/plain lf-string "%[str(large),map(reasons.map)]"
    server desk 127.0.0.1:{port} check
"""
MODELS = '{"object":"list","data":[{"id":"large"}]}'
SCRIPT = f"""export SPARKFLEET_CLUSTER={NAME} PATH="$PATH:/usr/sbin"
cd -- "$(dirname -- "$0")"
exec haproxy -W -f haproxy.cfg
"""

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="needs haproxy, which ./test installs")


class Node:
    """A folder of this machine as a host's cluster_dir, and the programs on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / NAME
        self.port = reserve_port()
        self._link = LocalConnection(Host(name="here"))

    def ask(self, deed: str, program: str = "gateway", **more: Any) -> dict[str, Any]:
        place = {"do": deed, "cluster_dir": str(self.root), "cluster": NAME}
        return self._link.run_program(f"deployment/{program}", {**place, **more})

    def write(self, hash_: str, *, port: int | None = None) -> None:
        config = CONFIG.format(hash=hash_, port=port or self.port, models=MODELS)
        files = {"haproxy.cfg": config, "gateway.sh": SCRIPT, "reasons.map": "large unknown\n"}
        self.ask("write", contents=files)

    def start(self) -> None:
        self.write("one")
        start = {"role": "gateway", "script": "gateway.sh", "hash": "one", "settle": 0.3}
        self.ask("start", "processes", **start)
        self.ask("wait", hash="one", limit=60)

    def look(self) -> dict[str, Any]:
        return self.ask("look", files=["haproxy.cfg", "gateway.sh"])

    def stop(self) -> None:
        self.ask("stop", "processes", grace=1.0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.stop()


def test_a_host_without_a_gateway_is_looked_at(node: Node) -> None:
    seen = node.look()
    assert seen["version"].startswith(("2.", "3."))
    assert (seen["runs"], seen["recorded"], seen["hash"], seen["servers"]) == (False, False, "", [])
    assert seen["files"] == {"haproxy.cfg": None, "gateway.sh": None}


def test_files_that_haproxy_refuses_are_not_put_in_place(node: Node) -> None:
    node.write("one")
    with pytest.raises(CommandError, match=r"HAProxy refuses its configuration: .*unknown keyword"):
        node.ask("write", contents={"haproxy.cfg": "global\n    nonsense\n"})
    assert "setenv SPARKFLEET_GATEWAY one" in node.look()["files"]["haproxy.cfg"]
    assert not (node.folder / "next").exists()
    modes = {path.name: path.stat().st_mode & 0o777 for path in node.folder.iterdir()}
    assert modes == {"haproxy.cfg": 0o600, "gateway.sh": 0o700, "reasons.map": 0o600}


def test_it_starts_reloads_and_ends(node: Node) -> None:
    node.start()
    seen = node.look()
    assert (seen["runs"], seen["recorded"], seen["hash"]) == (True, True, "one")
    assert [(row["pxname"], row["svname"]) for row in seen["servers"]] == [("large", "desk")]
    url = f"http://127.0.0.1:{node.port}"
    assert node.ask("list", "gateway_models", url=url, key="")["models"] == ["large"]
    node.write("two")
    node.ask("reload", hash="two", limit=60)
    assert node.look()["hash"] == "two"
    assert node.ask("finish", limit=60) == {"ended": True}
    assert node.look()["runs"] is False
    with pytest.raises(CommandError, match="returned no list of models"):
        node.ask("list", "gateway_models", url=url, key="")


def test_a_reload_that_fails_says_why_and_the_worker_goes_on(node: Node) -> None:
    node.start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        node.write("two", port=taken.getsockname()[1])
        with pytest.raises(CommandError, match=r"did not start a worker: .*cannot bind socket"):
            node.ask("reload", hash="two", limit=120)
    assert node.look()["hash"] == "one"
    node.write("one")
    node.ask("reload", hash="one", limit=60)


def test_verdicts_and_drains_decide_who_gets_requests(node: Node) -> None:
    node.start()

    def state() -> str:
        return str(node.look()["servers"][0]["status"])

    reason = 'rank lost: "1" \\ on spark-02; see #18'
    verdict = {"backend": "large", "reason": reason, "servers": {"desk": False}}
    node.ask("verdicts", verdicts=[verdict])
    assert state() == "MAINT"
    with pytest.raises(CommandError, match="answered 503"):
        node.ask("list", "gateway_models", url=f"http://127.0.0.1:{node.port}/none", key="")
    node.ask("verdicts", verdicts=[{**verdict, "servers": {"desk": True}}])
    assert becomes(lambda: not state().startswith("MAINT"))
    assert node.ask("drain", servers=[["large", "desk"]], limit=60) == {"left": 0}
    assert not state().startswith("MAINT")
