"""C04: the doctor was green and ranks met over Wi-Fi: reach must be proven on the fabric."""

from __future__ import annotations

from typing import Any

from sparkfleet import links
from sparkfleet.links.reachability.plan import FREE_PORT, PORTS, ReachReport
from tests.gb10 import Cluster, pair

GOOD = {"sent": 50, "received": 50, "last": 50, "complete": True, "why": ""}


def _roles(cluster: Cluster) -> Any:
    return links.plan_reachability(cluster.fabric, cluster.hosts)


def test_host_ip_is_set_on_every_rank() -> None:
    cluster = Cluster(*pair())
    assert all(cluster.env(host.name)["VLLM_HOST_IP"] for host in cluster.hosts)


def test_a_port_is_opened_on_each_fabric_address_and_called_by_every_peer() -> None:
    roles = _roles(Cluster(*pair()))
    opened = {address for address, _ in roles["spark-2"].listen}
    called = {str(call.to.ip) for call in roles["spark-1"].calls}
    assert opened == called == {"192.168.100.2", "192.168.101.2"}
    assert len(roles["spark-1"].calls) == 2 * (len(PORTS["ray"]) + 1)


def test_ranks_that_meet_without_ray_need_the_master_port_only() -> None:
    calls = _roles(Cluster(*pair(vllm_executor="mp")))["spark-1"].calls
    assert {call.port for call in calls} == {29501, FREE_PORT}
    cluster = Cluster(*pair(vllm_executor="mp"))
    copies = links.plan_reachability(cluster.fabric, cluster.hosts, copies=2)["spark-1"].calls
    assert {call.port for call in copies} == {29501, 29550, FREE_PORT}
    both = _roles(Cluster(*pair(vllm_executor="auto")))["spark-1"].calls
    assert {29501, 6379} < {call.port for call in both}


def test_a_call_leaves_by_the_rail_in_the_same_subnet() -> None:
    for call in _roles(Cluster(*pair(1, 0)))["spark-1"].calls:
        assert call.rail.network == call.to.network


def test_a_silent_peer_is_an_error_that_names_both_ends() -> None:
    cluster = Cluster(*pair())
    roles = _roles(cluster)
    dead = {"connected": False, "why": "timed out"}
    reports = {
        name: ReachReport(
            nonce="n",
            connections=(dead,) * len(role.calls),
            pings=({"small": GOOD, "large": GOOD},) * len(role.pings),
        )
        for name, role in roles.items()
    }
    verdicts = [x for x in links.judge_reach(roles, reports) if x.host == "spark-1"]
    assert [x.check for x in verdicts] == ["link.path", "link.path"]
    assert verdicts[0].refuses
    assert "spark-2 at 192.168.100.2" in verdicts[0].expected
    assert verdicts[0].seen == "timed out"
