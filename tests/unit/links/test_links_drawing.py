from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from sparkfleet.links.drawing import svg_map
from sparkfleet.model import Severity
from tests.gb10 import F1, Cluster, Spark, pair, ring, switch

SVG = "{http://www.w3.org/2000/svg}"


def _texts(document: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(document).iter(f"{SVG}text")]


def _colours(document: str) -> list[str]:
    root = ET.fromstring(document)
    return [line.attrib["stroke"] for line in root.iter(f"{SVG}line")]


def test_a_row_for_each_rail_names_both_ends() -> None:
    first, *_ = rows = svg_map.build_map_rows(Cluster(*pair(1, 0)).fabric)
    assert len(rows) == 4
    assert (first.host, first.port, first.netdev, first.hca) == ("spark-1", 1, F1, "rocep1s0f1")
    assert (first.address, first.mtu, first.speed) == ("192.168.100.1/24", 9000, 200000)
    assert first.peers == ("spark-2",)


@pytest.mark.parametrize(
    ("sparks", "lines"), [(pair(), 1), (switch(4), 4), (ring(3), 3), (ring(4), 4)]
)
def test_a_line_is_drawn_for_each_cable(sparks: tuple[Spark, ...], lines: int) -> None:
    document = svg_map.render_map_svg(Cluster(*sparks).fabric)
    assert _colours(document) == [svg_map.COLOURS[Severity.OK]] * lines
    for spark in sparks:
        assert any(text.startswith(spark.name) for text in _texts(document))


def test_a_cable_is_labelled_with_its_ports_and_subnets() -> None:
    texts = _texts(svg_map.render_map_svg(Cluster(*pair(1, 0)).fabric))
    assert {"port 1 - port 0", "192.168.100.0/24", "192.168.101.0/24"} <= set(texts)


def test_a_cable_with_an_error_is_red() -> None:
    head, peer = pair()
    peer.netdev(F1, mtu="1500")
    cluster = Cluster(head, peer)
    assert _colours(svg_map.render_map_svg(cluster.fabric, cluster.verdicts)) == [
        svg_map.COLOURS[Severity.ERROR]
    ]


def test_a_fabric_that_could_not_be_chosen_is_drawn_without_cables() -> None:
    head, peer = pair()
    peer.remove_nic()
    document = svg_map.render_map_svg(Cluster(head, peer).fabric)
    assert _colours(document) == []
    assert "spark-2  no address" in _texts(document)
