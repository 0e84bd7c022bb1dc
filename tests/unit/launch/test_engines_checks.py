"""Whether a host can run containers as they are asked for."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.facts.machine import Listener
from sparkfleet.launch.engines.checks import check_container_engine
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.launch.host.port_holders import parse_published_ports
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.model import Severity, Verdict
from tests import gb10
from tests.engines import DOCKER, settings, survey

OUTPUTS = Path(__file__).parents[2] / "outputs"


def _checks(daemon: Daemon = DOCKER, **variables: Any) -> dict[str, Verdict]:
    facts = gb10.pair()[0].facts()
    found = check_container_engine(settings(**variables), facts, daemon)
    return {verdict.check: verdict for verdict in found}


def _recorded(name: str) -> str:
    text = (OUTPUTS / name).read_text()
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def test_a_healthy_host_passes() -> None:
    assert {check: one.severity for check, one in _checks().items()} == {
        "engine.daemon": Severity.OK,
        "engine.gpu": Severity.OK,
        "engine.cgroups": Severity.INFO,
    }


def test_the_gpu_that_a_reload_of_systemd_removes_is_reported() -> None:
    assert "daemon-reload" in _checks()["engine.cgroups"].seen
    assert "engine.cgroups" not in _checks(engine_gpus="cdi")
    assert "engine.cgroups" not in _checks(replace(DOCKER, cgroups="cgroupfs"))


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (_recorded("docker-version.bad-permission-denied.txt"), "usermod -aG docker"),
        ("docker is not installed", "apt-get install -y docker"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "systemctl start"),
        ("docker info did not answer within 30 s", "on that host: docker info"),
    ],
)
def test_a_daemon_that_does_not_answer_is_named_with_what_to_do(error: str, fix: str) -> None:
    found = _checks(Daemon(cli="docker", error=error))
    assert list(found) == ["engine.daemon"]
    assert found["engine.daemon"].refuses
    assert found["engine.daemon"].seen == error
    assert fix in found["engine.daemon"].fix


def test_no_way_to_the_gpu_is_refused_and_none_wanted_is_not() -> None:
    bare = replace(DOCKER, hook=False)
    assert _checks(bare)["engine.gpu"].refuses
    assert "nvidia-container-toolkit" in _checks(bare)["engine.gpu"].fix
    assert not _checks(bare, engine_gpus="none")["engine.gpu"].refuses
    podman = _checks(replace(DOCKER, cli="podman"))["engine.gpu"]
    assert podman.refuses
    assert "nvidia-ctk cdi generate" in podman.fix


def test_a_user_who_cannot_read_the_files_is_a_warning() -> None:
    assert _checks(engine_user="65534:65534")["engine.user"].severity is Severity.WARNING
    assert "engine.user" not in _checks(engine_user="host")


def _refused(**changes: Any) -> dict[str, Verdict]:
    return {name: verdict for name, verdict in _judged(**changes).items() if verdict.refuses}


def _judged(**changes: Any) -> dict[str, Verdict]:
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    facts["spark-1"] = replace(facts["spark-1"], listeners=changes.pop("listeners", ()))
    surveys = {name: survey(**changes) for name in facts}
    own = {name: settings(name) for name in facts}
    verdicts = check_hosts(facts, surveys, own, nodes=2)
    return {f"{one.check} {one.host}": one for one in verdicts}


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.juicefs", "ext4", "xfs", "overlay", ""])
def test_a_cache_of_kernels_on_the_network_is_warned_of(kind: str) -> None:
    found = _judged(cache_filesystem=kind).get("engine.cache spark-1")
    remote = kind in ("nfs4", "lustre", "fuse.juicefs")
    assert (found.severity if found else None) == (Severity.WARNING if remote else None)
    assert found is None or found.seen == f"{kind}, a network filesystem"


HIDDEN = Listener(address=IPv4Address("127.0.0.1"), port=8000, user="root", inode="77")
RUNNING = {"containers": ({"id": "1", "role": "serve"},), "hash": "h"}


def test_a_port_of_root_belongs_to_the_cluster_only_if_its_container_holds_the_socket() -> None:
    assert list(_refused(listeners=(HIDDEN,))) == ["host.port spark-1"]
    assert _refused(listeners=(HIDDEN,), sockets=frozenset({"77"}), **RUNNING) == {}
    refused = _refused(listeners=(HIDDEN,), sockets=frozenset({"78"}), **RUNNING)
    assert refused["host.port spark-1"].seen == "a port in use by a process of user root"


def test_a_port_whose_holder_cannot_be_resolved_is_said_to_be_unknown() -> None:
    verdict = _judged(listeners=(HIDDEN,), sockets=None, **RUNNING)["host.port spark-1"]
    assert verdict.severity is Severity.WARNING
    assert "unknown whether in a container of this cluster" in verdict.seen
    named = replace(HIDDEN, pid=4711, name="nginx")
    assert "host.port spark-1" in _refused(listeners=(named,), sockets=None, **RUNNING)


def test_a_container_that_publishes_the_port_is_named() -> None:
    published = {8000: "container web (nginx:1)"}
    refused = _refused(listeners=(HIDDEN,), published=published, **RUNNING)
    assert refused["host.port spark-1"].seen == "a port in use by container web (nginx:1)"


def test_a_container_on_the_hosts_network_that_holds_the_socket_is_named() -> None:
    for own in ({}, RUNNING):
        refused = _refused(listeners=(HIDDEN,), holders={"77": "container old (vllm:1)"}, **own)
        assert refused["host.port spark-1"].seen == "a port in use by container old (vllm:1)"
    refused = _refused(listeners=(HIDDEN,), holders={"78": "container old (vllm:1)"})
    assert refused["host.port spark-1"].seen == "a port in use by a process of user root"


def test_published_ports_are_read_with_their_ranges() -> None:
    text = (
        "web\tnginx:1\t0.0.0.0:8000->80/tcp, [::]:8000->80/tcp\n"
        "many\tx\t0.0.0.0:9000-9001->1-2/tcp, 0.0.0.0:53->53/udp\nbare\ty\t\n"
    )
    assert parse_published_ports(text) == {
        8000: "container web (nginx:1)",
        9000: "container many (x)",
        9001: "container many (x)",
    }


def test_one_cluster_has_one_kind_of_engine() -> None:
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    own = {
        "spark-1": settings("spark-1"),
        "spark-2": settings("spark-2", engine="podman"),
    }
    verdicts = check_hosts(facts, dict.fromkeys(own, survey()), own, nodes=2)
    (verdict,) = [one for one in verdicts if one.refuses]
    assert (verdict.host, verdict.seen, verdict.expected) == (
        "spark-2",
        "podman",
        "docker, as on spark-1",
    )
