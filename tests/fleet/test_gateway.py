"""The gateway on the lab, with the real HAProxy in front of two clusters of the stand-in."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from tests.commandline import becomes
from tests.standin import engine
from tests.standin.cluster import HOSTS, Cluster, start_cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
KEY = "sk-0123456789abcdef"
BACKEND_KEY = "vk-of-the-rack-alone"
PORT = 8070
NAMES = ["large", "small", "gpt"]
CHAT = "/v1/chat/completions"
CLUSTERS = {
    "desk": {"hosts": ["spark-01"], "vars": {"vllm_served_name": "large"}},
    "rack": {
        "hosts": ["spark-02"],
        "vars": {"vllm_served_name": "small", "vllm_env": {"VLLM_API_KEY": BACKEND_KEY}},
    },
}
COPIES = {
    name: {"hosts": [host], "vars": {"vllm_served_name": "large"}}
    for name, host in (("desk", "spark-01"), ("rack", "spark-02"))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    keys = folder / "keys"
    keys.write_text(f"me {KEY}\n")
    keys.chmod(0o600)
    gateway = {"port": PORT, "api_keys": str(keys), "aliases": {"gpt": "small"}, "drain": "60s"}
    with start_cluster(folder, clusters=CLUSTERS, gateway=gateway) as made:
        yield made


@pytest.fixture
def up(cluster: Cluster) -> Cluster:
    """See to it that both clusters and the gateway serve as the inventory has them."""
    try:
        serves = models(cluster) == NAMES
    except OSError:
        serves = False
    if not serves:
        done = cluster.run("cluster.up", "--all")
        assert done.code == 0, done.output
    return cluster


def ask(cluster: Cluster, path: str, body: Any = None, *, key: str = KEY) -> tuple[int, Any]:
    """Send a request to the gateway; return its status and what it answered."""
    url = f"http://{cluster.lab.hosts[0].address}:{PORT}{path}"
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as got:
            return got.status, json.load(got)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)["error"]


def chat(cluster: Cluster, model: str, **more: Any) -> tuple[int, Any]:
    messages = [{"role": "user", "content": "12*17"}]
    body = {"model": model, "messages": messages, "max_tokens": 16, **more}
    code, answer = ask(cluster, CHAT, body)
    return code, answer["choices"][0]["message"]["content"] if code == 200 else answer["message"]


def models(cluster: Cluster) -> list[str]:
    return [each["id"] for each in ask(cluster, "/v1/models")[1]["data"]]


def read_file(name: str) -> str:
    place = f"/home/nvidia/vllm/.sparkfleet/gateway/{name}"
    return fleet.run_on("spark-01", ["cat", place], check=False).stdout


def list_gateway_processes() -> list[str]:
    listed = fleet.run_on("spark-01", ["ps", "-eo", "args"]).stdout
    return [line for line in listed.splitlines() if line.startswith("haproxy")]


@pytest.mark.thorough
def test_a_check_shows_the_files_without_a_secret_and_starts_nothing(cluster: Cluster) -> None:
    assert cluster.run("cluster.down", "--all").code == 0
    done = cluster.run("gateway.up", "--check", "--diff")
    assert done.code == 0, done.output
    assert "+    bind 0.0.0.0:8070" in done.output
    assert "+(secret) me" in done.output
    assert BACKEND_KEY not in done.output
    assert list_gateway_processes() == []
    assert cluster.run("gateway.status").code == 0


def test_all_clusters_and_the_gateway_come_up_with_one_command(cluster: Cluster) -> None:
    done = cluster.run("cluster.up", "--all")
    assert done.code == 0, done.output
    assert f"gateway http://10.78.0.1:{PORT}/v1  models large, small, gpt" in done.output
    assert models(cluster) == NAMES
    for name in NAMES:
        assert chat(cluster, name) == (200, "204")
    assert ask(cluster, CHAT, {"model": "large"}, key="sk-wrong")[0] == 401
    assert chat(cluster, "medium")[0] == 404
    assert json.loads(read_file("receipt.json"))["models"] == NAMES
    listed = cluster.run("cluster.list")
    assert f"gateway http://10.78.0.1:{PORT}/v1: running, on spark-01" in listed.output


@pytest.mark.thorough
def test_a_second_run_changes_nothing_and_there_is_no_drift(up: Cluster) -> None:
    done = up.run("gateway.up")
    assert done.code == 0, done.output
    assert done.recap("spark-01")["changed"] == 0
    drift = up.run("cluster.drift", "--cluster", "desk", "--solo")
    assert drift.code == 0, drift.output
    status = up.run("gateway.status")
    assert status.code == 0, status.output
    assert "running, with API keys, on spark-01" in status.output
    assert status.output.count("gets requests") == 2
    assert "'gateway'" not in up.run("cluster.status", "--cluster", "desk").output


def test_no_secret_is_in_a_log_or_on_a_command_line(up: Cluster) -> None:
    assert chat(up, "gpt") == (200, "204")
    done = up.run("gateway.logs", "--lines", "400")
    assert done.code == 0, done.output
    assert 'user="me" model="gpt" rack status=200' in done.output
    seen = done.output + fleet.run_on("spark-01", ["ps", "-eo", "args"]).stdout
    assert KEY not in seen + read_file("haproxy.cfg") + read_file("keys.map")
    assert BACKEND_KEY not in seen + read_file("haproxy.cfg")
    mode = ["stat", "-c", "%a", "/home/nvidia/vllm/.sparkfleet/gateway/backends.map"]
    assert fleet.run_on("spark-01", mode).stdout.strip() == "600"


@pytest.mark.thorough
def test_a_cluster_that_ends_is_named_with_its_reason(up: Cluster) -> None:
    server = next(
        pid for pid, command in up.processes()["spark-01"].items() if "vllm serve" in command
    )
    fleet.run_on("spark-01", ["kill", "-9", str(server)])
    assert becomes(lambda: models(up) == ["small", "gpt"])
    assert chat(up, "small") == (200, "204")
    assert up.run("gateway.up").code == 0
    code, message = chat(up, "large")
    assert code == 503
    assert message.startswith("large is not served: cluster desk is ")
    again = up.run("cluster.up", "--cluster", "desk", "--solo")
    assert again.code == 0, again.output
    assert chat(up, "large") == (200, "204")


@pytest.mark.thorough
def test_a_watcher_starts_a_gateway_again_that_ended(up: Cluster) -> None:
    fleet.run_on("spark-01", ["pkill", "-9", "haproxy"])
    assert up.run("gateway.status").code == 2
    done = up.run("cluster.watch", "--once", "--cluster", "desk")
    assert done.code == 0, done.output
    assert "the gateway was not running on spark-01, and was started again" in done.output
    assert models(up) == NAMES
    assert up.run("gateway.status").code == 0


def test_a_change_that_haproxy_cannot_start_is_rolled_back(up: Cluster) -> None:
    before = read_file("haproxy.cfg")
    port = "gateway={port: 22, aliases: {gpt: small}}"
    done = up.run("gateway.up", "--set", port)
    assert done.code == 2, done.output
    assert "rolled back on spark-01: Start or reload" in done.output
    assert read_file("haproxy.cfg") == before
    assert chat(up, "large") == (200, "204")


@pytest.mark.thorough
def test_a_stream_is_not_cut_when_its_cluster_is_stopped(up: Cluster) -> None:
    pieces: list[bytes] = []
    began = threading.Event()

    def read() -> None:
        body = {
            "model": "small",
            "messages": [{"role": "user", "content": "12*17"}],
            "stream": True,
            "max_tokens": 60,
            "ignore_eos": True,
        }
        url = f"http://{up.lab.hosts[0].address}:{PORT}{CHAT}"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as reply:
            for line in reply:
                pieces.append(line)
                began.set()

    engine.misbehave("spark-02", "serve", speed=10.0)
    assert up.run("cluster.down", "--cluster", "rack").code == 0
    assert chat(up, "small")[0] == 503
    assert up.run("cluster.up", "--cluster", "rack", "--solo").code == 0
    reader = threading.Thread(target=read)
    reader.start()
    assert began.wait(60)
    done = up.run("cluster.down", "--cluster", "rack")
    reader.join(60)
    engine.behave("spark-02")
    assert done.code == 0, done.output
    assert "all requests finished" in done.output
    assert pieces[-2].strip() == b"data: [DONE]"
    assert models(up) == ["large"]


@pytest.mark.thorough
def test_clusters_with_the_same_model_are_copies(up: Cluster) -> None:
    other = ("--set", f"clusters={json.dumps(COPIES)}", "--set", f"gateway={{port: {PORT}}}")
    done = up.run("cluster.up", "--cluster", "rack", "--solo", *other)
    assert done.code == 0, done.output
    assert {chat(up, "large") for _ in range(6)} == {(200, "204")}
    listed = json.loads(up.run("gateway.status", "--output", "json", *other).output)
    (model,) = listed["models"]
    assert [each["server"]["served"] for each in model["clusters"]] == [3, 3]
    for command in up.processes()["spark-02"]:
        fleet.run_on("spark-02", ["kill", "-9", str(command)], check=False)
    assert {chat(up, "large") for _ in range(6)} == {(200, "204")}


def test_the_gateway_and_all_clusters_go_down_with_one_command(cluster: Cluster) -> None:
    done = cluster.run("cluster.down", "--all")
    assert done.code == 0, done.output
    assert list_gateway_processes() == []
    assert cluster.processes() == {host: {} for host in HOSTS}
    assert "start it: sparkfleet gateway.up" in cluster.run("gateway.status").output
