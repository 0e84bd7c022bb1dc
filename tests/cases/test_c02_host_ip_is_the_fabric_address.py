"""C02: Ray ran on the fabric address and vLLM waited for the Ethernet address for ever."""

from __future__ import annotations

import re

from sparkfleet.launch.startup.placement_group import check_placement_group
from tests.engines import deployed
from tests.gb10 import MANAGEMENT, Cluster, output, pair

RECORDED = "ray-vllm-log.bad-placement-group-waits-for-eth-ip.txt"


def test_every_rank_has_its_own_fabric_address() -> None:
    cluster = Cluster(*pair())
    assert cluster.env("spark-1")["VLLM_HOST_IP"] == "192.168.100.1"
    assert cluster.env("spark-2")["VLLM_HOST_IP"] == "192.168.100.2"


def test_it_is_the_address_that_the_fabric_names_for_ray() -> None:
    cluster = Cluster(*pair())
    for host in ("spark-1", "spark-2"):
        assert cluster.env(host)["VLLM_HOST_IP"] == str(cluster.fabric.address(host))


def test_the_ethernet_address_that_the_recorded_log_waits_for_never_appears() -> None:
    waited_for = re.search(r"'node:([\d.]+)'", output(RECORDED))
    assert waited_for is not None
    sparks = pair()
    sparks[0].addresses[MANAGEMENT] = f"{waited_for[1]}/24"
    assert waited_for[1] not in Cluster(*sparks).env("spark-1").values()


def test_the_wait_of_the_recorded_log_ends_the_start_with_both_addresses() -> None:
    made, _ = deployed(hosts=2)
    lines = output(RECORDED).splitlines()
    (result,) = [text for line in lines if (text := check_placement_group(made, line))]
    assert result == (
        "vLLM waits for a GPU on 192.168.50.192, which is not a Ray node; "
        "Ray nodes: 192.168.100.1, 192.168.100.2"
    )


def test_a_wait_for_a_node_that_ray_has_is_bounded_too_and_distinguished() -> None:
    made, _ = deployed(hosts=2)
    line = output(RECORDED).splitlines()[-1].replace("192.168.50.192", "192.168.100.1")
    assert "pending for 70 s: no free GPU on Ray nodes" in check_placement_group(made, line)
    assert check_placement_group(made, line.replace("for 70 seconds", "for 30 seconds")) == ""
