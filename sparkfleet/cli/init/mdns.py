"""A query for machines that announce SSH by multicast DNS, where avahi-browse is missing.

A query from another port than 5353 is answered to that port, as one of a simple resolver:
https://www.rfc-editor.org/rfc/rfc6762#section-6.7; services: https://www.rfc-editor.org/rfc/rfc6763.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address

GROUP = ("224.0.0.251", 5353)
SERVICE = "_ssh._tcp.local"
A, PTR, SRV = 1, 12, 33
INTERNET = 1  # class IN
PATIENCE = 3.0  # seconds
LARGEST = 9000  # bytes of a message
MAX_JUMPS = 32  # of compressed names
MAX_NAME = 255  # bytes: https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4
MAX_LABEL = 63
MAX_MACHINES = 256  # whose records are kept; a network of Sparks has fewer
HEADER = struct.Struct("!6H")
RECORD = struct.Struct("!HHIH")


@dataclass(slots=True)
class DnsRecords:
    """The records of all answers: instances of the service, their hosts, addresses of hosts."""

    instances: set[str] = field(default_factory=set)
    hosts: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def list_machines(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the IPv4 address of each host with the service."""
        for instance in sorted(self.instances):
            host = self.hosts.get(instance, "")
            if host in self.addresses:
                yield host, self.addresses[host]


def query_machines(group: tuple[str, int] = GROUP, patience: float = PATIENCE) -> DnsRecords:
    """Return what answers a query for SSH within `patience` seconds; raises OSError."""
    records = DnsRecords()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        _send(sock, build_query(SERVICE, PTR), group)
        deadline = time.monotonic() + patience
        asked: set[str] = set()
        while (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                message = sock.recv(LARGEST)
            except TimeoutError:
                break
            with contextlib.suppress(ValueError):  # of a machine that answers something else
                read_message(message, records)
            for name, kind in _list_missing(records):
                if name not in asked:
                    asked.add(name)
                    _send(sock, build_query(name, kind), group)
    return records


def _send(sock: socket.socket, message: bytes, group: tuple[str, int]) -> None:
    """Send a message by every network interface; raises OSError where none takes it."""
    failure: OSError | None = None
    sent = False
    for index, _name in socket.if_nameindex():
        try:
            sock.setsockopt(
                socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@4s4si", b"", b"", index)
            )
            sock.sendto(message, group)
            sent = True
        except OSError as error:
            failure = error
        if sent and not IPv4Address(group[0]).is_multicast:
            return
    if not sent and failure:
        raise failure


def _list_missing(records: DnsRecords) -> list[tuple[str, int]]:
    missing = [(name, SRV) for name in records.instances if name not in records.hosts]
    hosts = records.hosts.values()
    return missing + [(name, A) for name in hosts if name not in records.addresses]


def build_query(name: str, kind: int) -> bytes:
    """Return the message that asks for the records of a name."""
    labels = b"".join(bytes([len(label)]) + label for label in map(str.encode, name.split(".")))
    return HEADER.pack(0, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, INTERNET)


def read_message(message: bytes, records: DnsRecords) -> None:
    """Add the records of an answer; raises ValueError for one that is not valid."""
    try:
        _, _, questions, *counts = HEADER.unpack_from(message)
        at = HEADER.size
        for _ in range(questions):
            _, at = _read_name(message, at)
            at += 4
        for _ in range(sum(counts)):
            name, at = _read_name(message, at)
            kind, _, _, length = RECORD.unpack_from(message, at)
            at += RECORD.size
            _add_record(records, name, kind, (message, at, length))
            at += length
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"invalid DNS message: {error}") from error


def _add_record(records: DnsRecords, name: str, kind: int, data: tuple[bytes, int, int]) -> None:
    message, start, length = data
    kept = (records.instances, records.hosts, records.addresses)
    if max(map(len, kept)) >= MAX_MACHINES:
        return
    if kind == PTR and name.lower() == SERVICE:
        records.instances.add(_read_name(message, start)[0])
    elif kind == SRV:
        records.hosts[name] = _read_name(message, start + 6)[0]
    elif kind == A and length == 4:
        address = IPv4Address(message[start : start + length])
        if not (address.is_loopback or address.is_multicast):
            records.addresses[name] = str(address)


def _read_name(message: bytes, at: int) -> tuple[str, int]:
    """Return a name, which may refer to earlier ones, and where the message goes on."""
    labels: list[str] = []
    end = 0
    for _ in range(MAX_JUMPS * 4):
        length = message[at]
        if length == 0 and sum(len(label) + 1 for label in labels) <= MAX_NAME:
            return ".".join(labels), end or at + 1
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | message[at + 1]
            continue
        if length == 0 or length > MAX_LABEL:
            break
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    raise ValueError("DNS name too long or unterminated")
