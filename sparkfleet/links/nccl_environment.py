"""Compute each host's `nccl.env`: every variable with its value and where that came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.links import hca_filter
from sparkfleet.links.model import Fabric, Rail, Topology
from sparkfleet.model import Host

SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")
PER_HOST = ("VLLM_HOST_IP", *SOCKETS, "NCCL_IB_HCA", "NCCL_IB_GID_INDEX")
NO_DIAGONAL = 4  # from so many hosts on, a ring has members that are not neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """A variable of a rank's environment; `value` None means that it must be unset there.

    An empty text is not unset: NCCL takes it as a value.
    """

    name: str
    value: str | None
    why: str


def compute_rank_env(fabric: Fabric, host: Host) -> tuple[EnvVar, ...]:
    """Return the environment of `host`'s rank: from its facts, overridden by `nccl_env`."""
    computed = {var.name: var for var in _derive_variables(fabric, host)}
    return tuple((computed | {var.name: var for var in _read_nccl_env(host, computed)}).values())


def _derive_variables(fabric: Fabric, host: Host) -> Iterator[EnvVar]:
    rail = fabric.rendezvous(host.name)
    if rail is not None:
        yield from _derive_socket_variables(fabric, rail)
    yield from _derive_hca_variables(fabric, host)
    yield from _derive_gid_index(host)
    if fabric.topology is Topology.RING:
        yield from _derive_ring_variables(fabric, host)
    elif _has_twins_in_one_subnet(fabric):
        yield EnvVar(
            name="NCCL_IB_SUBNET_AWARE_ROUTING",
            value="1",
            why="two rails of a host are in one subnet",
        )


def _derive_socket_variables(fabric: Fabric, rail: Rail) -> Iterator[EnvVar]:
    if fabric.topology is Topology.RING:
        meet = f"the ring has no subnet for all; {rail.network} joins every node"
    else:
        meet = f"{rail.network} is the fabric subnet that {', '.join(fabric.hosts)} share"
    yield EnvVar(name="VLLM_HOST_IP", value=str(rail.ip), why=f"address of {rail.name}: {meet}")
    for name in SOCKETS:
        yield EnvVar(name=name, value=rail.name, why="interface of VLLM_HOST_IP")


def _derive_hca_variables(fabric: Fabric, host: Host) -> Iterator[EnvVar]:
    chosen = fabric.hcas(host.name)
    if not chosen:
        return
    every = [rail.hca for rail in fabric.spare[host.name] if rail.hca] + list(chosen)
    pairs = ", ".join(f"{hca.name} is on {hca.netdev}" for hca in chosen)
    wish = host.get("nccl_ib_hca")
    yield EnvVar(
        name="NCCL_IB_HCA",
        value=str(wish or hca_filter.format_hca_filter(chosen, every)),
        why=_format_variable_origin(host, "nccl_ib_hca") if wish else f"the rails in use: {pairs}",
    )
    given = host.get("nccl_env") or {}
    if str(given.get("NCCL_IB_DISABLE")) != "1":
        why = "fail where RDMA is unavailable instead of falling back to TCP"
        yield EnvVar(name="NCCL_NET", value="IB", why=why)


def _derive_gid_index(host: Host) -> Iterator[EnvVar]:
    wish = str(host.get("nccl_ib_gid_index", "auto"))
    if wish != "auto":
        value = None if wish == "unset" else wish
        why = _format_variable_origin(host, "nccl_ib_gid_index")
        yield EnvVar(name="NCCL_IB_GID_INDEX", value=value, why=why)


def _derive_ring_variables(fabric: Fabric, host: Host) -> Iterator[EnvVar]:
    rails = fabric.rails[host.name]
    prefixes = sorted({rail.network.prefixlen for rail in rails if rail.network})
    yield EnvVar(
        name="NCCL_IB_SUBNET_AWARE_ROUTING",
        value="1",
        why="in a ring each port reaches one neighbour only",
    )
    if len(prefixes) == 1:
        yield EnvVar(
            name="NCCL_IB_SUBNET_PREFIX_LEN",
            value=str(prefixes[0]),
            why="prefix of the cables' subnets",
        )
    yield EnvVar(name="NCCL_IB_MERGE_NICS", value="0", why="a merged NIC would span two cables")
    yield EnvVar(name="NCCL_NET_PLUGIN", value="none", why="a plugin does not route by subnet")
    if len(fabric.hosts) >= NO_DIAGONAL:
        why = "a tree needs a path between hosts that are not neighbours"
        yield EnvVar(name="NCCL_ALGO", value="Ring", why=why)
        why = "connect what a collective uses, not the tree that cannot be connected"
        yield EnvVar(name="NCCL_RUNTIME_CONNECT", value="1", why=why)
        yield EnvVar(name="NCCL_CUMEM_ENABLE", value="1", why="NCCL_RUNTIME_CONNECT needs it")


def _has_twins_in_one_subnet(fabric: Fabric) -> bool:
    return any(
        len({rail.network for rail in cage.rails}) < len(cage.rails)
        for host in fabric.hosts
        for cage in fabric.cages(host)
    )


def _read_nccl_env(host: Host, computed: Mapping[str, EnvVar]) -> Iterator[EnvVar]:
    for name, data in (host.get("nccl_env") or {}).items():
        why = _format_variable_origin(host, "nccl_env")
        if name in computed:
            why += f" (instead of {computed[name].value})"
        yield EnvVar(name=name, value=None if data is None else str(data), why=why)


def _format_variable_origin(host: Host, name: str) -> str:
    value = host.vars.get(name)
    return f"{name}, {value.where}" if value and value.where else name
