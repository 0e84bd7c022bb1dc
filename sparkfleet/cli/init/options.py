"""Options of `init`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.command_line import is_argument_typed
from sparkfleet.cli.hosts.options import parse_fingerprints
from sparkfleet.cli.options import Options, flag, option, parse_path, repeated
from sparkfleet.errors import UsageError

LOCAL = "local"  # this machine, in place of an address
MACHINE = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_][\w.-]*)=)?(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?"
    r"(?P<address>[A-Za-z0-9_][\w.-]*)(?::(?P<port>\d{1,5}))?",
    re.ASCII,
)
WITH_VALUE = ("--host", "--recipe", "--fingerprint", "--forks", "-f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A Spark as it was typed; without a `name` it is ``spark1``, ``spark2``, ..."""

    address: str
    name: str = ""
    user: str = ""
    port: int | None = None


def parse_machine(text: str) -> Machine:
    """Return the machine of ``[NAME=][USER@]ADDRESS[:PORT]``, or ``local``; raises UsageError."""
    match = MACHINE.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or port == 0 or (port or 0) > 65535:
        raise UsageError(
            f"expected an address or USER@ADDRESS (got {text!r})",
            hint="such as: 192.168.1.11, nvidia@192.168.1.11, spark-a=nvidia@10.0.0.1:2222, local",
        )
    return Machine(
        address=match["address"], name=match["name"] or "", user=match["user"] or "", port=port
    )


def parse_machines(_name: str, items: Iterable[str]) -> tuple[Machine, ...]:
    """Return the machines of --host; raises UsageError."""
    try:
        return tuple(parse_machine(text) for text in items)
    except UsageError as error:
        hint = "type: --host nvidia@192.168.1.11"
        raise UsageError(f"--host: {error.message}", hint=hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(Options):
    """Options of `init`."""

    dir: Path | None = option(
        "the folder of the project; by default this one",
        parse_path,
        positional=is_argument_typed("init", WITH_VALUE),
        value="[FOLDER]",
    )
    host: tuple[Machine, ...] = repeated(
        "a Spark: [NAME=][USER@]ADDRESS[:PORT], or local; the first is the head; may be given more "
        "than once",
        parse_machines,
        value="MACHINE",
    )
    fingerprint: frozenset[str] = repeated(
        "add host keys with this fingerprint to known_hosts without asking; may be given more "
        "than once",
        parse_fingerprints,
        default=frozenset(),
        value="FINGERPRINT",
    )
    discover: bool = flag(
        "show machines that announce SSH over mDNS, and add the Sparks on the cables of the first; "
        "scans nothing"
    )
    api_key: bool = flag("create an API key for the endpoint, in the file api-key", default=True)
    yes: bool = flag("ask nothing; take everything from the options")
    replace: bool = flag("replace an inventory that exists; it is kept as local.yml.old")
