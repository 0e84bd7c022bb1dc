"""`hosts.facts` and `hosts.check`: what they make of the facts of hosts."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import command_name
from sparkfleet.cli.context import NO_RECIPE, CommandContext
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.hosts.check import HostInspection, _check_hosts
from sparkfleet.cli.hosts.facts import format_facts
from sparkfleet.cli.views.verdicts import print_host_verdicts
from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Listener
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Cluster, Verdict
from sparkfleet.remote.pool import Answers
from sparkfleet.verdicts import ok, warning
from tests import gb10
from tests.scenes import inventory
from tests.surveys import make_survey

ROOT = Path(__file__).parents[3]
DENIED = "permission denied while trying to connect to the docker API"
LOST = {"spark-2": UnreachableError("no route", host="spark-2")}


def _survey(error: str = "") -> Survey:
    daemon = Daemon(cli="docker", version="29.1", error=error, hook=True)
    return make_survey(home="/home/u", folder="/home/u/vllm", daemon=daemon)


def _checked(facts: dict[str, HostFacts], error: str = "", lost: Any = None) -> tuple[Verdict, ...]:
    found = inventory(("spark-1", "spark-2"))
    cluster = Cluster(name="default", hosts=tuple(found.hosts.values()))
    resolved = CommandContext(files=("i",), inventory=found, cluster=cluster, recipe=NO_RECIPE)
    seen = {name: (one, _survey(error), None) for name, one in facts.items()}
    return _check_hosts(resolved, Answers(values=seen, errors=lost or {}))


def _pair() -> dict[str, HostFacts]:
    return {spark.name: spark.facts() for spark in gb10.pair()}


def test_two_good_hosts_are_reported_in_their_order_without_a_recipe() -> None:
    verdicts = _checked(_pair())
    assert not any(verdict.refuses for verdict in verdicts)
    assert list(dict.fromkeys(verdict.host for verdict in verdicts)) == ["spark-1", "spark-2"]
    assert {"host.login", "host.gpu", "host.driver", "engine.daemon"} <= {x.check for x in verdicts}


def test_a_host_without_gpu_group_and_port_is_refused_with_what_to_do() -> None:
    facts = _pair()
    held = Listener(address=IPv4Address("127.0.0.1"), port=8000, pid=7, name="nginx")
    facts["spark-1"] = replace(facts["spark-1"], gpus=(), listeners=(held,))
    refused = {x.check: x for x in _checked(facts, DENIED) if x.refuses and x.host == "spark-1"}
    assert refused.keys() == {"host.gpu", "host.port", "engine.daemon"}
    assert all(verdict.fix for verdict in refused.values())
    assert "docker $USER" in refused["engine.daemon"].fix


def test_what_must_be_equal_is_reported_for_the_other_host() -> None:
    facts = _pair()
    system = replace(facts["spark-2"].system, kernel="6.17.0-1-nvidia")
    facts["spark-2"] = replace(facts["spark-2"], system=system)
    result = [x for x in _checked(facts) if x.check == "host.kernel"]
    assert [(x.host, x.seen) for x in result] == [("spark-2", "6.17.0-1-nvidia")]


def test_a_host_that_does_not_answer_leaves_the_others_checked() -> None:
    facts = {"spark-1": _pair()["spark-1"]}
    assert {verdict.host for verdict in _checked(facts, lost=LOST)} == {"spark-1"}
    assert _checked({}, lost=LOST) == ()


def test_the_exit_code_adds_up_refusals_and_errors() -> None:
    failed = {"a": CommandError("no python3", host="a")}
    assert compute_exit_code() == 0
    assert compute_exit_code(refused=True) == 2
    assert compute_exit_code(LOST.values()) == 4
    assert compute_exit_code(LOST.values(), refused=True) == 6
    assert compute_exit_code(failed.values(), refused=True) == 2


def test_facts_are_rows_with_the_rails_of_the_host() -> None:
    result = dict(format_facts(_pair()["spark-1"]))
    assert result["GPU"] == "NVIDIA GB10"
    assert "enp1s0f1np1 192.168.100.1/24 MTU 9000" in result["rails"]
    assert "enp1s0f0np0 down" in result["rails"]


def test_a_host_without_any_facts_still_has_every_row() -> None:
    empty = HostFacts(host="x", fabric=False)
    assert dict(format_facts(empty)).keys() == dict(format_facts(_pair()["spark-1"])).keys()
    assert dict(format_facts(empty))["memory"] == ""


def test_warnings_are_shown_once_for_all_hosts_and_passed_checks_only_if_verbose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hosts = tuple(inventory(("spark-1", "spark-2")).hosts.values())
    texts = {"expected": "one", "seen": "none"}
    verdicts = [
        build("host.x", host.name, "a kernel", **texts) for build in (warning, ok) for host in hosts
    ]
    shared = "warning: spark-1, spark-2: a kernel: expected one, saw none"
    count = "4 checks: 2 ok, 2 warnings"
    print_host_verdicts(tuple(verdicts), {})
    assert capsys.readouterr().out.splitlines() == [shared, count]
    print_host_verdicts(tuple(verdicts), {}, verbose=True)
    assert capsys.readouterr().out.splitlines() == [
        shared,
        "ok: spark-1: a kernel: expected one, saw none",
        "ok: spark-2: a kernel: expected one, saw none",
        count,
    ]


def test_the_example_in_the_document_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command_name._state, "program", "invoke")
    found = inventory(("spark-01", "spark-02"), vllm_host="127.0.0.1")
    cluster = Cluster(name="default", hosts=tuple(found.hosts.values()))
    resolved = CommandContext(files=("i",), inventory=found, cluster=cluster, recipe=NO_RECIPE)
    seen: dict[str, HostInspection] = {
        name: (replace(facts, host=name), _survey(error), None)
        for (name, error), facts in zip(
            (("spark-01", ""), ("spark-02", DENIED)), _pair().values(), strict=True
        )
    }
    answers = Answers(values=seen, errors={})
    print_host_verdicts(_check_hosts(resolved, answers), {})
    document = " ".join((ROOT / "docs/hosts.md").read_text().split())
    assert " ".join(capsys.readouterr().out.split()) in document
