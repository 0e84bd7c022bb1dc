"""`hosts.facts`: what each host is, side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sparkfleet import facts
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import resolve, tell
from sparkfleet.cli.tables import cell, console, table
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Disk, Memory
from sparkfleet.links.selection import qsfp_rails
from sparkfleet.quantities import show_memory, show_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.report import json


def show_facts(asked: Asked) -> int:
    """Print the facts of every host and return the exit code, 0 if all have answered."""
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = pool.map(_gather, resolved.cluster.hosts)
    code = exit_code(answers.errors)
    if asked.output == "json":
        hosts = {name: _data(seen) for name, seen in answers.values.items()}
        errors = {name: json.problem(one.problems[0]) for name, one in answers.errors.items()}
        json.write(json.document(hosts=hosts, errors=errors, exit_code=code), sys.stdout)
        return code
    out = console()
    if answers.values:
        out.print(_table(answers.values))
    for error in answers.errors.values():
        out.print(cell(str(error), "red"), soft_wrap=True)
    return code


def _gather(link: Link) -> HostFacts:
    return facts.gather(link, weights_dir=Settings(host=link.host).text("weights_dir"))


def _data(seen: HostFacts) -> dict[str, Any]:
    """Return all facts of a host, without the raw texts that they were parsed from."""
    return {name: value for name, value in asdict(seen).items() if name != "readings"}


def _table(seen: Mapping[str, HostFacts]) -> Table:
    """Return a table with a host a column; what all hosts lack is left out."""
    found = table("", *seen)
    columns = [dict(rows(one)) for one in seen.values()]
    for name in columns[0]:
        cells = [column[name] for column in columns]
        if any(cells):
            found.add_row(cell(name, "bold"), *cells)
    return found


def rows(seen: HostFacts) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact that a person compares; "" for what is not there."""
    system, release, route = seen.system, seen.release, seen.default_route
    yield "machine", system.product
    yield "DGX OS", f"{release.name} {release.version}".strip()
    yield "system", release.os
    yield "kernel", f"{system.kernel} {system.architecture}".strip()
    yield "driver", seen.driver
    yield "GPU", ", ".join(gpu.name for gpu in seen.gpus)
    yield "GPU is used by", ", ".join(process.name for process in seen.gpu_processes)
    yield "desktop", ", ".join(process.name for process in seen.desktop)
    yield "memory", _memory(seen.memory)
    yield "disk", _disk(seen.disk)
    yield "login", f"{system.user}, Python {system.python}"
    yield "lingers", {True: "yes", False: "no", None: ""}[seen.lingers]
    yield "default route", f"{route.netdev} {route.gateway or ''}".strip() if route else ""
    yield "firmware", ", ".join(sorted({hca.firmware for hca in seen.hcas if hca.firmware}))
    yield "rails", "\n".join(_rails(seen))


def _memory(memory: Memory | None) -> str:
    if memory is None:
        return ""
    swapped = memory.swap_total - memory.swap_free
    return (
        f"{show_memory(memory.available)} of {show_memory(memory.total)} available\n"
        f"{show_memory(memory.cached)} page cache, {show_memory(swapped)} swapped out"
    )


def _disk(disk: Disk | None) -> str:
    if disk is None:
        return ""
    return f"{show_size(disk.available)} of {show_size(disk.total)} free, at {disk.folder}"


def _rails(seen: HostFacts) -> Iterator[str]:
    for rail in qsfp_rails(seen):
        netdev = seen.netdev(rail.name)
        if netdev and netdev.carrier:
            addresses = " ".join(map(str, netdev.addresses)) or "no address"
            yield f"{rail.name} {addresses} MTU {netdev.mtu}"
        else:
            yield f"{rail.name} down"
