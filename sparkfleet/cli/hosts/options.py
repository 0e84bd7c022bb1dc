"""Options of `hosts.*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.options import Options, flag, join_limits, option, parse_path, repeated
from sparkfleet.errors import UsageError

FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")


def parse_fingerprints(_name: str, items: Iterable[str]) -> frozenset[str]:
    """Return fingerprints as OpenSSH prints them; raises UsageError."""
    for text in items:
        if not FINGERPRINT.fullmatch(text):
            raise UsageError(
                f"--fingerprint: expected SHA256: and 43 characters (got {text!r})",
                hint="on the machine itself: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
            )
    return frozenset(text.rstrip("=") for text in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions(Options):
    """Options of the tasks that take --host as well as --limit."""

    host: str | None = repeated("the same as --limit", join_limits, default=None, value="HOSTS")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(HostOptions):
    """Options of `hosts.prepare`."""

    yes: bool = flag("make the changes; without it they are only shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOptions(HostOptions):
    """Options of `hosts.trust`."""

    fingerprint: frozenset[str] = repeated(
        "add keys with this fingerprint without asking; may be given more than once",
        parse_fingerprints,
        default=frozenset(),
        value="FINGERPRINT",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizeOptions(HostOptions):
    """Options of `hosts.authorize`."""

    key: Path | None = option(
        "the key to copy; by default the inventory's, else the one in ~/.ssh",
        parse_path,
        value="FILE",
    )
