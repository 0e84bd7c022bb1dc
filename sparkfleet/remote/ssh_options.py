"""From inventory variables to what an SSH connection needs; pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkfleet.errors import InventoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkfleet.model import Host

JUMP = re.compile(r"(?:ssh://)?(?:([\w.-]+)@)?([\w][\w.-]*)(?::(\d{1,5}))?")
PORTS = range(1, 65536)
VALUE_FLAGS = {"-i": "identityfile", "-J": "proxyjump", "-p": "port", "-l": "user"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """Where and how to connect; `jumps` are the hosts on the way, nearest to us first.

    Without a user or a port those of ``~/.ssh/config`` count, then this login and 22.
    """

    address: str
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
    accept_new: bool = False
    jumps: tuple[SshOptions, ...] = ()


def ssh_options(host: Host) -> SshOptions:
    """Return the SSH options of `host`.

    Reads `ansible_host`, `ansible_user`, `ansible_port`, `ansible_ssh_private_key_file` and the
    part of `ansible_ssh_common_args` and `ansible_ssh_extra_args` that ``docs/inventory.md`` lists.
    Raises InventoryError for an option outside that part.
    """
    key = host.get("ansible_ssh_private_key_file") or host.get("ansible_private_key_file")
    options = SshOptions(
        address=host.address,
        user=str(host.get("ansible_user")) if host.get("ansible_user") else None,
        port=int(host.get("ansible_port")) if host.get("ansible_port") else None,
        identity_files=(str(key),) if key else (),
    )
    for variable in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        for name, value in _pairs(host, variable):
            options = _apply(options, host, name, value)
    return replace(options, jumps=tuple(_inherit(hop, options) for hop in options.jumps))


def _pairs(host: Host, variable: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(str(host.get(variable) or "")))
    for word in words:
        flag, attached = word[:2], word[2:]
        if flag == "-o":
            name, _, value = (attached or next(words, "")).partition("=")
            yield name.strip().lower(), value.strip()
        elif flag in VALUE_FLAGS:
            yield VALUE_FLAGS[flag], attached or next(words, "")
        else:
            yield word, ""


def _apply(options: SshOptions, host: Host, name: str, value: str) -> SshOptions:
    match name:
        case "userknownhostsfile":
            return replace(options, known_hosts=(*options.known_hosts, *shlex.split(value)))
        case "stricthostkeychecking" if value.lower() in ("yes", "ask", "true"):
            return options
        case "stricthostkeychecking" if value.lower() == "accept-new":
            return replace(options, accept_new=True)
        case "identityfile":
            return replace(options, identity_files=(*options.identity_files, value))
        case "port" if value.isdecimal() and int(value) in PORTS:
            return replace(options, port=int(value))
        case "user":
            return replace(options, user=value)
        case "proxyjump" if (jumps := _jumps(value)) is not None:
            return replace(options, jumps=jumps)
        case "batchmode" | "identitiesonly" | "connecttimeout":
            return options
    raise _unknown(host, name, value)


def _unknown(host: Host, name: str, value: str) -> InventoryError:
    seen = f"{name}={value}" if value else name
    hint = "known: UserKnownHostsFile, IdentityFile, ProxyJump (-J), Port, User, accept-new"
    if name == "stricthostkeychecking":
        hint = "host keys are always checked; use accept-new to trust a host on first contact"
    value_of = host.vars.get("ansible_ssh_common_args") or host.vars.get("ansible_ssh_extra_args")
    return InventoryError(
        f"host {host.name}: SSH option {seen!r} is not supported",
        where=value_of.where if value_of else None,
        hint=hint,
    )


def _jumps(text: str) -> tuple[SshOptions, ...] | None:
    """Return the jump hosts in a list of ``[ssh://][user@]host[:port]``; None if one is not."""
    if text.lower() == "none":
        return ()
    found = [JUMP.fullmatch(hop.strip()) for hop in text.split(",")]
    hops = [hop for hop in found if hop and int(hop[3] or 22) in PORTS]
    if len(hops) < len(found):
        return None
    return tuple(
        SshOptions(address=hop[2], user=hop[1], port=int(hop[3]) if hop[3] else None)
        for hop in hops
    )


def _inherit(hop: SshOptions, target: SshOptions) -> SshOptions:
    return replace(
        hop,
        user=hop.user or target.user,
        identity_files=target.identity_files,
        known_hosts=target.known_hosts,
        accept_new=target.accept_new,
    )
