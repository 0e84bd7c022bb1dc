"""Machines that announce SSH by mDNS on this network: shown, never connected to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.errors import UsageError

COMMAND = ("avahi-browse", "--terminate", "--parsable", "--resolve", "_ssh._tcp")
TIMEOUT = 15.0  # s
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
    """Return the machines that avahi-browse finds; raises UsageError where it cannot be run."""
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except FileNotFoundError as error:
        raise UsageError(
            "--discover needs avahi-browse, which is not installed",
            hint="install it (Debian, Ubuntu: avahi-utils), or name the Sparks: --host ADDRESS",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"avahi-browse did not end within {TIMEOUT:g} s", hint="name the Sparks: --host ADDRESS"
        ) from error
    if done.returncode:
        raise UsageError(
            f"avahi-browse failed: {done.stderr.strip() or done.returncode}",
            hint="is avahi-daemon running? Or name the Sparks: --host ADDRESS",
        )
    return tuple(dict.fromkeys(parse_announcements(done.stdout)))


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
