"""`cluster.list` with two clusters on the same hosts; the engine is the stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.standin.cluster import HOSTS, Cluster, start_cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
CLUSTERS = {
    "pair": {"hosts": "sparks"},
    "small": {
        "hosts": ["spark-02"],
        "vars": {"vllm_port": 8001, "vllm_served_name": "small"},
    },
    "twin": {"hosts": ["spark-02"], "vars": {"vllm_port": 8001}},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("listed"), clusters=CLUSTERS) as made:
        yield made


def test_two_clusters_on_one_host_serve_and_are_listed_together(cluster: Cluster) -> None:
    for words in (("--cluster", "pair", "--tp", "2"), ("--cluster", "small", "--solo")):
        done = cluster.run("cluster.up", *words)
        assert done.code == 0, done.output
    done = cluster.run("cluster.list")
    assert done.code == 0, done.output
    rows = {line.split()[0]: line for line in done.output.splitlines() if line.split()}
    assert "serving" in rows["pair"]
    assert "http://10.78.0.1:8000/v1" in rows["pair"]
    assert "serving" in rows["small"]
    assert "http://10.78.0.2:8001/v1" in rows["small"]
    assert "stopped" in rows["twin"]
    conflict = "spark-02: port 8001 is used by small and twin"
    assert f"cannot serve at the same time: {conflict}" in done.output
    document = json.loads(cluster.run("cluster.list", "--output", "json").output)
    assert [document["clusters"][name]["model"] for name in ("pair", "small")] == [
        "standin",
        "small",
    ]
    assert document["conflicts"][0]["clusters"] == ["small", "twin"]


def test_all_are_refused_where_two_of_them_use_one_port(cluster: Cluster) -> None:
    done = cluster.run("cluster.up", "--all")
    assert done.code == 2, done.output
    assert "port 8001 is used by small and twin" in done.output
    assert "PLAY" not in done.output


def test_all_start_and_stop_in_the_order_of_the_inventory(cluster: Cluster) -> None:
    other = (
        "--set",
        "clusters={pair: {hosts: sparks}, small: {hosts: spark-02, vars: {vllm_port: 8001}}}",
    )
    done = cluster.run("cluster.up", "--all", *other)
    assert done.code == 0, done.output
    assert done.output.index("10.78.0.1:8000/v1") < done.output.index("10.78.0.2:8001/v1")
    listed = cluster.run("cluster.list", *other)
    assert listed.output.count("serving") == 2, listed.output
    assert cluster.run("cluster.down", "--all").code == 0
    assert cluster.processes() == {host: {} for host in HOSTS}


@pytest.mark.parametrize("words", [("--cluster", "pair"), ("--dp", "2"), ("--output", "json")])
def test_all_takes_no_option_of_one_cluster(cluster: Cluster, words: tuple[str, ...]) -> None:
    done = cluster.run("cluster.up", "--all", *words)
    assert done.code == 5, done.output
    assert f"--all cannot be combined with {words[0]}" in done.output


def share_memory(**shares: float) -> tuple[str, str]:
    """Return the option that gives the clusters pair and small these shares of the memory."""
    hosts = {"pair": "sparks", "small": "spark-02"}
    clusters = {
        name: {
            "hosts": hosts[name],
            "vars": {
                "vllm_port": 8000 + number,
                "vllm_args": {"kv-cache-memory-bytes": None, "gpu-memory-utilization": share},
            },
        }
        for number, (name, share) in enumerate(shares.items())
    }
    return "--set", f"clusters={json.dumps(clusters)}"


@pytest.mark.thorough
def test_a_start_is_refused_where_it_and_what_runs_exceed_the_memory(cluster: Cluster) -> None:
    assert cluster.run("cluster.down", "--all").code == 0
    shares = share_memory(pair=0.92, small=0.09)
    done = cluster.run("cluster.up", "--cluster", "small", "--solo", *shares)
    assert done.code == 0, done.output
    serving = cluster.processes()
    done = cluster.run("cluster.up", "--cluster", "pair", "--tp", "2", *shares)
    assert done.code == 2, done.output
    assert "memory of all clusters" in done.output
    assert " GiB small + " in done.output
    assert " GiB pair" in done.output
    assert "cluster.down --cluster small" in done.output
    assert cluster.processes() == serving
    assert cluster.run("cluster.down", "--all").code == 0
