"""`lab.*`: simulated Sparks on this machine, for the demo, the tests and learning."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.command import command
from sparkfleet.cli.options import Options, choice, flag, number, option
from sparkfleet.cli.views.screen import print_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions(Options):
    """Options of `lab.up`."""

    hosts: int = option("how many Sparks", number(), default=2)
    cables: str | None = option(
        "crossed (a pair whose cages differ), straight, both, switch or ring",
        value="crossed|straight|both|switch|ring",
    )
    wires: str = option(
        "shared (both rails of a cage on one, as on a Spark) or separate",
        choice(("separate", "shared")),
        default="shared",
    )
    bare: bool = flag(
        "hosts as they come from the box: no addresses on the rails, MTU 1500, login by password"
    )
    authorized: bool = flag("with --bare: the hosts know your key already, and you know theirs")
    network: str = option(
        "with --bare, what configures the rails: netplan or NetworkManager",
        choice(("netplan", "networkmanager")),
        default="netplan",
        value="netplan|networkmanager",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions(Options):
    """Options of `lab.fault`."""

    host: str = option("a lab host", default="", positional=True, value="LAB_HOST")
    kind: str = option("what to break", default="", positional=True, value="FAULT")
    clear: bool = flag("repair it")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(Options):
    """Options of `lab.engine`."""

    index: str | None = option("package index that has CPU builds of torch", value="URL")
    wheels: str | None = option("folder with wheels", value="FOLDER")


@command("lab.up")
def up(options: UpOptions) -> int:
    """Boot simulated Sparks: own network, host name, files and sshd each; needs root.

    Writes an inventory that the other tasks take with --inventory lab. Does nothing if they run.

      {task:lab.up} --hosts 3 --cables ring
      {task:lab.up} --bare
      {task:lab.up} --bare --authorized --network networkmanager
    """
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list
    from sparkfleet.lab.paths import USER  # noqa: PLC0415 - the same

    shape = options.cables or ("crossed" if options.hosts == 2 else "switch")
    booted = fleet.start_fleet(
        options.hosts,
        cables=shape,
        separate_wires=options.wires == "separate" and not options.bare,
        bare=options.bare,
        networkmanager=options.bare and options.network == "networkmanager",
        password=options.bare and not options.authorized,
    )
    print_lines(f"{options.hosts} hosts are up; inventory {booted.inventory}")
    if booted.password:
        addresses = ", ".join(host.address for host in booted.hosts)
        print_lines(f"log in as {USER} to {addresses}; the password is in {booted.password}")
    return 0


@command("lab.down")
def down(_options: Options) -> int:
    """Remove the simulated Sparks; leaves no process, mount, namespace or bridge."""
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list

    fleet.remove_fleet()
    return 0


@command("lab.status")
def status(_options: Options) -> int:
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


@command("lab.fault")
def fault(options: FaultOptions) -> int:
    """Break something on a simulated Spark: link-down, mtu, loss, no-rdma, power-off and more."""
    from sparkfleet.lab import fleet  # noqa: PLC0415 - not for --list

    fleet.set_fault(options.host, options.kind, clear=options.clear)
    return 0


@command("lab.engine")
def engine(options: EngineOptions) -> int:
    """Install the CPU build of vLLM and Ray for the lab: 2.7 GB, minutes, once."""
    from sparkfleet.lab.engine import install as lab_engine  # noqa: PLC0415 - not for --list

    path = lab_engine.install_engine(
        print_lines, extra_index_url=options.index, find_links=options.wheels
    )
    print_lines(f"engine {path}")
    return 0


@command("lab.containers")
def containers(_options: Options) -> int:
    """Start Docker on the simulated Sparks, with the lab's engine as an image on each.

    Writes an inventory whose engine is docker.
    """
    from sparkfleet.lab.engine import containers as lab_containers  # noqa: PLC0415 - not for --list
    from sparkfleet.lab.paths import DOCKER_INVENTORY  # noqa: PLC0415 - the same

    name = lab_containers.start_docker()
    print_lines(f"image {name}; inventory {DOCKER_INVENTORY}")
    return 0


@command("lab.model")
def model(_options: Options) -> int:
    """Train the tiny model that knows the smoke answers by heart: about a minute, once."""
    from sparkfleet.lab.engine import model as lab_model  # noqa: PLC0415 - not for --list

    print_lines(f"model {lab_model.ensure_model(print_lines)}")
    return 0
