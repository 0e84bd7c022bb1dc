"""From inventory variables to what an SSH connection needs; pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import InventoryError
from sparkfleet.remote.ssh_keywords import KEYWORDS, Treatment
from sparkfleet.values import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkfleet.model import Host

PARSED = ("port", "proxyjump", "stricthostkeychecking", "hostname", "host", "match", "include")
JUMP = re.compile(r"(?:ssh://)?(?:([\w.-]+)@)?([\w][\w.-]*)(?::(\d{1,5}))?")
PORTS = range(1, 65536)
FIELDS = {"user": "user", "hostkeyalias": "key_alias", "configfile": "config_file"}
VALUE_FLAGS = {
    "-B": "bindinterface",
    "-F": "configfile",
    "-I": "pkcs11provider",
    "-J": "proxyjump",
    "-i": "identityfile",
    "-l": "user",
    "-S": "controlpath",
    "-b": "bindaddress",
    "-c": "ciphers",
    "-e": "escapechar",
    "-m": "macs",
    "-p": "port",
}
FAMILY_FLAGS = {"-4": "inet", "-6": "inet6"}
# Flags without a meaning for one connection that is kept open; accepted, and without effect.
HARMLESS_FLAGS = re.compile("-[AaCfgKkMnNqTtvXxYy]+")
# The ways through a bastion that ProxyJump replaces: of Ansible's documents, and with nc.
BASTION = re.compile(
    r"(?:exec )?ssh(?: -q)?(?: -W %h:%p)?(?: -q)? ([\w@.-]+)(?: -q)?"
    r"(?: -W %h:%p|(?: exec)? (?:nc|netcat)(?: -[a-z]\d*)* %h %p)?"
)
OPTION = re.compile(r"\s*(\w+)\s*(?:=|\s|$)\s*(.*?)\s*", re.DOTALL)  # Name=value, or Name value


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """The options of a connection; `jumps` are the hosts on the way, the nearest first.

    What is None or empty the inventory leaves to the configuration of ssh: `complete_ssh_options`,
    which also reads the further `words`, ``Name=value``.
    """

    address: str
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
    key_checking: str | None = None  # StrictHostKeyChecking
    key_alias: str | None = None  # HostKeyAlias
    config_file: str | None = None
    jumps: tuple[SshOptions, ...] | None = None
    fallback_user: str | None = None  # of a jump host, where ssh's configuration names none
    words: tuple[str, ...] = ()
    identities_only: bool = False
    agent: bool = True  # IdentityAgent
    agent_socket: str = ""  # of IdentityAgent; "" is that of SSH_AUTH_SOCK
    family: str = "any"  # AddressFamily
    rsa_bits: int = 0  # RequiredRSASize
    hash_names: bool = False  # HashKnownHosts
    algorithms: tuple[tuple[str, tuple[str, ...]], ...] = ()  # by Paramiko's kind, those allowed


UNSET = SshOptions(address="")


def parse_ssh_options(host: Host) -> SshOptions:
    """Return the SSH options of `host`; of two values for one the first counts, as with ssh.

    Reads `ansible_host`, `ansible_user`, `ansible_port`, `ansible_ssh_private_key_file`, then the
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
        for name, value in _split_ssh_args(host, variable):
            options = _merge_ssh_fields(options, _parse_ssh_arg(host, name, value))
    return replace(options, jumps=_inherit_jump_options(options))


def parse_jump_hosts(text: str) -> tuple[SshOptions, ...] | None:
    """Return the jump hosts in a list of ``[ssh://][user@]host[:port]``; None if one is not.

    The way to the first is its own affair; to each other it leads through the one before.
    """
    if text.lower() == "none":
        return ()
    matches = [JUMP.fullmatch(hop.strip()) for hop in text.split(",")]
    hops = [hop for hop in matches if hop and int(hop[3] or 22) in PORTS]
    if len(hops) < len(matches):
        return None
    return tuple(
        SshOptions(
            address=hop[2],
            user=hop[1],
            port=int(hop[3]) if hop[3] else None,
            jumps=() if hop is not hops[0] else None,
        )
        for hop in hops
    )


def suggest_jump_host(command: str, *, before: str = "", joint: str = " ") -> str | None:
    """Return how ProxyJump says the same as a ProxyCommand, None for one that does more."""
    bastion = BASTION.fullmatch(command)
    return f"write it as {before}ProxyJump{joint}{bastion[1]}" if bastion else None


def _split_ssh_args(host: Host, variable: str) -> Iterator[tuple[str, str]]:
    args = iter(shlex.split(str(host.get(variable) or "")))
    for arg in args:
        flag = arg[:2]
        attached = arg[2:]
        if flag == "-o":
            option = OPTION.fullmatch(attached or next(args, ""))
            yield (option[1], option[2]) if option else (arg, "")
        elif flag in FAMILY_FLAGS:
            yield "addressfamily", FAMILY_FLAGS[flag]
        elif flag in VALUE_FLAGS:
            yield VALUE_FLAGS[flag], attached or next(args, "")
        else:
            yield arg, ""


def _parse_ssh_arg(host: Host, name: str, value: str) -> dict[str, Any]:  # noqa: C901 - a table of options, one case each
    match name.lower():
        case "userknownhostsfile":
            return {"known_hosts": tuple(shlex.split(value))}
        case "stricthostkeychecking" if value.lower() in ("yes", "ask", "true"):
            return {"key_checking": "yes"}
        case "stricthostkeychecking" if value.lower() == "accept-new":
            return {"key_checking": "accept-new"}
        case "identityfile":
            return {"identity_files": (value,)}
        case "port" if (port := parse_digits(value)) in PORTS:
            return {"port": port}
        case "user" | "hostkeyalias" | "configfile" if value:
            return {FIELDS[name.lower()]: value}
        case "proxyjump" if (jumps := parse_jump_hosts(value)) is not None:
            return {"jumps": jumps}
        case "proxycommand" if value.lower() == "none":
            return {"jumps": ()}
        case _ if HARMLESS_FLAGS.fullmatch(name):
            return {}
    return _parse_ssh_keyword(host, name, value)


def _parse_ssh_keyword(host: Host, name: str, value: str) -> dict[str, Any]:
    """Return what an option that ssh itself reads leaves; raises InventoryError for the others."""
    row = KEYWORDS.get(name.lower())
    if row is not None and name.lower() not in PARSED and value:
        fine = value.lower() in (each.lower() for each in row.fine)
        if row.treatment is Treatment.USED:
            return {"words": (f"{row.name}={value}",)}
        if row.treatment is Treatment.NO_EFFECT or fine:
            return {}
    raise _build_option_error(host, name, value)


def _merge_ssh_fields(options: SshOptions, fields: dict[str, Any]) -> SshOptions:
    for name, value in fields.items():
        current = getattr(options, name)
        if name == "identity_files":
            options = replace(options, identity_files=(*current, *value))
        elif name == "words":
            options = replace(options, words=(*current, *value))
        elif current == getattr(UNSET, name):
            options = replace(options, **{name: value})
    return options


def _build_option_error(host: Host, name: str, value: str) -> InventoryError:
    option = f"{name}={value}" if value else name
    hint = (
        "known: UserKnownHostsFile, IdentityFile, ProxyJump (-J), Port, User, HostKeyAlias, "
        "accept-new, -F"
    )
    row = KEYWORDS.get(name.lower())
    if row is not None and row.treatment is Treatment.REFUSED:
        hint = row.note
    if name.lower() == "proxycommand" and (
        jump := suggest_jump_host(value, before="-o ", joint="=")
    ):
        hint = jump
    if name.lower() == "stricthostkeychecking":
        hint = "host keys are always checked; use accept-new to trust a host on first contact"
    source = host.vars.get("ansible_ssh_common_args") or host.vars.get("ansible_ssh_extra_args")
    return InventoryError(
        f"host {host.name}: SSH option {option!r} is not supported",
        where=source.where if source else None,
        hint=hint,
    )


def _inherit_jump_options(target: SshOptions) -> tuple[SshOptions, ...] | None:
    if target.jumps is None:
        return None
    return tuple(
        replace(
            hop,
            fallback_user=target.user,
            identity_files=target.identity_files,
            known_hosts=target.known_hosts,
            key_checking=target.key_checking,
            config_file=target.config_file,
        )
        for hop in target.jumps
    )
