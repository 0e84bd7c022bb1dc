"""Checks of how hosts are connected to, before the first connection."""

from __future__ import annotations

from collections.abc import Iterable

from sparkfleet.errors import InputError, InventoryError, Problem
from sparkfleet.inventory.passwords import read_sudo_password
from sparkfleet.model import Host
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_options import parse_ssh_options


def check_ssh_options(hosts: Iterable[Host]) -> None:
    """Raise InventoryError with every unsupported SSH option of the inventory and of ssh."""
    problems: dict[Problem, None] = {}
    for host in hosts:
        try:
            options = parse_ssh_options(host)
            if host.get("ansible_connection") != "local":
                complete_ssh_options(options)
        except InputError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise InventoryError.of(list(problems))


def check_sudo_passwords(hosts: Iterable[Host]) -> None:
    """Raise InventoryError with every sudo password that is unreadable, or readable by others."""
    problems: dict[Problem, None] = {}
    for host in hosts:
        try:
            read_sudo_password(host.vars)
        except InventoryError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise InventoryError.of(list(problems))
