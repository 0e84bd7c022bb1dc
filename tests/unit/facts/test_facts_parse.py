from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address

import pytest

from sparkfleet.facts import machine, parse_facts, tools
from sparkfleet.facts.host import GPU_PROCESSES
from sparkfleet.facts.readings import MAX_ENTRIES, Lack, Readings
from tests.gb10 import F0, F1, HCAS, NET, P2F1, RDMA, Spark, from_ip_addr, output

GIB = 1024**3


def _spark() -> Spark:
    return Spark("spark-1", {F1: "192.168.100.1/24", P2F1: "192.168.101.1/24"})


def test_of_repeated_keys_in_dgx_release_the_last_wins() -> None:
    release = _spark().facts().release
    assert (release.name, release.platform, release.version) == ("DGX Spark", "GX10", "7.6.0")


def test_unquoted_dgx_release_is_read_alike() -> None:
    spark = _spark().text("/etc/dgx-release", output("dgx-release.hp-unquoted.txt"))
    release = spark.facts().release
    assert (release.version, release.platform) == ("7.5.0", "HP ZGX Nano G1n AI Station")


def test_memory_is_in_bytes_with_cma() -> None:
    memory = _spark().facts().memory
    assert memory is not None
    assert 121.6 <= memory.total / GIB <= 121.7
    assert (memory.cma_total, memory.cma_free) == (131072 * 1024, 69320 * 1024)


@pytest.mark.parametrize("line", output("uname-a.txt").splitlines())
def test_kernel_and_architecture_of_uname(line: str) -> None:
    system = _spark().text("uname", line).facts().system
    assert system.kernel.startswith("6.17.0-10")
    assert system.architecture == "aarch64"


def test_gpu_of_a_query_by_its_header() -> None:
    (gpu,) = machine.parse_gpus(output("nvidia-smi.query-name-cap-driver.csv"))
    assert (gpu.name, gpu.capability, gpu.driver) == ("NVIDIA GB10", "12.1", "580.159.03")


@pytest.mark.parametrize("cell", ["N/A", "[N/A]", "Not Supported", "[Not Supported]", ""])
def test_memory_that_is_not_reported_is_unified(cell: str) -> None:
    (gpu,) = machine.parse_gpus(f"name, memory.total [MiB]\nNVIDIA GB10, {cell}\n")
    assert gpu.memory is None


def test_reported_memory_is_in_bytes() -> None:
    (gpu,) = machine.parse_gpus("name, memory.total [MiB]\nNVIDIA H100 80GB HBM3, 81559 MiB\n")
    assert gpu.memory == 81559 * 1024 * 1024


def test_the_recorded_memory_columns_parse() -> None:
    text = output("nvidia-smi.query-memory-NA.csv").splitlines()
    (row,) = machine.parse_csv_table("\n".join(text[:2]))
    assert set(row.values()) == {"[N/A]"}
    assert len(list(machine.parse_csv_table(output("nvidia-smi.query-loop-memory-NA.csv")))) == 5


def test_no_devices_with_status_0_means_no_gpu() -> None:
    assert machine.parse_gpus(output("nvidia-smi.bad-no-devices-exit-0.txt")) == ()


def test_processes_on_the_gpu_have_their_memory() -> None:
    spark = _spark().text(GPU_PROCESSES, output("nvidia-smi.compute-apps.csv"))
    first, *rest = spark.facts().gpu_processes
    assert (first.pid, first.name) == (168864, "/usr/local/bin/llama-server")
    assert first.memory == 24420 * 1024 * 1024
    assert len(rest) == 2


def test_addresses_of_a_recorded_host() -> None:
    facts = Spark("spark-1", from_ip_addr("ip-br-addr.good-dual-rail-slash29.txt")).facts()
    netdev = facts.netdev(F0)
    assert netdev is not None
    assert netdev.addresses == (IPv4Interface("172.31.5.1/29"),)
    assert netdev.carrier
    assert (netdev.speed, netdev.mtu, netdev.pci) == (200000, 9000, "0000:01:00.0")


def test_an_uncabled_port_has_no_speed_and_no_cable() -> None:
    netdev = _spark().facts().netdev(F0)
    assert netdev is not None
    assert (netdev.carrier, netdev.speed, netdev.cable) == (False, None, False)


def test_addresses_and_routes_come_from_the_kernel_where_ip_is_missing() -> None:
    spark = _spark()
    spark.facts()
    spark.lack("ip -j addr", "missing").lack("ip -j route", "missing")
    spark.text(f"SIOCGIFADDR {F1}", "192.168.100.1 255.255.255.0")
    spark.text(
        "/proc/net/route",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        f"{F1}\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "enP7s7\t00000000\tFE01A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
    )
    facts = parse_facts("spark-1", {"facts": spark.items})
    netdev = facts.netdev(F1)
    assert netdev is not None
    assert netdev.addresses == (IPv4Interface("192.168.100.1/24"),)
    assert facts.routes[0].network == IPv4Network("192.168.100.0/24")
    assert facts.default_route is not None
    assert facts.default_route.gateway == IPv4Address("192.168.1.254")


def test_gids_are_read_with_index_type_and_mapped_address() -> None:
    (hca,) = [x for x in _spark().facts().hcas if x.name == "rocep1s0f1"]
    (gid,) = hca.ipv4_gids(IPv4Address("192.168.100.1"))
    assert (gid.index, gid.kind) == (3, "RoCE v2")
    assert gid.address == IPv6Address("::ffff:192.168.100.1")


def test_the_recorded_show_gids_table_reads_as_in_sysfs() -> None:
    spark = Spark("spark-1", {F0: "192.168.100.10/24", "enP2p1s0f0np0": "192.168.100.14/24"})
    rows = [line.split() for line in output("show_gids.good-f0-index3-both-rails-same-subnet.txt")
            .splitlines()[2:] if line.startswith("roce")]  # fmt: skip
    kinds = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
    for netdev, hca in HCAS.items():
        own = {int(x[2]): (x[3], kinds[x[-2]]) for x in rows if x[0] == hca}
        spark.gid_table(netdev, own)
    found = {hca.name: hca for hca in spark.facts().hcas}
    (gid,) = found["roceP2p1s0f0"].ipv4_gids(IPv4Address("192.168.100.14"))
    assert gid.index == 3
    assert len(found["rocep1s0f1"].gids) == 2


def test_a_port_is_up_only_if_active_and_linked() -> None:
    spark = _spark().text(f"{RDMA}/rocep1s0f1/ports/1/state", "1: DOWN")
    states = {hca.name: hca.up for hca in spark.facts().hcas}
    assert states == {
        "rocep1s0f0": False,
        "rocep1s0f1": False,  # LinkUp, but not ACTIVE
        "roceP2p1s0f0": False,
        "roceP2p1s0f1": True,
    }


def test_the_netdev_of_an_hca_comes_from_sysfs_not_from_its_name() -> None:
    spark = _spark()
    for file in [x for x in spark.items if x.startswith(f"{RDMA}/rocep1s0f1")]:
        spark.items[file.replace("rocep1s0f1", "mlx5_1")] = spark.items.pop(file)
    spark.text(RDMA, "mlx5_1")
    hca = spark.facts().hca_of(F1)
    assert hca is not None
    assert hca.name == "mlx5_1"


def test_rdma_link_names_the_netdev_where_sysfs_does_not() -> None:
    spark = _spark().text("rdma link", output("rdma-link.good-f1-padded.txt"))
    spark.lack(f"{RDMA}/rocep1s0f1/device/net", "missing")
    hca = spark.facts().hca_of(F1)
    assert hca is not None
    assert hca.name == "rocep1s0f1"


def test_who_listens_is_read_with_its_holder() -> None:
    spark = _spark().text("/proc/net/tcp", "0100007F:2AF8 11\n0164A8C0:18EB 12")
    spark.text("/proc/net/tcp6", "00000000000000000000000001000000:0016 13")
    spark.text("listeners", "12 4711 gcs_server")
    dashboard, ray, ssh = spark.facts().listeners
    assert (str(dashboard.address), dashboard.port, dashboard.pid) == ("127.0.0.1", 11000, None)
    assert (str(ray.address), ray.port, ray.pid, ray.name) == (
        "192.168.100.1", 6379, 4711, "gcs_server",
    )  # fmt: skip
    assert (str(ssh.address), ssh.port) == ("::1", 22)


def test_of_a_table_that_has_no_end_a_part_is_read() -> None:
    spark = _spark().text("/proc/net/tcp", "0100007F:2AF8 11\n" * (MAX_ENTRIES + 5))
    spark.text("listeners", "12 4711 gcs_server\n" * (MAX_ENTRIES + 5))
    name = "0000:01:00.0"
    spark.text("/sys/bus/pci/devices", f"{name} " * (MAX_ENTRIES + 5))
    spark.text(f"/sys/bus/pci/devices/{name}/vendor", "0x15b3")
    found = spark.facts()
    assert len(found.listeners) == MAX_ENTRIES
    assert len(found.functions) == MAX_ENTRIES


def test_missing_denied_and_failed_are_three_facts() -> None:
    raw = {"a": {"missing": "no such file"}, "b": {"denied": "permission"}, "c": {"failed": "EIO"}}
    readings = Readings(raw)
    assert [readings.read(x).lack for x in "abc"] == [Lack.MISSING, Lack.DENIED, Lack.FAILED]
    assert readings.read("d").why == "not read"


def test_a_host_that_reported_nothing_still_has_facts() -> None:
    facts = parse_facts("spark-1", {"facts": {}})
    assert not facts.fabric
    assert (facts.netdevs, facts.hcas, facts.gpus, facts.memory) == ((), (), (), None)


@pytest.mark.parametrize(
    "text", ["ibdev2netdev.good-f0-one-cable-P2-first", "ibdev2netdev.good-f1-one-cable",
             "ibdev2netdev.good-two-cables"],
)  # fmt: skip
def test_ibdev2netdev_in_any_order_and_padding(text: str) -> None:
    assert tools.parse_ibdev2netdev(output(f"{text}.txt")) == {
        hca: dev for dev, hca in HCAS.items()
    }


@pytest.mark.parametrize("text", ["rdma-link.good-f0", "rdma-link.good-f1-padded"])
def test_rdma_link_by_fields(text: str) -> None:
    assert tools.parse_rdma_link(output(f"{text}.txt")) == {hca: dev for dev, hca in HCAS.items()}


def test_active_mtu_of_ibv_devinfo() -> None:
    assert tools.parse_active_mtus(output("ibv_devinfo.good-f1-mtu9000.txt")) == {
        "rocep1s0f0": 1024,
        "rocep1s0f1": 4096,
        "roceP2p1s0f0": 1024,
        "roceP2p1s0f1": 4096,
    }


def test_ethtool_as_an_ordinary_user() -> None:
    port = tools.parse_ethtool(output("ethtool.good-cx7-200G-short.txt"))
    assert (port.speed, port.link, port.cable) == (200000, True, True)
    port = tools.parse_ethtool(output("ethtool.stderr-not-root.txt"))
    assert (port.speed, port.link, port.cable) == (None, None, None)


def test_ethtool_of_a_port_without_cable() -> None:
    port = tools.parse_ethtool("\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n"
                         "\tLink detected: no (No cable)\n")  # fmt: skip
    assert (port.speed, port.link, port.cable) == (None, False, False)


def test_a_netdev_in_a_bond_knows_its_master() -> None:
    netdev = _spark().text(f"{NET}/{F1}/master", "../bond0").facts().netdev(F1)
    assert netdev is not None
    assert netdev.master == "bond0"
