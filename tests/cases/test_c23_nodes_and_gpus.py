"""C23: Ray had two GPUs, both of one Spark, since the worker's script ran on the head.

N distinct nodes and N GPUs are asked for, and the two shortages have two messages.
"""

from __future__ import annotations

import re

import pytest

from sparkfleet.launch.startup.join import check_ray_nodes
from tests.gb10 import output

WANTED = {"spark-1": "192.168.100.1", "spark-2": "192.168.100.2"}


def _recorded(name: str) -> dict[str, float]:
    """Return the nodes of a recorded `ray status`, which names none, with their GPUs."""
    text = output(name)
    nodes = len(re.findall(r"^ 1 node_", text, re.MULTILINE))
    gpus = re.search(r"/([\d.]+) GPU", text)
    assert gpus is not None
    return {address: float(gpus[1]) / nodes for address in list(WANTED.values())[:nodes]}


def test_the_recorded_pair_is_a_group() -> None:
    assert check_ray_nodes(_recorded("ray-status.good-two-gb10.txt"), WANTED) == ""


def test_the_recorded_head_alone_is_none() -> None:
    text = check_ray_nodes(_recorded("ray-status.bad-head-only.txt"), WANTED)
    assert text == "spark-2 (192.168.100.2) did not join Ray; its nodes: 192.168.100.1 (1 GPU)"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"192.168.100.1": 2.0}, "did not join Ray; its nodes: 192.168.100.1 (2 GPUs)"),
        ({"192.168.100.1": 2.0, "192.168.100.2": 0.0},
         "spark-2 (192.168.100.2) joined Ray without a GPU"),
        ({"192.168.100.1": 1.0, "192.168.100.9": 1.0}, "spark-2 (192.168.100.2) did not join Ray"),
        ({}, "its nodes: no nodes"),
    ],
)  # fmt: skip
def test_enough_gpus_are_not_enough_nodes_and_the_reverse(
    nodes: dict[str, float], expected: str
) -> None:
    assert expected in check_ray_nodes(nodes, WANTED)
