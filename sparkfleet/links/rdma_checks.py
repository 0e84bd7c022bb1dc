"""RDMA: a device on every rail, ACTIVE, with the GID of that rail's address, that we may use."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts.rdma import Hca
from sparkfleet.facts.readings import Lack
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.verdicts import error, info, warning
from sparkfleet.model import Host, Verdict
from sparkfleet.quantities import parse_size

RDMA = "/sys/class/infiniband"
DEVICES = "/dev/infiniband"
FULL_RDMA_MTU = 4096  # bytes; what a netdev MTU of 9000 gives
JUMBO = 9000
UNRAISED = 8 * 1024 * 1024  # bytes that a login may lock where nobody set a limit (Linux 5.16)


def devices(evidence: Evidence) -> Iterator[Verdict]:
    """Expect an RDMA device on every rail: NCCL falls back to TCP without (facts 4, row 1)."""
    for rail in evidence.rails():
        if rail.hca is None:
            tree = evidence.facts[rail.host].read(RDMA)
            yield error(
                "rdma.device",
                rail.host,
                rail.name,
                expected="an RDMA device on it",
                seen="none" if tree.lack is None else f"{tree.source} {tree.lack}: {tree.why}",
                source=f"{RDMA}/*/device/net",
                fix="NCCL would use TCP (NET/Socket): sudo modprobe mlx5_ib, or choose the QSFP "
                "interfaces in link_interfaces",
            )


def state(evidence: Evidence) -> Iterator[Verdict]:
    """Expect every port ACTIVE and LinkUp; DOWN with LinkUp occurs (facts 1.5)."""
    for rail, hca in _pairs(evidence):
        if not hca.up and rail.netdev.carrier:
            yield error(
                "rdma.state",
                rail.host,
                hca.name,
                expected="ACTIVE, LinkUp",
                seen=f"{hca.state or 'no state'}, {hca.phys_state or 'no physical state'}",
                source=f"{RDMA}/{hca.name}/ports/{hca.port}",
                fix="the netdev is up and RDMA is not: reboot; if it stays, reseat the cable",
            )


def _pairs(evidence: Evidence) -> Iterator[tuple[Rail, Hca]]:
    return ((rail, rail.hca) for rail in evidence.rails() if rail.hca is not None)


def gids(evidence: Evidence) -> Iterator[Verdict]:
    """Expect on every HCA a RoCE v2 GID that is mapped to its rail's own address."""
    for rail, hca in _pairs(evidence):
        if not hca.ipv4_gids(rail.ip):
            mapped = [f"{x.index}: {x.ipv4}" for x in hca.gids if x.roce_v2 and x.ipv4]
            yield error(
                "rdma.gid",
                rail.host,
                hca.name,
                expected=f"a RoCE v2 GID for {rail.ip}",
                seen=", ".join(mapped) or "no IPv4 GID",
                source=f"{RDMA}/{hca.name}/ports/{hca.port}/gids",
                fix="make the kernel list the address again: "
                f"sudo ip link set {rail.name} down && sudo ip link set {rail.name} up",
            )


def gid_index(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a stated GID index to fit every HCA in use; left unset, they may differ (C06)."""
    for host in evidence.hosts:
        stated = evidence.environment(host).get("NCCL_IB_GID_INDEX")
        for rail in evidence.fabric.rails[host]:
            own = [gid.index for gid in rail.hca.ipv4_gids(rail.ip)] if rail.hca else []
            if stated is not None and rail.hca and own and stated not in map(str, own):
                yield error(
                    "rdma.gid_index",
                    host,
                    rail.hca.name,
                    expected=f"NCCL_IB_GID_INDEX {own[0]}, the RoCE v2 GID of {rail.ip}",
                    seen=f"NCCL_IB_GID_INDEX={stated}",
                    source=f"{RDMA}/{rail.hca.name}/ports/{rail.hca.port}/gids",
                    fix=f"nccl_ib_gid_index: auto (NCCL >= 2.21 finds it), or {own[0]} for this "
                    "host alone",
                )
    yield from _indexes(evidence)


def _indexes(evidence: Evidence) -> Iterator[Verdict]:
    seen = {
        (rail.host, hca.name): found[0].index
        for rail, hca in _pairs(evidence)
        if (found := hca.ipv4_gids(rail.ip))
    }
    if len(set(seen.values())) > 1:
        for host in dict.fromkeys(host for host, _ in seen):
            own = [f"{hca}: {at}" for (owner, hca), at in seen.items() if owner == host]
            yield info(
                "rdma.gid_indexes",
                host,
                "GID index",
                expected="one index, or NCCL_IB_GID_INDEX unset or set for each host",
                seen=", ".join(own),
                source=f"{RDMA}/*/ports/*/gid_attrs",
                fix="nothing to do: the index is not shared between hosts",
            )


def mtu(evidence: Evidence) -> Iterator[Verdict]:
    """Expect the RDMA MTU to follow the netdev's: 1024 goes with 1500 (facts 1.4)."""
    for rail, hca in _pairs(evidence):
        small = hca.active_mtu is not None and hca.active_mtu < FULL_RDMA_MTU
        if hca.up and small and (rail.netdev.mtu or 0) >= JUMBO:
            yield warning(
                "rdma.mtu",
                rail.host,
                hca.name,
                expected=f"active_mtu {FULL_RDMA_MTU} with MTU {rail.netdev.mtu}",
                seen=f"active_mtu {hca.active_mtu}",
                source="ibv_devinfo",
                fix=f"sudo ip link set {rail.name} down && sudo ip link set {rail.name} up",
            )


def access(evidence: Evidence) -> Iterator[Verdict]:
    """Expect RDMA devices that the user may open (facts 4, row 1)."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        folder = facts.read(DEVICES)
        closed = [x for x, may in facts.rdma_devices.items() if not may and "uverbs" in x]
        if evidence.fabric.hcas(host) and (folder.lack is not None or closed):
            yield error(
                "rdma.access",
                host,
                DEVICES,
                expected="devices that this user may open",
                seen=f"{folder.lack}: {folder.why}" if folder.lack else f"closed: {closed}",
                source=DEVICES,
                fix="load the driver: sudo modprobe ib_uverbs"
                if folder.lack is Lack.MISSING
                else f"let {facts.system.user or 'the user'} open them (udev rule, group rdma)",
            )


def memlock(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a login that may lock the memory that RDMA registers (facts 4, row 40).

    Refuse the limit that nobody raised and one below `link_memlock`; warn of another one. Docker's
    daemon is asked for containers without a limit, whatever the login has.
    """
    for host, entry in evidence.hosts.items():
        seen = evidence.facts[host].system.memlock
        stated = entry.get("link_memlock")
        enough = UNRAISED + 1 if stated is None else parse_size(stated)
        if seen is None or _docker(entry) or not evidence.fabric.hcas(host):
            continue
        if seen < enough or stated is None:
            yield (error if seen < enough else warning)(
                "rdma.memlock",
                host,
                "memlock",
                expected="unlimited" if stated is None else f"{enough} bytes",
                seen=f"{seen} bytes",
                source="getrlimit(RLIMIT_MEMLOCK)",
                fix="ibv_reg_mr fails with 'Cannot allocate memory': '* - memlock unlimited' in "
                "/etc/security/limits.d/, then log in again; a limit that is meant: link_memlock",
            )


def _docker(host: Host) -> bool:
    engine = host.get("engine")
    return engine == "docker" or not (engine or host.get("engine_venv"))


CHECKS: tuple[Check, ...] = (devices, state, gids, gid_index, mtu, access, memlock)
