"""A GB10 as the facts program would report it, built from the recorded outputs.

No real text of `ip -j addr` or of a full `ethtool` of a CX-7 port exists (cases.md says so): those
two are made here from the `ip -br` forms and from the lines that were recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from sparkfleet import links
from sparkfleet.facts import HostFacts, parse_facts
from sparkfleet.facts.host import GPU_QUERY
from sparkfleet.links import Fabric
from sparkfleet.model import Host, Severity, Value, Verdict

OUTPUTS = Path(__file__).parent / "outputs"
NET, RDMA, PCI = "/sys/class/net", "/sys/class/infiniband", "/sys/bus/pci/devices"
F0, P2F0 = "enp1s0f0np0", "enP2p1s0f0np0"
F1, P2F1 = "enp1s0f1np1", "enP2p1s0f1np1"
MANAGEMENT, WIFI = "enP7s7", "wlP9s9"
HCAS = {F0: "rocep1s0f0", F1: "rocep1s0f1", P2F0: "roceP2p1s0f0", P2F1: "roceP2p1s0f1"}
SLOTS = {F0: "0000:01:00.0", F1: "0000:01:00.1", P2F0: "0002:01:00.0", P2F1: "0002:01:00.1"}
IFF_UP = 0x1003


def output(name: str) -> str:
    """Return a recorded output without its first line, which says where it is from."""
    text = (OUTPUTS / name).read_text()
    return text.split("\n", 1)[1] if text.startswith("# source:") else text


class Spark:
    """The raw facts of one host, for a test to change; `number` makes it unlike the others."""

    def __init__(self, name: str, addresses: Mapping[str, str], **variables: Any) -> None:
        self.name = name
        self.number = int(name.rpartition("-")[2])
        self.variables = variables
        self.items: dict[str, dict[str, str]] = {}
        self.addresses = {MANAGEMENT: f"192.168.1.{self.number}/24", "docker0": "172.17.0.1/16"}
        self.addresses |= addresses
        self.default_route = MANAGEMENT
        self.extra_routes: list[dict[str, Any]] = []
        self._machine()
        self._netdevs()
        for netdev in HCAS:
            self.port(netdev, up=netdev in addresses)

    def text(self, source: str, text: str) -> Spark:
        """Let `source` hold `text`."""
        self.items[source] = {"text": text}
        return self

    def lack(self, source: str, why: str, text: str = "") -> Spark:
        """Let `source` and all below it be missing, denied or failed."""
        for known in [x for x in self.items if x == source or x.startswith(source + "/")]:
            del self.items[known]
        self.items[source] = {why: text or "No such file or directory"}
        return self

    def _machine(self) -> None:
        self.text("/etc/dgx-release", output("dgx-release.asus-four-ota-blocks-locale-date.txt"))
        self.text("/etc/os-release", output("os-release.ubuntu-24.04.4.txt"))
        self.text("/proc/meminfo", output("meminfo.good-cma-128M.txt"))
        self.text("uname", output("uname-a.txt").splitlines()[0])
        self.text(GPU_QUERY, output("nvidia-smi.query-name-cap-driver.csv"))
        self.text("memlock", "-1").text("user", "nvidia /home/nvidia").text("clock", "1790000000.5")
        self.text("/etc/machine-id", "5fa12ce7")
        self.text("/dev/infiniband", "rdma_cm True\nuverbs0 True\nuverbs1 True")
        self.text("ibv_devinfo", output("ibv_devinfo.good-f1-mtu9000.txt").replace("1024", "4096"))
        self.lack("/etc/nccl.conf", "missing").lack(
            "/var/lib/dpkg/info/mlnx-fw-updater.list", "missing"
        )

    def _netdevs(self) -> None:
        names = ["docker0", *SLOTS, MANAGEMENT, "lo", WIFI]
        self.text(NET, "\n".join(sorted(names))).text(RDMA, "\n".join(sorted(HCAS.values())))
        for name in names:
            self.netdev(name, carrier="1" if name in self.addresses else "0", mtu="1500")
            self.text(
                f"{NET}/{name}/address", f"5c:a2:e1:{self.number:02x}:00:{names.index(name):02x}"
            )
        self.netdev("lo", type="772", flags="0x9")
        self.netdev(WIFI, phy80211="../../ieee80211/phy0")
        self.netdev(MANAGEMENT, device="../../../0007:01:00.0", speed="10000")
        self.text(PCI, "\n".join((*SLOTS.values(), "0007:01:00.0")))
        self.text(f"{PCI}/0007:01:00.0/vendor", "0x10ec")
        for netdev, slot in SLOTS.items():
            self.netdev(netdev, device=f"../../../{slot}")
            for file, text in (
                ("vendor", "0x15b3"),
                ("current_link_width", "4"),
                ("max_link_width", "4"),
            ):
                self.text(f"{PCI}/{slot}/{file}", text)

    def netdev(self, name: str, **files: str) -> Spark:
        """Set files of a netdev in sysfs."""
        self.items.setdefault(f"{NET}/{name}/flags", {"text": hex(IFF_UP)})
        for file, text in files.items():
            self.text(f"{NET}/{name}/{file}", text)
        return self

    def port(self, netdev: str, *, up: bool, mtu: int = 9000, gid: int = 3) -> Spark:
        """Let a QSFP port be up, or without a cable; the IPv4 RoCE v2 GID is at index `gid`."""
        self.netdev(netdev, carrier="01"[up], mtu=str(mtu if up else 1500))
        base = f"{RDMA}/{HCAS[netdev]}"
        self.text(f"{base}/device/net", netdev).text(f"{base}/ports", "1")
        self.text(f"{base}/fw_ver", "28.45.4028")
        self.text(f"{NET}/{netdev}/speed", "200000" if up else "-1")
        state = ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)")
        down = ("1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)")
        for file, text in zip(("state", "phys_state", "rate"), state if up else down, strict=True):
            self.text(f"{base}/ports/1/{file}", text)
        if not up:
            self.text(f"ethtool {netdev}", "\tSpeed: Unknown!\n\tLink detected: no (No cable)\n")
        return self.gids(netdev, gid=gid)

    def gids(self, netdev: str, *, gid: int = 3) -> Spark:
        """Make the GID table that a port with this address has."""
        table = {0: ("fe80::1", "IB/RoCE v1"), 1: ("fe80::1", "RoCE v2")}
        address = self.addresses.get(netdev, "").split(" ")[0]
        if address:
            mapped = f"::ffff:{IPv4Interface(address).ip}"
            table |= {gid - 1: (mapped, "IB/RoCE v1"), gid: (mapped, "RoCE v2")}
        return self.gid_table(netdev, table)

    def gid_table(self, netdev: str, table: Mapping[int, tuple[str, str]]) -> Spark:
        """Set a GID table: index to address and type."""
        base = f"{RDMA}/{HCAS[netdev]}/ports/1"
        self.text(f"{base}/gids", "\n".join(f"{at} {gid}" for at, (gid, _) in table.items()))
        kinds = "\n".join(f"{at} {kind}" for at, (_, kind) in table.items())
        return self.text(f"{base}/gid_attrs/types", kinds)

    def remove_nic(self) -> Spark:
        """Let the NIC leave the bus, as hot-plug does without a cable."""
        for netdev, slot in SLOTS.items():
            self.addresses.pop(netdev, None)
            self.lack(f"{NET}/{netdev}", "missing").lack(f"{PCI}/{slot}", "missing")
            del self.items[f"{NET}/{netdev}"], self.items[f"{PCI}/{slot}"]
        self.lack(RDMA, "missing")
        self.text(NET, f"docker0\n{MANAGEMENT}\nlo\n{WIFI}").text(PCI, "0007:01:00.0")
        return self

    def facts(self) -> HostFacts:
        """Parse them as the product does."""
        given = {
            name: [x for x in text.split() if "/" in x] for name, text in self.addresses.items()
        }
        self.text("ip -j addr", json.dumps([_ip_addr(name, own) for name, own in given.items()]))
        routes = [
            {"dst": str(IPv4Interface(own).network), "dev": name, "protocol": "kernel"}
            for name, addresses in given.items()
            for own in addresses
        ]
        if self.default_route:
            routes.append({"dst": "default", "gateway": "192.168.1.254", "dev": self.default_route})
        self.text("ip -j route", json.dumps([*routes, *self.extra_routes]))
        return parse_facts(self.name, {"facts": self.items})

    def host(self) -> Host:
        """Return its inventory entry."""
        values = {name: Value(data=data) for name, data in self.variables.items()}
        return Host(name=self.name, vars=values)


def _ip_addr(name: str, addresses: list[str]) -> dict[str, Any]:
    split = [own.split("/") for own in addresses]
    info = [{"family": "inet", "local": ip, "prefixlen": int(size)} for ip, size in split]
    return {"ifname": name, "addr_info": info}


class Cluster:
    """Several Sparks judged together."""

    def __init__(self, *sparks: Spark) -> None:
        self.hosts = [spark.host() for spark in sparks]
        self.facts = {spark.name: spark.facts() for spark in sparks}
        self.fabric: Fabric = links.select_fabric(self.facts, self.hosts)
        self.verdicts = links.run_static_gate(self.fabric, self.facts, self.hosts)

    def env(self, host: str) -> dict[str, str | None]:
        """Return the environment of a host's rank."""
        entry = next(x for x in self.hosts if x.name == host)
        return {var.name: var.value for var in links.compute_rank_env(self.fabric, entry)}

    def found(self, check: str, host: str | None = None) -> list[Verdict]:
        """Return the verdicts of one check."""
        return [x for x in self.verdicts if x.check == check and host in (None, x.host)]

    def refusals(self) -> list[str]:
        """Return the checks that refuse."""
        return [x.check for x in self.verdicts if x.severity is Severity.ERROR]

    def warnings(self) -> list[str]:
        """Return the checks that warn."""
        return [x.check for x in self.verdicts if x.severity is Severity.WARNING]


def pair(cage: int = 1, other: int | None = None, **variables: Any) -> tuple[Spark, Spark]:
    """Return two healthy Sparks on one cable, from cage to cage."""
    ends = {0: (F0, P2F0), 1: (F1, P2F1)}
    first, second = ends[cage], ends[cage if other is None else other]
    return (
        Spark("spark-1", _rails(first, 1), **variables),
        Spark("spark-2", _rails(second, 2), **variables),
    )


def _rails(netdevs: tuple[str, str], number: int) -> dict[str, str]:
    return {dev: f"192.168.{100 + at}.{number}/24" for at, dev in enumerate(netdevs)}


def switch(hosts: int, **variables: Any) -> tuple[Spark, ...]:
    """Return healthy Sparks on a switch, each with cage 1."""
    return tuple(
        Spark(f"spark-{number}", _rails((F1, P2F1), number), **variables)
        for number in range(1, hosts + 1)
    )


def ring(hosts: int, **variables: Any) -> tuple[Spark, ...]:
    """Return Sparks in a ring: port 0 of each to port 1 of the next, two subnets a cable."""
    addresses: list[dict[str, str]] = [{} for _ in range(hosts)]
    for cable in range(hosts):
        following = (cable + 1) % hosts
        for at, (here, there) in enumerate(((F0, F1), (P2F0, P2F1))):
            addresses[cable][here] = f"10.{cable}.{at}.1/24"
            addresses[following][there] = f"10.{cable}.{at}.2/24"
    return tuple(Spark(f"spark-{at + 1}", own, **variables) for at, own in enumerate(addresses))


def from_ip_addr(name: str) -> dict[str, str]:
    """Return netdev -> IPv4 addresses of a recorded ``ip -br addr``; those that are UP only."""
    found = {}
    for line in output(name).splitlines():
        netdev, state, *rest = line.split()
        if state == "UP":
            found[netdev] = " ".join(x for x in rest if re.fullmatch(r"[\d.]+/\d+", x))
    return found
