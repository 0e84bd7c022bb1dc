"""`lab.*`: simulated Sparks on this machine, for the demo, the tests and learning."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_number
from sparkfleet.cli.views.screen import print_lines


@command(
    help={
        "hosts": "how many Sparks",
        "cables": "crossed (a pair whose cages differ), straight, both, switch or ring",
    }
)
def up(context: Any, *, hosts: str | None = None, cables: str | None = None) -> int:
    """Boot simulated Sparks: own network, host name, files and sshd each; needs root.

    Writes an inventory that the other tasks take when none is named. Does nothing if they run.
    """
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list

    count = parse_number("hosts", hosts, 2)
    shape = cables or ("crossed" if count == 2 else "switch")
    booted = fleet.start_fleet(count, cables=shape)
    print_lines(f"{count} hosts are up; inventory {booted.inventory}")
    return 0


@command()
def down(context: Any) -> int:
    """Remove the simulated Sparks; leaves no process, mount, namespace or bridge."""
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list

    fleet.remove_fleet()
    return 0


@command()
def status(context: Any) -> int:
    """Show the simulated Sparks and their addresses."""
    from sparkfleet.cli.views.tables import create_cell, create_console, create_table  # noqa: PLC0415 - not for --list
    from sparkfleet.lab import fleet  # noqa: PLC0415 - the same

    running = fleet.read_fleet()
    if running is None:
        print_lines("the lab is down")
        return 0
    grid = create_table("host", "state", "management", "fabric", "faults")
    for host in running.hosts:
        fabric = ", ".join(f"{rail.interface} {rail.address}" for rail in host.rails)
        state = create_cell(f"pid {host.pid1}") if host.alive else create_cell("off", "red")
        grid.add_row(host.name, state, host.address, fabric, ", ".join(host.faults))
    create_console().print(grid)
    print_lines(f"inventory {running.inventory}")
    return 0


@command(
    positional=["host", "kind"],
    help={"clear": "mend it again", "host": "a lab host", "kind": "what breaks"},
)
def fault(context: Any, host: str, kind: str, *, clear: bool = False) -> int:
    """Break something on a simulated Spark: link-down, mtu, loss, no-rdma, power-off and more."""
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list

    fleet.set_fault(host, kind, clear=clear)
    return 0


@command(
    help={"index": "package index that has CPU builds of torch", "wheels": "folder with wheels"}
)
def engine(context: Any, *, index: str | None = None, wheels: str | None = None) -> int:
    """Install the CPU build of vLLM and Ray for the lab: 2.7 GB, minutes, once."""
    from sparkfleet.lab.engine import install as lab_engine  # noqa: PLC0415 - not for --list

    path = lab_engine.install_engine(print_lines, extra_index_url=index, find_links=wheels)
    print_lines(f"engine {path}")
    return 0


@command()
def containers(context: Any) -> int:
    """Start Docker on the simulated Sparks, with the lab's engine as an image on each.

    Writes an inventory whose engine is docker.
    """
    from sparkfleet.lab.engine import containers as lab_containers  # noqa: PLC0415 - not for --list
    from sparkfleet.lab.paths import DOCKER_INVENTORY  # noqa: PLC0415 - the same

    name = lab_containers.start_docker()
    print_lines(f"image {name}; inventory {DOCKER_INVENTORY}")
    return 0


@command()
def model(context: Any) -> int:
    """Train the tiny model that knows the smoke answers by heart: about a minute, once."""
    from sparkfleet.lab.engine import model as lab_model  # noqa: PLC0415 - not for --list

    print_lines(f"model {lab_model.ensure_model(print_lines)}")
    return 0
