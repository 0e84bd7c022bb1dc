"""The query for machines that announce SSH by multicast DNS, against a responder on loopback."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from threading import Thread

import pytest

from sparkfleet.cli.init.mdns import (
    HEADER,
    MAX_MACHINES,
    PTR,
    RECORD,
    SERVICE,
    SRV,
    A,
    DnsRecords,
    build_query,
    query_machines,
    read_message,
)

INSTANCE = f"spark-a.{SERVICE}"
HOST = "spark-a.local"


def _encode_name(name: str) -> bytes:
    return build_query(name, A)[HEADER.size : -4]


def _encode_record(name: str, kind: int, data: bytes) -> bytes:
    return _encode_name(name) + RECORD.pack(kind, 1, 120, len(data)) + data


PTR_RECORD = _encode_record(SERVICE, PTR, _encode_name(INSTANCE))
SRV_RECORD = _encode_record(INSTANCE, SRV, struct.pack("!3H", 0, 0, 22) + _encode_name(HOST))
A_RECORD = _encode_record(HOST, A, bytes([192, 168, 1, 11]))


def _answer(*records: bytes) -> bytes:
    return HEADER.pack(0, 0x8400, 0, len(records), 0, 0) + b"".join(records)


@pytest.fixture
def responder() -> Iterator[tuple[str, int]]:
    """Answer each question with its own record only, after a message of garbage."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def respond() -> None:
            for record in (PTR_RECORD, SRV_RECORD, A_RECORD):
                question, sender = sock.recvfrom(1000)
                kind = struct.unpack("!H", question[-4:-2])[0]
                assert kind == {PTR_RECORD: PTR, SRV_RECORD: SRV, A_RECORD: A}[record]
                sock.sendto(b"\1\2\3", sender)
                sock.sendto(_answer(record), sender)

        thread = Thread(target=respond, daemon=True)
        thread.start()
        yield sock.getsockname()
        thread.join(30)


def test_a_machine_is_found_by_three_questions(responder: tuple[str, int]) -> None:
    assert list(query_machines(responder, patience=3).list_machines()) == [(HOST, "192.168.1.11")]


def test_a_name_that_refers_to_an_earlier_one_is_read() -> None:
    pointer = struct.pack("!H", 0xC000 | HEADER.size)  # to the name of the first record
    short = _encode_record(SERVICE, PTR, b"\7spark-a" + pointer)
    records = DnsRecords()
    read_message(_answer(short, SRV_RECORD, A_RECORD), records)
    assert list(records.list_machines()) == [(HOST, "192.168.1.11")]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 11,
        _answer(PTR_RECORD)[:-3],
        HEADER.pack(0, 0, 0, 65535, 0, 0),
        HEADER.pack(0, 0, 1, 0, 0, 0) + struct.pack("!H", 0xC000 | HEADER.size),
    ],
    ids=["empty", "short", "cut", "counts", "circle"],
)
def test_a_message_that_is_not_valid_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="DNS"):
        read_message(message, DnsRecords())


def test_a_name_that_is_too_long_is_refused() -> None:
    label = b"\x3f" + b"a" * 63
    for name in (label * 5 + b"\0", b"\x40" + b"a" * 64 + b"\0"):
        record = name + RECORD.pack(A, 1, 120, 4) + bytes([192, 168, 1, 11])
        with pytest.raises(ValueError, match="too long"):
            read_message(_answer(record), DnsRecords())


def test_the_machines_that_are_kept_have_a_bound() -> None:
    records = DnsRecords()
    for number in range(2000):
        name = _encode_name(f"spark-{number}.{SERVICE}")
        read_message(_answer(_encode_record(SERVICE, PTR, name)), records)
    assert len(records.instances) == MAX_MACHINES
