"""Machines that announce SSH over mDNS on this network: shown, never connected to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.cli.init import mdns
from sparkfleet.errors import UsageError

COMMAND = ("avahi-browse", "--terminate", "--parsable", "--resolve", "_ssh._tcp")
TIMEOUT = 15.0  # seconds
RESOLVED = "="  # the first field of a line with an address
ESCAPE = re.compile(r"\\(\d{3})")  # a byte of a name, in decimal
VIRTUAL = re.compile(r"docker|veth|br-|lo$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A machine as it announces itself."""

    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.address:<16} {self.name}"


def find_announced() -> tuple[Announcement, ...]:
    """Return the machines that avahi-browse finds, or a query of our own where that fails.

    Raises UsageError where neither is possible.
    """
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return _query_announced()
    if done.returncode:  # avahi-daemon does not run
        return _query_announced()
    return tuple(dict.fromkeys(parse_announcements(done.stdout)))


def _query_announced() -> tuple[Announcement, ...]:
    try:
        machines = mdns.query_machines().list_machines()
    except OSError as error:
        raise UsageError(
            f"mDNS query failed: {error.strerror}", hint="name the Sparks: --host ADDRESS"
        ) from error
    return tuple(Announcement(name=name, address=address) for name, address in machines)


def parse_announcements(text: str) -> Iterator[Announcement]:
    """Yield the machines with an IPv4 address in the output of avahi-browse(1).

    A line is ``=;NETDEV;IPv4;NAME;TYPE;DOMAIN;HOST;ADDRESS;PORT;TXT``.
    """
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) < 9 or fields[0] != RESOLVED or fields[2] != "IPv4":
            continue
        if not VIRTUAL.match(fields[1]):
            yield Announcement(name=_unescape(fields[6]), address=fields[7])


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1]) % 256), text)
