"""`links.revert` and `links.repair`: shown first, then done where it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkfleet import facts
from sparkfleet.cli.context import open_pool
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.confirmation import find_serving, is_confirmed
from sparkfleet.cli.links.options import ChangeOptions
from sparkfleet.cli.links.session import RootSession, open_root_session
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.facts import HostFacts
from sparkfleet.links.addressing.gid_repair import GidFault, find_gid_faults
from sparkfleet.links.addressing.host_network import HostNetwork
from sparkfleet.links.addressing.surveying import (
    parse_differences,
    read_login_address,
    run_netconfig,
    survey_fabric,
)
from sparkfleet.links.selection import select_fabric
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.report.text import format_diff

RESTORING = 90.0  # seconds for a host


def revert_links(options: ChangeOptions) -> int:
    """Restore the network files and addresses of before the first `links.apply`.

    Returns 0, or 2 where something differs even then.
    """
    with open_root_session(options) as session:
        host_facts = session.pool.map(facts.gather_facts, session.hosts).all()
        inputs = survey_fabric(session.pool, session.hosts, host_facts)
        serving = find_serving(session)
    saved = {name: network for name, network in inputs.networks.items() if network.saved}
    for network in saved.values():
        _print_saved(network)
    if not saved:
        print_lines("no host has anything to restore")
        return 0
    if not is_confirmed(options, "restore this?", serving):
        return 0
    hosts = tuple(host for host in session.hosts if host.name in saved)
    return _run_everywhere(options, hosts, host_facts, lambda _: {"do": "restore"})


def repair_links(options: ChangeOptions) -> int:
    """Re-add the addresses of rails whose GID is missing or moved; return 0, or 2 if any remain."""
    with open_root_session(options) as session:
        faults = _find_faults(session)
        serving = find_serving(session) if faults else None
        host_facts = session.pool.map(facts.gather_facts, session.hosts).all()
    for fault in faults:
        print_lines(f"{fault}: remove and add {fault.rail.address} on {fault.rail.name}")
    if not faults:
        print_lines("each rail has its RoCE v2 GID at the usual index; nothing to repair")
        return 0
    if not is_confirmed(options, "the links go down for a moment; repair this?", serving):
        return 0
    names = [fault.rail.host for fault in faults]
    hosts = tuple(host for host in session.hosts if host.name in names)

    def build_request(host: str) -> dict[str, Any]:
        rails = [fault.rail.name for fault in faults if fault.rail.host == host]
        return {"do": "renew", "rails": rails}

    code = _run_everywhere(options, hosts, host_facts, build_request)
    with open_root_session(options) as session:
        left = _find_faults(session)
    for fault in left:
        print_lines(f"not repaired: {fault}")
    return code or compute_exit_code(refused=bool(left))


def _find_faults(session: RootSession) -> list[GidFault]:
    host_facts = session.pool.map(facts.gather_facts, session.hosts).all()
    return list(find_gid_faults(select_fabric(host_facts, session.hosts)))


def _print_saved(network: HostNetwork) -> None:
    assert network.saved is not None  # noqa: S101 - the caller chose those
    screen = create_screen()
    screen.line(f"{network.host}:", "bold")
    for path, text in network.saved.files.items():
        summary = f"remove {path}" if text is None else f"restore {path}"
        screen.line(f"  {summary}")
        before = network.files.get(path)
        for line, style in format_diff(
            Change(summary=summary, path=path, before=before, after=text)
        ):
            screen.line(line, style)
    for netdev, text in network.saved.rails.items():
        screen.line(f"  {netdev}: {text}")


def _run_everywhere(
    options: Options,
    hosts: tuple[Host, ...],
    host_facts: Mapping[str, HostFacts],
    build_request: Callable[[str], dict[str, Any]],
) -> int:
    """Run a request on each host, log in again, print the results, and return the exit code."""

    def work(connection: Connection) -> tuple[str, ...]:
        name = connection.host.name
        user = host_facts[name].system.user
        request = {**build_request(name), "management": read_login_address(connection)}
        return run_netconfig(connection, user, request, parse_differences, timeout=RESTORING)

    with open_pool(options) as pool:
        answers = pool.map(work, hosts)
    with open_pool(options) as pool:
        again = pool.map(read_login_address, hosts)
    for name, left in answers.values.items():
        shown = f"differs: {'; '.join(left)}" if left else "done, and the host answers"
        print_lines(f"{name}: {shown}")
    errors = {**answers.errors, **again.errors}
    for error in errors.values():
        print_lines(f"error: {error}")
    refused = any(answers.values.values())
    return compute_exit_code(errors.values(), refused=refused)
