"""The transport that NCCL took, by its own INFO lines: RDMA, or silently TCP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, ok

MARK = "NCCL INFO "
MAX_LINE = 4096  # characters of a line that are read
# host:pid:tid [device]; without bounds a long line takes minutes
RANK = re.compile(r"(\S{1,255}?):(\d{1,10}):\d{1,10} \[\d{1,4}\] NCCL INFO (.*)")
VIA = re.compile(r"via NET/(\w+)")
USING = re.compile(r"NET/(\w+) : Using (.*)")
DEVICE = re.compile(r"\[\d{1,4}\](\S{1,64}?)[:/\s]")
DMABUF = re.compile(r"enabled for HCA \d+ '([\w.]+)")
BARE = re.compile(r"NET/IB : No device found|Failed to initialize any NET plugin")
VERSION = re.compile(r"NCCL version (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """The log of one rank: `networks` are those that channels or the start named.

    `devices` are HCAs, or netdevs for TCP; `version` is empty where the log has none. `bare` means
    that NCCL found no RDMA device: it still prints ``NET/IB : Using``, with none.
    """

    rank: str
    networks: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    version: str = ""
    bare: bool = False

    @property
    def rdma(self) -> bool:
        """Whether everything goes by RDMA: ``NET/IB`` or a plugin's ``NET/IBext_v10``."""
        return bool(self.networks) and all(name.startswith("IB") for name in self.networks)


def parse_transports(log: str) -> Mapping[str, Transport]:
    """Return what each rank (``host:pid``) says in a log; prefixes before NCCL's own are skipped.

    Channels show what is in use; where a log has none, the start (``NET/IB : Using``) does.
    """
    messages: dict[str, list[str]] = {}
    for line in log.splitlines():
        match = RANK.search(line[:MAX_LINE]) if MARK in line[:MAX_LINE] else None
        if match:
            messages.setdefault(f"{match[1]}:{match[2]}", []).append(match[3])
    return {rank: _parse_transport(rank, "\n".join(lines)) for rank, lines in messages.items()}


def _parse_transport(rank: str, text: str) -> Transport:
    using = [(network, rest) for network, rest in USING.findall(text) if DEVICE.search(rest)]
    version = VERSION.search(text)
    devices = [name for _, rest in using for name in DEVICE.findall(rest)] + DMABUF.findall(text)
    return Transport(
        rank=rank,
        networks=frozenset(VIA.findall(text) or [network for network, _ in using]),
        devices=tuple(dict.fromkeys(devices)),
        version=version[1] if version else "",
        bare=BARE.search(text) is not None,
    )


def judge_transport(host: str, transport: Transport, *, rdma: bool = True) -> Verdict | None:
    """Return the verdict on what a rank on `host` took, or None where its log does not show it.

    Without `rdma` TCP is expected there and passes.
    """
    if not transport.networks and not (transport.bare and rdma):
        return None
    good = transport.rdma or not rdma
    networks = ", ".join(f"NET/{name}" for name in sorted(transport.networks)) or "no RDMA device"
    return (ok if good else error)(
        "link.transport",
        host,
        transport.rank,
        expected="NET/IB or NET/IBext: RDMA" if rdma else "TCP: no RDMA device in use",
        seen=f"{networks} on "
        f"{', '.join(transport.devices) or 'devices that the log does not name'}",
        source="NCCL INFO",
        fix=""
        if good
        else "RDMA was not available to NCCL: check /dev/infiniband, NCCL_IB_HCA, NCCL_IB_DISABLE",
    )
