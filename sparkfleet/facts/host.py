"""One host's facts as one value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from sparkfleet.facts import login, machine, network, rdma
from sparkfleet.facts.machine import Disk, Gpu, GpuProcess, Listener, Memory, Release, System
from sparkfleet.facts.network import Neighbour, Netdev, Route
from sparkfleet.facts.rdma import Hca, PciFunction
from sparkfleet.facts.readings import Reading, Readings

if TYPE_CHECKING:
    from sparkfleet.remote.connection import Connection

GPU_FIELDS = "name,uuid,driver_version,compute_cap,memory.total,memory.used,clocks.sm"
GPU_QUERY = f"nvidia-smi --query-gpu={GPU_FIELDS} --format=csv"  # as onhost/host/facts.py runs it
GPU_TABLE = "nvidia-smi"
GPU_PROCESSES = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv"
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The facts about a host that one round trip collects.

    `fabric` says whether the QSFP network was read at all: a solo start does not read it.
    """

    host: str
    fabric: bool
    netdevs: tuple[Netdev, ...] = ()
    routes: tuple[Route, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    hcas: tuple[Hca, ...] = ()
    functions: tuple[PciFunction, ...] = ()
    rdma_devices: Mapping[str, bool] = field(default_factory=dict)
    memory: Memory | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_processes: tuple[GpuProcess, ...] = ()
    desktop: tuple[GpuProcess, ...] = ()  # processes that draw on the GPU
    lingers: bool | None = None  # whether what this user runs outlives its logins
    release: Release = field(default_factory=Release)
    system: System = field(default_factory=System)
    disk: Disk | None = None
    listeners: tuple[Listener, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    nccl_conf: Mapping[str, str] = field(default_factory=dict)
    readings: Readings = field(default_factory=lambda: Readings({}))

    def netdev(self, name: str) -> Netdev | None:
        """Return the netdev called `name`, if this host has it."""
        return next((netdev for netdev in self.netdevs if netdev.name == name), None)

    def hca_of(self, netdev: str) -> Hca | None:
        """Return the RDMA device of a netdev."""
        return next((hca for hca in self.hcas if hca.netdev == netdev), None)

    def carrier_of(self, address: IPv4Address) -> Netdev | None:
        """Return the netdev that has `address`."""
        return next(
            (
                dev
                for dev in self.netdevs
                if any(interface.ip == address for interface in dev.addresses)
            ),
            None,
        )

    def read(self, source: str) -> Reading:
        """Return the raw text of a source, or why there is none."""
        return self.readings.read(source)

    @property
    def driver(self) -> str:
        """The NVIDIA driver's version, empty where no GPU answered."""
        return self.gpus[0].driver if self.gpus else ""

    @property
    def default_route(self) -> Route | None:
        """The default route that the kernel prefers."""
        defaults = [route for route in self.routes if route.network.prefixlen == 0]
        return min(defaults, key=lambda route: route.metric, default=None)


def gather_facts(
    connection: Connection,
    *,
    weights_dir: str = "~/vllm",
    ports: Collection[int] = (),
    files: Collection[str] = (),
    fabric: bool = True,
) -> HostFacts:
    """Read the facts of the host behind `connection` in one round trip, as its user, without sudo.

    `ports` are those whose holders are looked up, `files` are read for `HostFacts.read`. Raises
    UnreachableError and CommandError.
    """
    request = {
        "weights_dir": weights_dir,
        "ports": sorted(ports),
        "files": list(files),
        "fabric": fabric,
    }
    return connection.query("host/facts", request, partial(parse_facts, connection.host.name))


def parse_facts(host_name: str, raw: Mapping[str, Any]) -> HostFacts:
    """Return the facts in `raw`, the answer of the program `onhost/host/facts.py`.

    What could not be read is absent: None, or empty; `HostFacts.read` says why.
    """
    readings = Readings(raw["facts"])
    return HostFacts(
        host=host_name,
        fabric=rdma.RDMA in raw["facts"],
        netdevs=network.parse_netdevs(readings),
        routes=network.parse_routes(readings),
        neighbours=network.parse_neighbours(readings),
        hcas=rdma.parse_hcas(readings),
        functions=rdma.parse_pci_functions(readings),
        rdma_devices=rdma.parse_rdma_devices(readings),
        memory=machine.parse_memory(readings),
        gpus=machine.parse_gpus(readings.text(GPU_QUERY)),
        gpu_processes=machine.parse_gpu_processes(readings.text(GPU_PROCESSES)),
        desktop=login.parse_desktop_processes(readings.text(GPU_TABLE)),
        lingers=login.has_persistent_ipc(readings),
        release=machine.parse_release(readings),
        system=machine.parse_system(readings),
        disk=machine.parse_disk(readings.text("weights_dir")),
        listeners=machine.parse_listeners(readings),
        environment=machine.parse_assignments(readings.text("environment")),
        nccl_conf=machine.parse_assignments("\n".join(map(readings.text, NCCL_FILES))),
        readings=readings,
    )
