from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from sparkfleet.links import Samples
from sparkfleet.links.bandwidth.collective import Collective
from sparkfleet.links.bandwidth.perftest import CollectiveRow
from sparkfleet.links.drawing import svg_map, svg_plot, text_map
from sparkfleet.links.drawing.svg_map import COLOURS
from sparkfleet.model import Severity
from tests.gb10 import Cluster, pair, ring, switch
from tests.measured import rates

SVG = "{http://www.w3.org/2000/svg}"
PAIR = """\
spark-1 port 1                                     =====  spark-2 port 0
  enp1s0f1np1    rocep1s0f1    192.168.100.1/24    -----    enp1s0f0np0    rocep1s0f0    192.168.100.2/24
  enP2p1s0f1np1  roceP2p1s0f1  192.168.101.1/24    -----    enP2p1s0f0np0  roceP2p1s0f0  192.168.101.2/24
"""  # noqa: E501 - as a terminal shows it
SWITCH = """\
switch  192.168.100.0/24, 192.168.101.0/24
|-- spark-1 port 1
|     enp1s0f1np1    rocep1s0f1    192.168.100.1/24
|     enP2p1s0f1np1  roceP2p1s0f1  192.168.101.1/24
|-- spark-2 port 1
|     enp1s0f1np1    rocep1s0f1    192.168.100.2/24
|     enP2p1s0f1np1  roceP2p1s0f1  192.168.101.2/24
`-- spark-3 port 1
      enp1s0f1np1    rocep1s0f1    192.168.100.3/24
      enP2p1s0f1np1  roceP2p1s0f1  192.168.101.3/24
"""


def _text(cluster: Cluster) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text_map.render_text_map(cluster.fabric))


def test_a_pair_is_two_cages_and_the_rails_between_them() -> None:
    lines = [" ".join(line.split()) for line in _text(Cluster(*pair(1, 0))).splitlines()]
    assert lines == [" ".join(line.split()) for line in PAIR.splitlines()]


def test_a_narrow_terminal_has_the_two_ends_of_a_rail_below_each_other() -> None:
    fabric = Cluster(*pair(1, 0)).fabric
    lines = list(text_map.render_text_map(fabric, 80))
    assert max(map(len, lines)) <= 80
    assert lines[0] == "spark-1 port 1  =====  spark-2 port 0"
    assert [line.split()[0] for line in lines[1:3]] == ["enp1s0f1np1", "-----"]
    assert list(text_map.render_text_map(fabric, 200)) == list(text_map.render_text_map(fabric))


def test_a_switch_is_a_tree_of_cages() -> None:
    assert _text(Cluster(*switch(3))) == SWITCH


def test_a_ring_shows_its_order_and_where_all_meet() -> None:
    text = _text(Cluster(*ring(3)))
    assert text.count("=====") == 3
    assert "ring: spark-1 - spark-2 - spark-3 - spark-1" in text
    assert "meet on: spark-1 enP7s7 192.168.1.1, spark-2 enP7s7 192.168.1.2" in text


def test_a_rail_without_a_carrier_is_down() -> None:
    head, peer = pair(1, 0)
    head.netdev("enp1s0f1np1", carrier="0")
    cluster = Cluster(head, peer)
    down = [line for line in _text(cluster).splitlines() if "down" in line]
    assert [line.split()[:4] for line in down] == [
        ["enp1s0f1np1", "rocep1s0f1", "192.168.100.1/24", "down"]
    ]
    assert [row.netdev for row in svg_map.build_map_rows(cluster.fabric) if not row.carrier] == [
        "enp1s0f1np1"
    ]


def test_a_host_without_a_cable_is_not_left_out() -> None:
    head, peer = pair()
    peer.remove_nic()
    assert "spark-2: no cable of this cluster" in _text(Cluster(head, peer))


@pytest.mark.parametrize(("gbps", "severity"), [(190.0, Severity.OK), (98.0, Severity.ERROR)])
def test_a_bar_is_as_red_as_its_verdict(gbps: float, severity: Severity) -> None:
    cluster = Cluster(*pair())
    samples = Samples(rates=tuple(rates(cluster, whole=gbps, alone=98)))
    root = ET.fromstring(svg_plot.render_rates_svg(samples, None, cluster.hosts))
    bars = [bar.attrib["fill"] for bar in root.iter(f"{SVG}rect")][1:]
    assert len(bars) == 6
    assert bars[0] == COLOURS[severity]
    assert bars[1] == COLOURS[Severity.OK]


def test_a_curve_is_drawn_for_each_collective() -> None:
    rows = tuple(CollectiveRow(size=2**20 * 4**n, busbw=n + 1.0) for n in range(3))
    collective = Collective(
        backend="nccl", torch="2", nccl="2.28.9", device="x",
        rows={"all_gather": rows, "all_reduce": rows[:1]},
    )  # fmt: skip
    document = svg_plot.render_rates_svg(Samples(), collective, Cluster(*pair()).hosts)
    root = ET.fromstring(document)
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"1 MiB", "16 MiB", "3.0", "GB/s of all_gather and all_reduce by nccl"} <= texts
