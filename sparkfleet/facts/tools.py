"""Facts that only tools report, not sysfs; each parser reads fields, never columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ethtool:
    """The state of a port by `ethtool`; None where it does not report it.

    As an ordinary user it prints ``netlink error: Operation not permitted`` on standard error and
    still exits with 0.
    """

    speed: int | None = None
    link: bool | None = None
    cable: bool | None = None


def parse_ethtool(text: str) -> Ethtool:
    """Parse ``Speed: 200000Mb/s`` and ``Link detected: no (No cable)``."""
    speed = re.search(r"Speed:\s*(\d{1,12})Mb/s", text)
    link = re.search(r"Link detected:\s*(yes|no)(.*)", text)
    cable = None
    if link:
        cable = True if link[1] == "yes" else (False if "no cable" in link[2].lower() else None)
    return Ethtool(
        speed=int(speed[1]) if speed else None,
        link=link[1] == "yes" if link else None,
        cable=cable,
    )


def parse_rdma_link(text: str) -> Mapping[str, str]:
    """Return HCA -> netdev of ``link rocep1s0f0/1 state ACTIVE ... netdev enp1s0f0np0``."""
    pairs = re.findall(r"^link\s+(\S+?)/\d+\s.*?\bnetdev\s+(\S+)", text, re.MULTILINE)
    return dict(pairs)


def parse_ibdev2netdev(text: str) -> Mapping[str, str]:
    """Return HCA -> netdev of ``rocep1s0f1 port 1 ==> enp1s0f1np1 (Up)``, in any order."""
    return dict(
        re.findall(
            r"^[ \t]*(\S+)[ \t]+port[ \t]+\d+[ \t]+==>[ \t]+(\S+)[ \t]+\(", text, re.MULTILINE
        )
    )


def parse_active_mtus(text: str) -> Mapping[str, int]:
    """Return HCA -> active RDMA MTU, bytes, of `ibv_devinfo`.

    4096 goes with a netdev MTU of 9000; 1024 with 1500, or with a port that is down.
    """
    mtus: dict[str, int] = {}
    for block in re.split(r"^hca_id:", text, flags=re.MULTILINE)[1:]:
        mtu = re.search(r"active_mtu:\s*(\d{1,12})", block)
        if mtu:
            mtus[block.split()[0]] = int(mtu[1])
    return mtus
