"""Verdicts of the preflight, and when a deployment has to be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from sparkfleet.actions.deploy.render import explain_difference
from sparkfleet.facts.machine import Listener
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.endpoint.health import ClusterHealth, HealthState
from sparkfleet.launch.host.survey import Survey, parse_survey
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.model import Host, Value, Verdict
from sparkfleet.recipes.settings import Settings
from tests import gb10
from tests.surveys import make_survey

ENGINE = {"path": "/v", "exists": True, "vllm": "0.32.0", "ray": "2.60.0", "torch": "2.13.0"}
NAMES = ("spark-1", "spark-2")


def _survey(**changes: Any) -> Survey:
    survey = make_survey(files={"nccl.env": "A=1\n"}, engine=ENGINE)
    return replace(survey, **changes)


def _judge(
    surveys: Mapping[str, Survey], *, nodes: int = 2, listeners: tuple[Listener, ...] = ()
) -> dict[str, Verdict]:
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    facts["spark-1"] = replace(facts["spark-1"], listeners=listeners)
    host = {name: Host(name=name, vars={"engine_venv": Value(data="~/v")}) for name in NAMES}
    settings = {name: Settings(host=host[name]) for name in NAMES[:nodes]}
    verdicts = check_hosts(facts, surveys, settings, nodes=nodes)
    return {f"{v.check} {v.host}": v for v in verdicts if v.refuses}


def test_two_equal_healthy_hosts_pass() -> None:
    assert _judge(dict.fromkeys(NAMES, _survey())) == {}


def test_a_missing_environment_differs_from_a_missing_package() -> None:
    bare = {"path": "/v", "exists": True}
    nothing = {"path": "/v", "exists": False}
    refused = _judge({"spark-1": _survey(engine=bare), "spark-2": _survey(engine=nothing)})
    assert refused["engine.vllm spark-1"].seen == "not installed"
    assert refused["engine.vllm spark-2"].seen == "environment not found"


def _judge_solo(variables: Mapping[str, Any], *, fabric: bool = True) -> dict[str, Verdict]:
    """Return the refusals of a solo start, which does not read the fabric (`fabric`)."""
    spark = gb10.pair()[0]
    spark.addresses[gb10.F0] = "192.168.9.1/24"  # its cage has no cable
    given = {"engine_venv": Value(data="~/v"), "vllm_env": Value(data=variables)}
    settings = {spark.name: Settings(host=Host(name=spark.name, vars=given))}
    surveys = {spark.name: _survey()}
    facts = spark.facts()
    facts = facts if fabric else replace(facts, fabric=False, hcas=())
    found = check_hosts({spark.name: facts}, surveys, settings, nodes=1)
    return {verdict.subject: verdict for verdict in found if verdict.refuses}


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0", "eth0: no such interface"),
        ("TP_SOCKET_IFNAME", f"{gb10.F1},eth1", "eth1: no such interface"),
        ("NCCL_SOCKET_IFNAME", "=enp1s0f1", "enp1s0f1: no such interface"),
        ("GLOO_SOCKET_IFNAME", gb10.F0, f"{gb10.F0}: it has an address but no carrier"),
        ("GLOO_SOCKET_IFNAME", gb10.WIFI, f"{gb10.WIFI}: it has no IPv4 address"),
        ("UCX_NET_DEVICES", "mlx5_0:1", "mlx5_0: no such interface"),
        ("VLLM_HOST_IP", "10.9.9.9", "10.9.9.9, which no interface has"),
    ],
)
def test_a_solo_start_is_refused_for_an_interface_that_the_host_does_not_have(
    name: str, value: str, seen: str
) -> None:
    found = _judge_solo({name: value})
    assert list(found) == [name]
    assert found[name].seen == seen
    assert "vllm_env" in found[name].source


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLOO_SOCKET_IFNAME", "lo"),
        ("GLOO_SOCKET_IFNAME", gb10.F1),
        ("NCCL_SOCKET_IFNAME", "enp1s0f1"),
        ("NCCL_SOCKET_IFNAME", "^docker0"),
        ("UCX_NET_DEVICES", "all"),
        ("UCX_NET_DEVICES", "rocep1s0f1:1"),
        ("VLLM_HOST_IP", "127.0.0.1"),
        ("VLLM_HOST_IP", "192.168.100.1"),
        ("GLOO_SOCKET_IFNAME", None),
    ],
)
def test_a_solo_start_with_an_interface_that_has_a_link_passes(
    name: str, value: str | None
) -> None:
    assert _judge_solo({name: value}) == {}


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("eth9", True),
        ("eth9:1", True),
        (gb10.F1, False),
        ("rocep1s0f1:1", False),
        ("roceP2p1s0f1", False),
        ("mlx5_0:1", False),
        ("ibp3s0", False),
    ],
)
def test_a_name_that_no_rdma_device_has_is_refused_where_those_were_not_read(
    value: str,
    refused: bool,
) -> None:
    assert ("UCX_NET_DEVICES" in _judge_solo({"UCX_NET_DEVICES": value}, fabric=False)) is refused


def test_solo_needs_no_ray() -> None:
    engine = {name: version for name, version in ENGINE.items() if name != "ray"}
    assert _judge({"spark-1": _survey(engine=engine)}, nodes=1) == {}
    assert "engine.ray spark-1" in _judge(dict.fromkeys(NAMES, _survey(engine=engine)))


def test_versions_that_differ_between_hosts_refuse() -> None:
    other = _survey(engine={**ENGINE, "ray": "2.55.0"})
    refused = _judge({"spark-1": _survey(), "spark-2": other})
    assert list(refused) == ["engine.same spark-2"]
    assert "2.60.0, as on spark-1" in str(refused["engine.same spark-2"])


@pytest.mark.parametrize(("pid", "refuses"), [(42, False), (77, True), (None, True)])
def test_a_port_refuses_unless_the_deployment_holds_it(pid: int | None, refuses: bool) -> None:
    ours = _survey(hash="h", processes=({"pid": 42, "began": 1, "command": "vllm"},))
    held = Listener(address=ip_address("127.0.0.1"), port=8000, pid=pid, name="nginx")
    refused = _judge({"spark-1": ours, "spark-2": _survey()}, listeners=(held,))
    assert bool(refused) is refuses


def test_a_labelled_process_without_a_record_refuses() -> None:
    orphan = _survey(processes=({"pid": 42, "began": 1, "command": "vllm"},))
    refused = _judge({"spark-1": orphan, "spark-2": _survey()})
    assert list(refused) == ["host.orphans spark-1"]
    assert "cluster.down" in refused["host.orphans spark-1"].fix


def test_a_survey_shows_which_roles_died() -> None:
    role = {"pid": 7, "began": 100, "script": "ray-head.sh"}
    answer = {
        "home": "/h",
        "folder": "/f",
        "files": {},
        "record": {"hash": "abc", "roles": {"ray": role, "serve": {**role, "pid": 8}}},
        "processes": [
            {"pid": 7, "began": 100, "command": ""},
            {"pid": 8, "began": 999, "command": ""},
        ],
        "engine": None,
    }
    assert parse_survey(answer).dead == ("serve",)


def _deployment() -> Deployment:
    files = {name: {"nccl.env": "A=1\n"} for name in NAMES}
    return Deployment(
        cluster="default", tp=2, pp=1, served_name="m", port=8000, files=files, hash="h1"
    )


HEAD = {"ray": "ray-head.sh", "serve": "vllm-serve.sh"}
WORKER = {"ray": "ray-worker.sh"}


def test_an_unchanged_deployment_is_left_alone() -> None:
    surveys = {
        "spark-1": _survey(hash="h1", roles=HEAD),
        "spark-2": _survey(hash="h1", roles=WORKER),
    }
    assert explain_difference(_deployment(), surveys) == ""
    serving = ClusterHealth(state=HealthState.SERVING, reason="2 ranks, /health answers")
    assert explain_difference(_deployment(), surveys, serving) == ""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (HealthState.WEDGED, "wedged: why"),
        (HealthState.RANK_LOST, "rank lost: why"),
        (HealthState.DEGRADED, ""),  # a start would not repair it
        (HealthState.STARTING, ""),
        (HealthState.UNKNOWN, ""),
    ],
)
def test_a_deployment_that_stopped_serving_is_started_again(
    state: HealthState, reason: str
) -> None:
    surveys = {
        "spark-1": _survey(hash="h1", roles=HEAD),
        "spark-2": _survey(hash="h1", roles=WORKER),
    }
    health = ClusterHealth(state=state, reason="why")
    assert explain_difference(_deployment(), surveys, health) == reason


def test_on_a_first_start_no_host_is_named() -> None:
    surveys = dict.fromkeys(NAMES, _survey())
    assert explain_difference(_deployment(), surveys) == "no deployment is running"


def test_a_partial_deployment_is_started_again() -> None:
    surveys = dict.fromkeys(NAMES, _survey(hash="h1", roles=WORKER))
    assert explain_difference(_deployment(), surveys) == "serve is not running on spark-1"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "no deployment is running on spark-2"),
        ({"hash": "h1", "dead": ("ray",)}, "ray died on spark-2"),
        ({"hash": "h0"}, "the weights or the engine changed on spark-2"),
        ({"hash": "h0", "files": {"nccl.env": "A=2\n"}}, "nccl.env changed on spark-2"),
    ],
)
def test_one_host_that_differs_is_reason_enough(changes: dict[str, Any], reason: str) -> None:
    surveys = {"spark-1": _survey(hash="h1", roles=HEAD), "spark-2": _survey(**changes)}
    assert explain_difference(_deployment(), surveys) == reason
