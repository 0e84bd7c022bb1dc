"""Rails without an address: shown, and the file that gives them one."""

from __future__ import annotations

import yaml

from sparkfleet.links.drawing.text_map import render_text_map
from sparkfleet.links.netplan_fix import format_netplan_fix
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, Spark


def _bare_pair() -> Cluster:
    first, second = Spark("spark-1", {}), Spark("spark-2", {})
    for spark, rails in ((first, (F1, P2F1)), (second, (F0, P2F0))):
        for netdev in rails:
            spark.port(netdev, up=True)
    return Cluster(first, second)


def test_the_map_names_rails_that_are_up_without_an_address() -> None:
    lines = list(render_text_map(_bare_pair().fabric))
    (line,) = [line for line in lines if line.startswith("spark-1: ")]
    assert line.startswith("spark-1: up, without an IPv4 address: ")
    assert F1 in line
    assert P2F1 in line


def test_the_fix_is_the_whole_file_and_what_to_type() -> None:
    fixes = {verdict.host: str(verdict.fix) for verdict in _bare_pair().found("link.address")}
    files = {host: yaml.safe_load(_read_file(fix)) for host, fix in fixes.items()}
    addresses = {
        host: {name: entry["addresses"] for name, entry in file["network"]["ethernets"].items()}
        for host, file in files.items()
    }
    assert addresses == {
        "spark-1": {F1: ["192.168.100.10/24"], P2F1: ["192.168.101.10/24"]},
        "spark-2": {F0: ["192.168.100.11/24"], P2F0: ["192.168.101.11/24"]},
    }


def test_the_first_rail_has_the_first_subnet_in_any_order() -> None:
    assert format_netplan_fix([P2F0, F0], 0) == format_netplan_fix([F0, P2F0], 0)


def _read_file(fix: str) -> str:
    start, _, rest = fix.partition("<<'EOF'\n")
    file, _, commands = rest.partition("EOF\n")
    assert start.endswith("sudo tee /etc/netplan/40-cx7.yaml ")
    assert commands.splitlines()[-1] == "sudo netplan apply"
    return file
