"""Every fix of a variable is applied as it is printed, and the check runs again."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.links.checks import nccl_variables, overruled_values, socket_variables
from sparkfleet.links.checks.interface_names import check_interface_names
from tests.gb10 import F0, F1, MANAGEMENT, P2F1, Cluster, Spark, pair

REMOVE = re.compile(r"remove (\w+)(?: from ((?:\w+)(?: and \w+)*))?")
Variables = Mapping[str, Any]

# check, variables of both hosts
WRONG: tuple[tuple[str, Variables], ...] = (
    ("env.placeholder", {"nccl_env": {"NCCL_IB_HCA": "rocepXs1f1"}}),
    ("env.placeholder", {"vllm_env": {"NCCL_IB_HCA": "<hca>"}}),
    ("env.hca", {"nccl_env": {"NCCL_IB_HCA": "mlx5_9"}}),
    ("env.hca", {"vllm_env": {"NCCL_IB_HCA": "mlx5_9"}}),
    ("env.hca", {"nccl_ib_hca": "mlx5_9"}),
    ("env.hca", {"vllm_env": {"NCCL_IB_HCA": "mlx5_9"}, "nccl_env": {"NCCL_IB_HCA": "mlx5_8"}}),
    ("env.hca", {"vllm_env": {"NCCL_IB_HCA": "mlx5_9"}, "nccl_ib_hca": "mlx5_8"}),
    ("env.host_ip", {"vllm_env": {"VLLM_HOST_IP": "10.0.0.9"}}),
    ("env.host_ip", {"nccl_env": {"VLLM_HOST_IP": "10.0.0.9"}}),
    ("env.host_ip", {"vllm_env": {"VLLM_HOST_IP": None}}),
    ("env.empty", {"vllm_env": {"NCCL_DEBUG": ""}}),
    ("env.empty", {"nccl_env": {"NCCL_DEBUG": ""}}),
    ("env.disabled", {"vllm_env": {"NCCL_IB_DISABLE": "1"}}),
    ("env.disabled", {"nccl_env": {"NCCL_IB_DISABLE": "1"}}),
    ("env.socket", {"vllm_env": {"GLOO_SOCKET_IFNAME": "eth9"}}),
    ("env.socket", {"nccl_env": {"NCCL_SOCKET_IFNAME": "eth9"}}),
    ("env.socket", {"nccl_env": {"TP_SOCKET_IFNAME": "x"}, "vllm_env": {"TP_SOCKET_IFNAME": "y"}}),
)


def _apply(fix: str, variables: Variables) -> Variables:
    """Return the variables without what a fix says to remove, which must be among them."""
    found = REMOVE.match(fix)
    assert found, f"a fix that says nothing to remove: {fix}"
    changed = copy.deepcopy(dict(variables))
    name, places = found.groups()
    if places is None:
        del changed[name]
        return changed
    for place in places.split(" and "):
        if place == name.lower():
            del changed[place]
        else:
            del changed[place][name]
    return changed


@pytest.mark.parametrize(("check", "variables"), WRONG)
def test_a_fix_of_a_variable_removes_its_cause(check: str, variables: Variables) -> None:
    verdicts = Cluster(*pair(**variables)).found(check)
    assert verdicts
    for verdict in verdicts:
        assert Cluster(*pair(**_apply(verdict.fix, variables))).found(check) == []


def test_every_check_of_a_variable_has_such_a_fix() -> None:
    noted = {"env.bootstrap", "env.ranks", "env.inherited", "env.overruled"}  # below
    source = "".join(
        Path(str(module.__file__)).read_text()
        for module in (nccl_variables, socket_variables, overruled_values)
    )
    assert set(re.findall(r'"(env\.\w+)"', source)) == {check for check, _ in WRONG} | noted


def test_a_variable_of_one_host_is_equal_once_the_group_has_it() -> None:
    head, worker = pair()
    worker.variables["nccl_env"] = {"NCCL_DEBUG": "INFO"}
    (verdict,) = Cluster(head, worker).found("env.ranks")
    assert verdict.fix == "set NCCL_DEBUG for the group, not for one host"
    assert Cluster(*pair(nccl_env={"NCCL_DEBUG": "INFO"})).found("env.ranks") == []


def test_a_variable_of_the_login_is_silent_once_it_is_removed_there() -> None:
    head, worker = pair()
    head.text("environment", "NCCL_DEBUG=INFO")
    (verdict,) = Cluster(head, worker).found("env.inherited")
    assert verdict.fix == "remove it there, or set it in nccl_env"
    assert Cluster(*pair(nccl_env={"NCCL_DEBUG": "INFO"})).found("env.inherited") == []
    head.text("environment", "")
    assert Cluster(head, worker).found("env.inherited") == []


def test_removing_the_overruled_value_ends_the_warning() -> None:
    both: dict[str, Any] = {
        "nccl_env": {"NCCL_DEBUG": "INFO"},
        "vllm_env": {"NCCL_DEBUG": "WARN"},
    }
    assert Cluster(*pair(**both)).found("env.overruled")
    assert Cluster(*pair(vllm_env=both["vllm_env"])).found("env.overruled") == []


@pytest.mark.parametrize(
    "variables", [{"GLOO_SOCKET_IFNAME": "eth9"}, {"VLLM_HOST_IP": "10.0.0.9"}]
)
def test_a_fix_on_one_spark_names_the_place_and_no_fabric(variables: dict[str, str]) -> None:
    """In solo there is no fabric: `link_interfaces` would have no effect."""
    facts = pair()[0].facts()
    sources = dict.fromkeys(variables, "vllm_env at inventory.yml:3:7")
    (verdict,) = check_interface_names(facts, variables, sources)
    assert "from vllm_env at inventory.yml:3:7" in verdict.fix
    assert "link_interfaces" not in verdict.fix
    after = _apply(verdict.fix, {"vllm_env": variables})["vllm_env"]
    assert list(check_interface_names(facts, after, {})) == []


def test_what_is_wrong_is_explained_by_the_interfaces_that_were_named() -> None:
    """Rails that are up and were not named do not explain why a named one cannot be used."""
    head, worker = pair(link_interfaces=[F0])
    refused = Cluster(head, worker).found("link.cable")
    assert {verdict.subject for verdict in refused} == {F0}
    assert Cluster(head, worker).found("link.subnet") == []


def test_a_named_interface_that_does_not_exist_is_not_explained_by_others() -> None:
    head, worker = pair(link_interfaces=["eth9"])
    cluster = Cluster(head, worker)
    assert {verdict.check for verdict in cluster.found("link.interface")} == {"link.interface"}
    assert all(F1 not in verdict.subject for verdict in cluster.found("link.subnet"))


def test_naming_the_rails_of_one_cage_ends_the_choice() -> None:
    twice = _two_cables()
    assert Cluster(*twice).found("link.choice")
    named = _two_cables(link_interfaces=[F1, P2F1])
    assert Cluster(*named).found("link.choice") == []
    assert MANAGEMENT not in {rail.name for rail in Cluster(*named).fabric.rails["spark-1"]}


def _two_cables(**variables: Any) -> tuple[Spark, Spark]:
    return tuple(  # type: ignore[return-value]  # two
        Spark(
            f"spark-{number}",
            {F0: f"192.168.102.{number}/24", F1: f"192.168.100.{number}/24",
             P2F1: f"192.168.101.{number}/24"},
            **variables,
        )
        for number in (1, 2)
    )  # fmt: skip
