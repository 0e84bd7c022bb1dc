"""The hardware of a lab host reads as recorded from real Sparks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.lab.host.hardware import (
    EMPTY_GID,
    FUNCTIONS,
    build_gid_table,
    compute_ipv4_gid,
    compute_link_local_gid,
    format_node_guid,
    update_gid_slots,
)
from sparkfleet.lab.host.network import build_host_commands as host_lines
from sparkfleet.lab.host.network import build_switch_commands
from sparkfleet.lab.host.sysfs import build_port_files, build_sysfs
from sparkfleet.lab.plan import plan_fleet

OUTPUTS = Path(__file__).parents[2] / "outputs"
MAC = "5c:a2:e1:f4:00:13"


def test_the_four_functions_are_those_of_the_recorded_tools() -> None:
    lines = (OUTPUTS / "ibdev2netdev.good-f1-one-cable.txt").read_text().splitlines()
    recorded = [(line.split()[0], line.split()[4]) for line in lines if "==>" in line]
    assert sorted((one.hca, one.netdev) for one in FUNCTIONS) == sorted(recorded)


def test_a_gid_of_the_mac_address_is_its_eui_64() -> None:
    recorded = (OUTPUTS / "ip-br-addr.one-rail-linklocal-only.txt").read_text()
    assert "fe80::5ea2:e1ff:fef4:13/64" in recorded
    assert compute_link_local_gid(MAC) == "fe80:0000:0000:0000:5ea2:e1ff:fef4:0013"


def test_a_node_guid_holds_the_mac_address() -> None:
    assert format_node_guid(MAC) == "5ca2:e103:00f4:0013"


def test_an_ipv4_gid_is_the_mapped_address() -> None:
    recorded = (OUTPUTS / "show_gids.good-f0-index3-both-rails-same-subnet.txt").read_text()
    assert f"{compute_ipv4_gid('192.168.100.10')} 192.168.100.10" in recorded


def test_each_gid_is_there_twice_v1_first_and_ipv4_from_index_2() -> None:
    table = build_gid_table(MAC, ("10.78.1.1",))
    own = compute_link_local_gid(MAC)
    mapped = compute_ipv4_gid("10.78.1.1")
    assert table == (own, own, mapped, mapped, *[EMPTY_GID] * 12)


def test_a_moved_table_has_its_roce_v2_gid_at_index_5() -> None:
    table = build_gid_table(MAC, ("10.78.1.1",), first=4)
    assert table[2:6] == (
        EMPTY_GID,
        EMPTY_GID,
        compute_ipv4_gid("10.78.1.1"),
        compute_ipv4_gid("10.78.1.1"),
    )


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        ((), ("a",), ("a",)),
        (("a",), ("b", "a"), ("a", "b")),
        (("a", "b"), ("b",), (None, "b")),
        ((None, "b"), ("b", "c"), ("c", "b")),
        (("a",), (), (None,)),
    ],
)
def test_an_address_keeps_its_index_and_a_new_one_takes_the_first_hole(
    before: tuple[str | None, ...], now: tuple[str, ...], after: tuple[str | None, ...]
) -> None:
    assert update_gid_slots(before, now) == after


def test_a_dark_port_reads_as_recorded() -> None:
    port = plan_fleet(1).hosts[0].ports[0]
    files = build_port_files(port, carrier=False, slots=())
    said = (files["state"], files["phys_state"], files["rate"])
    assert said == ("1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)")
    assert files["gid_attrs/types/1"] == "RoCE v2"
    assert files["gid_attrs/types/2"] is None


def test_the_tree_of_a_host_follows_its_plan() -> None:
    fleet = plan_fleet(2)
    tree = build_sysfs(fleet.hosts[1])
    port = "devices/pci0000:00/0000:00:00.0/0000:01:00.0/infiniband/rocep1s0f0/ports/1"
    assert tree.files[f"{port}/state"] == "4: ACTIVE\n"
    assert tree.files[f"{port}/gids/3"] == f"{compute_ipv4_gid('10.78.1.2')}\n"
    assert tree.files[f"{port}/gid_attrs/ndevs/3"] == "enp1s0f0np0\n"
    assert tree.files["devices/virtual/net/enp1s0f1np1/speed"] == "-1\n"
    images = {text for path, text in tree.files.items() if path.endswith("sys_image_guid")}
    assert len(images) == 1


def test_every_link_of_the_tree_leads_somewhere() -> None:
    tree = build_sysfs(plan_fleet(2).hosts[0])
    folders = {str(parent) for path in tree.files for parent in Path(path).parents}
    for path, target in tree.links.items():
        leads_to = Path("/", path).parent.joinpath(target)
        clean = Path(*_resolved(leads_to.parts[1:]))
        assert str(clean) in folders, path


def _resolved(parts: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        else:
            kept.append(part)
    return kept


def test_no_host_interface_has_the_index_of_a_switch_port() -> None:
    lines = [line.split() for line in build_switch_commands(plan_fleet(64)) if "veth" in line]
    far = [int(words[words.index("index") + 1]) for words in lines]
    near = [int(words[words.index("peer") + 4]) for words in lines]
    assert len(far) == len(set(far)) == 64 * 6
    assert not set(far) & set(near)


def test_both_rails_of_a_cage_are_plugged_into_one_bridge() -> None:
    lines = build_switch_commands(plan_fleet(2))
    assert lines.count("link add cable1 mtu 9000 type bridge") == 1
    ends = [line.split()[2] for line in lines if line.endswith(" master cable1 up")]
    assert ends == ["01enp1s0f1np1", "01enP2p1s0f1np1", "02enp1s0f0np0", "02enP2p1s0f0np0"]


def test_uncabled_interfaces_are_up_and_have_no_address() -> None:
    lines = host_lines(plan_fleet(2).hosts[0])
    assert "link set enp1s0f0np0 up" in lines
    assert not [line for line in lines if line.startswith("address") and "f0np0" in line]
