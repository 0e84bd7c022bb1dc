"""Checks of the variables that say how to reach a host."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sparkfleet.errors import InvalidValueError, Problem
from sparkfleet.inventory.files.tree import ADDRESS
from sparkfleet.model import Host
from sparkfleet.templating import holds_template
from sparkfleet.values import convert_integer
from sparkfleet.variables.secret import SUDO_PASSWORDS, is_file

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")
KINDS = ("ssh", "smart", "paramiko", "paramiko_ssh", "local")


def check_connection_variables(hosts: Iterable[Host], sparks: Iterable[Host]) -> Iterator[Problem]:
    """Yield values that SSH would take for options, and what is not supported for `sparks`."""
    for host in hosts:
        yield from _check_host_variables(host, HOST_CHECKS)
    spark_hosts = list(sparks)
    for host in spark_hosts:
        yield from _check_host_variables(host, SPARK_CHECKS)
    yield from _check_shared_addresses(spark_hosts)


def _check_host_variables(
    host: Host, checks: Mapping[str, Callable[[Any], object]]
) -> Iterator[Problem]:
    for name, check in checks.items():
        value = host.vars.get(name)
        if value is None or value.data is None or holds_template(value.data):
            continue
        try:
            check(value.data)
        except InvalidValueError as error:
            wrong = f"expected {error.expected}" if name in SUDO_PASSWORDS else error
            yield Problem(message=f"{name}: {wrong}", where=value.where)


def _check_host_address(data: Any) -> None:
    if not ADDRESS.fullmatch(str(data)):
        raise InvalidValueError("a host name or an address", data)


def _check_ssh_user(data: Any) -> None:
    if not (isinstance(data, str) and USER.fullmatch(data)):
        raise InvalidValueError("a user name", data)


def _check_connection_kind(data: Any) -> None:
    if data not in KINDS:
        raise InvalidValueError("ssh or local", data)


def _check_key_path(data: Any) -> None:
    if not (isinstance(data, str) and data):
        raise InvalidValueError("a file path", data)


def _check_ssh_arguments(data: Any) -> None:
    import shlex  # noqa: PLC0415 - few hosts need options

    try:
        shlex.split(data if isinstance(data, str) else "'")
    except ValueError as error:
        raise InvalidValueError("options, quoted as in a shell", data) from error


def _check_sudo_password(data: Any) -> None:
    """Require text: YAML reads 0123 as 83."""
    if not (is_file(data) or (isinstance(data, str) and not {"\n", "\r", "\0"} & set(data))):
        raise InvalidValueError("one line of text, in quotes, or {from_file: PATH}", data)


HOST_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "ansible_host": _check_host_address,
    "ansible_port": functools.partial(convert_integer, minimum=1, maximum=65535),
    "ansible_user": _check_ssh_user,
}
SPARK_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "ansible_connection": _check_connection_kind,
    "ansible_private_key_file": _check_key_path,
    "ansible_ssh_common_args": _check_ssh_arguments,
    "ansible_ssh_extra_args": _check_ssh_arguments,
    "ansible_ssh_private_key_file": _check_key_path,
    **dict.fromkeys(SUDO_PASSWORDS, _check_sudo_password),
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
