"""A setting that a fix names is set as the fix says, and the check runs again."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.variables import VARIABLES
from tests.gb10 import F0, F1, MANAGEMENT, P2F0, P2F1, Cluster, Spark, pair, ring, switch

PCI = "/sys/bus/pci/devices"
NETDEV = "/sys/class/net"
Sparks = tuple[Spark, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A check that fires on `sparks` made with `wrong` variables, and is silent with `right`.

    `name` is the variable that its fix names.
    """

    check: str
    name: str
    sparks: Callable[..., Sparks]
    right: Mapping[str, Any]
    wrong: Mapping[str, Any] = field(default_factory=dict)


def _one_rail(**variables: Any) -> Sparks:
    """Return a pair whose second rails have a link and no addresses."""
    sparks = tuple(
        Spark(f"spark-{number}", {F1: f"192.168.101.{number}/24"}, **variables) for number in (1, 2)
    )
    for spark in sparks:
        spark.port(P2F1, up=True)
    return sparks


def _rail_in_no_subnet(**variables: Any) -> Sparks:
    head, worker = pair(**variables)
    head.addresses[P2F1] = "192.168.250.1/24"
    head.gids(P2F1)
    return head, worker


def _slow(**variables: Any) -> Sparks:
    sparks = pair(**variables)
    for spark in sparks:
        for rail in (F1, P2F1):
            spark.text(f"{NETDEV}/{rail}/speed", "100000")
    return sparks


def _limited(**variables: Any) -> Sparks:
    sparks = pair(**variables)
    for spark in sparks:
        spark.text("memlock", str(1 << 30))
    return sparks


def _two_cables(**variables: Any) -> Sparks:
    rails = (F0, P2F0, F1, P2F1)
    return tuple(
        Spark(
            f"spark-{number}",
            {rail: f"192.168.{100 + at}.{number}/24" for at, rail in enumerate(rails)},
            **variables,
        )
        for number in (1, 2)
    )


def _ring_of_two_networks(**variables: Any) -> Sparks:
    """Return a ring whose hosts meet on two networks outside it."""
    sparks = ring(3, **variables)
    for spark in sparks:
        spark.text(NETDEV, spark.items[NETDEV]["text"] + "\neth1")
        spark.netdev("eth1", carrier="1", mtu="1500", device="../../../0008:01:00.0")
        spark.addresses["eth1"] = f"192.168.7.{spark.number}/24"
    return sparks


CASES = (
    Case(
        check="link.unused",
        name="link_interfaces",
        sparks=_one_rail,
        right={"link_interfaces": [F1]},
    ),
    Case(
        check="link.subnet",
        name="link_interfaces",
        sparks=_rail_in_no_subnet,
        right={"link_interfaces": [F1]},
    ),
    Case(
        check="link.choice",
        name="link_interfaces",
        sparks=_two_cables,
        right={"link_interfaces": [F0, P2F0, F1, P2F1]},
    ),
    Case(
        check="env.hca",
        name="link_interfaces",
        sparks=pair,
        wrong={"nccl_ib_hca": "rocep1s0f1"},
        right={"nccl_ib_hca": "rocep1s0f1", "link_interfaces": [F1]},
    ),
    Case(
        check="rdma.device",
        name="link_interfaces",
        sparks=pair,
        wrong={"link_interfaces": [MANAGEMENT]},
        right={"link_interfaces": [F1, P2F1]},
    ),
    Case(
        check="link.speed",
        name="link_speed",
        sparks=_slow,
        right={"link_speed": 100000},
    ),
    Case(
        check="rdma.memlock",
        name="link_memlock",
        sparks=_limited,
        wrong={"engine": "native"},
        right={"engine": "native", "link_memlock": "1GiB"},
    ),
    Case(
        check="link.expected_rails",
        name="link_rails",
        sparks=pair,
        wrong={"link_rails": 4},
        right={"link_rails": 2},
    ),
    Case(
        check="link.expected_rails",
        name="link_interfaces",
        sparks=_two_cables,
        wrong={"link_rails": 4, "link_interfaces": [F0]},
        right={"link_rails": 4, "link_interfaces": [F0, P2F0, F1, P2F1]},
    ),
    Case(
        check="ring.control",
        name="link_control_interface",
        sparks=_ring_of_two_networks,
        right={"link_control_interface": MANAGEMENT},
    ),
    *(
        Case(
            check="rdma.gid_index",
            name="NCCL_IB_GID_INDEX",
            sparks=pair,
            wrong=wrong,
            right={name: {} for name in wrong if name.endswith("_env")},
        )
        for wrong in (
            {"nccl_ib_gid_index": 5},
            {"nccl_env": {"NCCL_IB_GID_INDEX": "5"}},
            {"vllm_env": {"NCCL_IB_GID_INDEX": "5"}},
        )
    ),
    *(
        Case(
            check="ring.settings",
            name="NCCL_ALGO",
            sparks=lambda **variables: ring(4, **variables),
            wrong={place: {"NCCL_ALGO": "Tree"}},
            right={place: {}},
        )
        for place in ("nccl_env", "vllm_env")
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.name}")
def test_setting_what_a_fix_names_ends_its_check(case: Case) -> None:
    fired = Cluster(*case.sparks(**case.wrong)).found(case.check)
    assert fired
    places = [place for place in case.wrong if place.endswith("_env")]
    for verdict in fired:
        assert case.name.lower() in verdict.fix.lower()
        assert all(f"from {place}" in verdict.fix for place in places)
    assert Cluster(*case.sparks(**case.right)).found(case.check) == []


def test_the_order_that_a_ring_needs_ends_its_check() -> None:
    first, second, third, fourth = ring(4)
    (fix,) = {x.fix for x in Cluster(first, third, second, fourth).found("ring.order")}
    names = fix.removeprefix("list the hosts in this order in the inventory: ").split(", ")
    by_name = {spark.name: spark for spark in ring(4)}
    assert Cluster(*(by_name[name] for name in names)).found("ring.order") == []


@pytest.mark.parametrize("hosts", [2, 3])
def test_removing_the_route_that_a_fix_names_ends_its_check(hosts: int) -> None:
    sparks = switch(hosts)
    sparks[0].extra_routes = [
        {"dst": "192.168.100.2", "gateway": "192.168.1.254", "dev": MANAGEMENT}
    ]
    assert "remove the more specific route" in Cluster(*sparks).found("link.route")[0].fix
    sparks[0].extra_routes = []
    assert Cluster(*sparks).found("link.route") == []


def test_the_address_that_a_fix_asks_for_ends_its_check() -> None:
    sparks = _one_rail()
    assert all("{task:links.apply}" in x.fix or "links.apply" in x.fix
               for x in Cluster(*sparks).found("link.unused"))  # fmt: skip
    for spark in sparks:
        spark.addresses[P2F1] = f"192.168.102.{spark.number}/24"
        spark.gids(P2F1)
    assert Cluster(*sparks).found("link.unused") == []


def test_every_setting_that_a_check_of_links_names_is_applied_here() -> None:
    """A new fix that names a variable of the inventory needs a case above."""
    named: set[str] = set()
    for path in Path(str(links.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg in ("fix", "hint"):
                words = {
                    word
                    for text in ast.walk(node.value)
                    if isinstance(text, ast.Constant) and isinstance(text.value, str)
                    for word in re.findall(r"\w+_\w+", text.value)
                }
                named |= words & set(VARIABLES)
    elsewhere = {
        "link_addresses",  # test_links_expectations.py
        "link_cables",
        "link_topology",
        "nccl_env",  # test_links_fixes.py, as all removals
    }
    assert named - elsewhere <= {case.name for case in CASES}
