"""RDMA: a device on every rail, ACTIVE, with the GID of that rail's address, open to this user."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts.rdma import Hca
from sparkfleet.facts.readings import Lack
from sparkfleet.links.checks.variable_places import format_removal
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.netplan_fix import JUMBO
from sparkfleet.model import Host, Verdict
from sparkfleet.quantities import parse_size
from sparkfleet.verdicts import error, info, warning

RDMA = "/sys/class/infiniband"
DEVICES = "/dev/infiniband"
FULL_RDMA_MTU = 4096  # bytes; what a netdev MTU of 9000 gives
UNRAISED = 8 * 1024 * 1024  # bytes that a login may lock by default (Linux 5.16)


def check_rdma_devices(evidence: Evidence) -> Iterator[Verdict]:
    """Expect an RDMA device on every rail: NCCL falls back to TCP without one."""
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


def check_rdma_state(evidence: Evidence) -> Iterator[Verdict]:
    """Expect every port ACTIVE and LinkUp; DOWN with LinkUp occurs."""
    for rail, hca in _pair_rails_and_hcas(evidence):
        if not hca.up and rail.netdev.carrier:
            yield error(
                "rdma.state",
                rail.host,
                hca.name,
                expected="ACTIVE, LinkUp",
                seen=f"{hca.state or 'no state'}, {hca.phys_state or 'no physical state'}",
                source=f"{RDMA}/{hca.name}/ports/{hca.port}",
                fix=(
                    "the netdev is up but RDMA is not: reboot; if that does not help, reseat the "
                    "cable"
                ),
            )


def _pair_rails_and_hcas(evidence: Evidence) -> Iterator[tuple[Rail, Hca]]:
    return ((rail, rail.hca) for rail in evidence.rails() if rail.hca is not None)


def check_gids(evidence: Evidence) -> Iterator[Verdict]:
    """Expect on every HCA a RoCE v2 GID that is mapped to its rail's own address."""
    for rail, hca in _pair_rails_and_hcas(evidence):
        if not hca.ipv4_gids(rail.ip):
            mapped = [f"{gid.index}: {gid.ipv4}" for gid in hca.gids if gid.roce_v2 and gid.ipv4]
            yield error(
                "rdma.gid",
                rail.host,
                hca.name,
                expected=f"a RoCE v2 GID for {rail.ip}",
                seen=", ".join(mapped) or "no IPv4 GID",
                source=f"{RDMA}/{hca.name}/ports/{hca.port}/gids",
                fix="make the kernel list the address again: {task:links.repair}",
            )


def check_gid_index(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a stated GID index to fit every HCA in use; left unset, they may differ."""
    for host in evidence.hosts:
        stated = evidence.environment(host).get("NCCL_IB_GID_INDEX")
        for rail in evidence.fabric.rails[host]:
            indexes = [gid.index for gid in rail.hca.ipv4_gids(rail.ip)] if rail.hca else []
            if stated is not None and rail.hca and indexes and stated not in map(str, indexes):
                yield error(
                    "rdma.gid_index",
                    host,
                    rail.hca.name,
                    expected=f"NCCL_IB_GID_INDEX {indexes[0]}, the RoCE v2 GID of {rail.ip}",
                    seen=f"NCCL_IB_GID_INDEX={stated}",
                    source=f"{RDMA}/{rail.hca.name}/ports/{rail.hca.port}/gids",
                    fix=f"{format_removal(evidence.hosts[host], 'NCCL_IB_GID_INDEX')}: NCCL 2.21 "
                    f"and later finds it; or set it to {indexes[0]} for this host alone",
                )
    yield from _check_equal_gid_indexes(evidence)


def _check_equal_gid_indexes(evidence: Evidence) -> Iterator[Verdict]:
    indexes = {
        (rail.host, hca.name): gids[0].index
        for rail, hca in _pair_rails_and_hcas(evidence)
        if (gids := hca.ipv4_gids(rail.ip))
    }
    if len(set(indexes.values())) > 1:
        for host in dict.fromkeys(host for host, _ in indexes):
            texts = [f"{hca}: {at}" for (owner, hca), at in indexes.items() if owner == host]
            yield info(
                "rdma.gid_indexes",
                host,
                "GID index",
                expected="one index, or NCCL_IB_GID_INDEX to be unset or set for each host",
                seen=", ".join(texts),
                source=f"{RDMA}/*/ports/*/gid_attrs",
                fix="nothing to do: the index is not shared between hosts",
            )


def check_rdma_mtu(evidence: Evidence) -> Iterator[Verdict]:
    """Expect the RDMA MTU to follow the netdev's: 1024 goes with 1500."""
    for rail, hca in _pair_rails_and_hcas(evidence):
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


def check_rdma_access(evidence: Evidence) -> Iterator[Verdict]:
    """Expect RDMA devices that the user may open."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        folder = facts.read(DEVICES)
        closed = [name for name, may in facts.rdma_devices.items() if not may and "uverbs" in name]
        if evidence.fabric.hcas(host) and (folder.lack is not None or closed):
            yield error(
                "rdma.access",
                host,
                DEVICES,
                expected="devices that this user may open",
                seen=f"{folder.lack}: {folder.why}"
                if folder.lack
                else f"no access to {', '.join(closed)}",
                source=DEVICES,
                fix="load the driver: sudo modprobe ib_uverbs"
                if folder.lack is Lack.MISSING
                else f"allow {facts.system.user or 'the user'} to open it (udev rule, group rdma)",
            )


def check_memlock(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a login that may lock the memory that RDMA registers.

    Refuse the default limit and one below `link_memlock`; warn of another one. Docker starts
    containers without a limit, whatever limit the login has.
    """
    for host, entry in evidence.hosts.items():
        limit = evidence.facts[host].system.memlock
        stated = entry.get("link_memlock")
        enough = UNRAISED + 1 if stated is None else parse_size(stated)
        if limit is None or _is_docker_engine(entry) or not evidence.fabric.hcas(host):
            continue
        if limit < enough or stated is None:
            yield (error if limit < enough else warning)(
                "rdma.memlock",
                host,
                "memlock",
                expected="no limit" if stated is None else f"{enough} bytes",
                seen=f"{limit} bytes",
                source="getrlimit(RLIMIT_MEMLOCK)",
                fix="ibv_reg_mr fails with 'Cannot allocate memory': '* - memlock unlimited' in "
                "/etc/security/limits.d/, then log in again; if intended, set link_memlock",
            )


def _is_docker_engine(host: Host) -> bool:
    engine = host.get("engine")
    return engine == "docker" or not (engine or host.get("engine_venv"))


CHECKS: tuple[Check, ...] = (
    check_rdma_devices,
    check_rdma_state,
    check_gids,
    check_gid_index,
    check_rdma_mtu,
    check_rdma_access,
    check_memlock,
)
