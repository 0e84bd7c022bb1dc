"""`hosts.facts`: what each host is, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sparkfleet import facts
from sparkfleet.cli.context import open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document, serialize_host_errors
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Disk, Memory
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.quantities import format_memory, format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


def show_facts(options: Options) -> int:
    """Print the facts of every host and return the exit code, 0 if all have answered."""
    with open_cluster(options) as session:
        answers = session.pool.map(_fetch_facts, session.context.cluster.hosts, repeatable=True)
    code = compute_exit_code(answers.errors.values())
    if options.json:
        hosts = {name: serialize_facts(host_facts) for name, host_facts in answers.values.items()}
        errors = serialize_host_errors(answers.errors)
        print_document(hosts=hosts, errors=errors, exit_code=code)
        return code
    out = create_console()
    if answers.values:
        out.print(_build_facts_table(answers.values))
    for error in answers.errors.values():
        out.print(create_cell(str(error), "red"), soft_wrap=True)
    return code


def _fetch_facts(connection: Connection) -> HostFacts:
    return facts.gather_facts(
        connection, weights_dir=Settings(host=connection.host).text("weights_dir")
    )


def serialize_facts(host_facts: HostFacts) -> dict[str, Any]:
    """Return all facts of a host, without the raw text they were parsed from."""
    return {name: value for name, value in asdict(host_facts).items() if name != "readings"}


def _build_facts_table(by_host: Mapping[str, HostFacts]) -> Table:
    """Return a table with one column a host, without the facts that all hosts lack."""
    grid = create_table("", *by_host)
    columns = [dict(format_facts(host_facts)) for host_facts in by_host.values()]
    for name in columns[0]:
        cells = [column[name] for column in columns]
        if any(cells):
            grid.add_row(create_cell(name, "bold"), *cells)
    return grid


def format_facts(host_facts: HostFacts) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact that a person compares; "" where it is missing."""
    system = host_facts.system
    release = host_facts.release
    route = host_facts.default_route
    yield "machine", system.product
    yield "DGX OS", f"{release.name} {release.version}".strip()
    yield "system", release.os
    yield "kernel", f"{system.kernel} {system.architecture}".strip()
    yield "driver", host_facts.driver
    yield "GPU", ", ".join(gpu.name for gpu in host_facts.gpus)
    yield "GPU is used by", ", ".join(process.name for process in host_facts.gpu_processes)
    yield "desktop", ", ".join(process.name for process in host_facts.desktop)
    yield "memory", _format_memory_usage(host_facts.memory)
    yield "disk", _format_disk_space(host_facts.disk)
    yield "login", f"{system.user}, Python {system.python}"
    yield "lingers", {True: "yes", False: "no", None: ""}[host_facts.lingers]
    yield "default route", f"{route.netdev} {route.gateway or ''}".strip() if route else ""
    yield "firmware", ", ".join(sorted({hca.firmware for hca in host_facts.hcas if hca.firmware}))
    yield "rails", "\n".join(_format_host_rails(host_facts))


def _format_memory_usage(memory: Memory | None) -> str:
    if memory is None:
        return ""
    swapped = memory.swap_total - memory.swap_free
    return (
        f"{format_memory(memory.available)} of {format_memory(memory.total)} available\n"
        f"{format_memory(memory.cached)} page cache, {format_memory(swapped)} swapped out"
    )


def _format_disk_space(disk: Disk | None) -> str:
    if disk is None:
        return ""
    return f"{format_size(disk.available)} of {format_size(disk.total)} free, at {disk.folder}"


def _format_host_rails(host_facts: HostFacts) -> Iterator[str]:
    for rail in find_qsfp_rails(host_facts):
        netdev = host_facts.netdev(rail.name)
        if netdev and netdev.carrier:
            addresses = " ".join(map(str, netdev.addresses)) or "no address"
            yield f"{rail.name} {addresses} MTU {netdev.mtu}"
        else:
            yield f"{rail.name} down"
