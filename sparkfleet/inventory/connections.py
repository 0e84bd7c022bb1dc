"""Checks of the variables that say how to reach a host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sparkfleet.errors import Problem
from sparkfleet.inventory.tree import ADDRESS
from sparkfleet.model import Host
from sparkfleet.templating import holds_template
from sparkfleet.variables.secret import SUDO_PASSWORDS, is_file

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")
KINDS = ("ssh", "smart", "paramiko", "paramiko_ssh", "local")


def check_connection_variables(hosts: Iterable[Host], sparks: Iterable[Host]) -> Iterator[Problem]:
    """Yield what would reach SSH as an option, and what we cannot do for the hosts of `sparks`."""
    for host in hosts:
        yield from _check_host_variables(host, HOST_VALIDATORS)
    spark_hosts = list(sparks)
    for host in spark_hosts:
        yield from _check_host_variables(host, SPARK_VALIDATORS)
    yield from _check_shared_addresses(spark_hosts)


def _check_host_variables(
    host: Host, validators: Mapping[str, Callable[[Any], str | None]]
) -> Iterator[Problem]:
    for name, validate in validators.items():
        value = host.vars.get(name)
        if value is None or value.data is None or holds_template(value.data):
            continue
        if wrong := validate(value.data):
            quoted = "" if name in SUDO_PASSWORDS else f", not {value.data!r}"
            yield Problem(message=f"{name} {wrong}{quoted}", where=value.where)


def _validate_host_address(data: Any) -> str | None:
    return None if ADDRESS.fullmatch(str(data)) else "must be a name or an address"


def _validate_ssh_port(data: Any) -> str | None:
    text = str(data)
    is_port = text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535
    return None if is_port else "must be a port, 1 to 65535"


def _validate_ssh_user(data: Any) -> str | None:
    return None if isinstance(data, str) and USER.fullmatch(data) else "must be a user's name"


def _validate_connection_kind(data: Any) -> str | None:
    return None if data in KINDS else "must be ssh or local"


def _validate_key_path(data: Any) -> str | None:
    return None if isinstance(data, str) and data else "must be the path of a file"


def _validate_ssh_arguments(data: Any) -> str | None:
    import shlex  # noqa: PLC0415 - few hosts need options

    try:
        shlex.split(data if isinstance(data, str) else "'")
    except ValueError:
        return "must be options as a shell reads them"
    return None


def _validate_sudo_password(data: Any) -> str | None:
    """Want text: YAML makes 83 of 0123."""
    if is_file(data) or (isinstance(data, str) and not {"\n", "\r", "\0"} & set(data)):
        return None
    return "must be one line of text, in quotes, or {from_file: PATH}"


HOST_VALIDATORS = {
    "ansible_host": _validate_host_address,
    "ansible_port": _validate_ssh_port,
    "ansible_user": _validate_ssh_user,
}
SPARK_VALIDATORS = {
    "ansible_connection": _validate_connection_kind,
    "ansible_private_key_file": _validate_key_path,
    "ansible_ssh_common_args": _validate_ssh_arguments,
    "ansible_ssh_extra_args": _validate_ssh_arguments,
    "ansible_ssh_private_key_file": _validate_key_path,
    **dict.fromkeys(SUDO_PASSWORDS, _validate_sudo_password),
}


def _check_shared_addresses(hosts: Iterable[Host]) -> Iterator[Problem]:
    first: dict[tuple[str, ...], str] = {}
    for host in hosts:
        if host.get("ansible_connection") == "local":
            continue
        way = (str(host.get(name)) for name in ("ansible_port", "ansible_ssh_common_args"))
        namesake = first.setdefault((host.address, *way), host.name)
        if namesake != host.name:
            value = host.vars.get("ansible_host")
            yield Problem(
                message=f"{host.name} and {namesake} have the same address {host.address}",
                where=value.where if value else None,
                hint="give each host its own ansible_host",
            )
