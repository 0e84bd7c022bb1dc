"""The interfaces of this host that the ranks of a deployment use, and what they carry."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

NET = Path("/sys/class/net")
HCAS = Path("/sys/class/infiniband")
INTERFACES = re.compile(
    r"^export (?:NCCL|GLOO|TP)_SOCKET_IFNAME=(?!\^)=?'?([\w.,:-]+)", re.MULTILINE
)
ADAPTERS = re.compile(r"^export NCCL_IB_HCA=(?!\^)=?'?([\w.,:-]+)", re.MULTILINE)
DOUBLE_WORD = 4  # octets: perfquery(8) of rdma-core says that data counters count four at a time


def list_interfaces(environment: str) -> set[str]:
    """Return the interfaces that the ranks' environment names, also through their HCAs."""
    names = split_names(INTERFACES.findall(environment))
    for adapter in list_adapters(environment):
        names |= {path.name for path in (HCAS / adapter / "device" / "net").glob("*")}
    return {name for name in names if (NET / name).exists()}


def list_adapters(environment: str) -> set[str]:
    """Return the HCAs that the ranks' environment names."""
    return split_names(ADAPTERS.findall(environment))


def split_names(values: list[str]) -> set[str]:
    """Return the names in lists of NCCL, without the port of an adapter."""
    return {name.partition(":")[0] for value in values for name in value.split(",")} - {""}


def read_carriers(environment: str) -> dict[str, bool]:
    """Return whether each interface has a carrier that the ranks' environment names."""
    return {name: read_carrier(NET / name) for name in sorted(list_interfaces(environment))}


def read_carrier(interface: Path) -> bool:
    """Return whether an interface has a carrier; reading fails for one that is down."""
    try:
        return (interface / "carrier").read_text().strip() == "1"
    except OSError:
        return False


def read_traffic(environment: str) -> dict[str, int]:
    """Return the bytes that the ranks' interfaces and HCAs have received and sent so far.

    The statistics of an interface have no RDMA, the counters of an HCA nothing else.
    """
    total = {"received": 0, "sent": 0}
    for name in list_interfaces(environment):
        total["received"] += read_counter(NET / name / "statistics/rx_bytes")
        total["sent"] += read_counter(NET / name / "statistics/tx_bytes")
    for name in list_adapters(environment):
        for port in (HCAS / name / "ports").glob("*/counters"):
            total["received"] += DOUBLE_WORD * read_counter(port / "port_rcv_data")
            total["sent"] += DOUBLE_WORD * read_counter(port / "port_xmit_data")
    return total


def read_counter(path: Path) -> int:
    """Return the number in a file, 0 if it is absent or has none."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return 0
