"""`lab.*`: simulated Sparks on this machine, for the demo, the tests and learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparkfleet.cli.command import command
from sparkfleet.cli.options import Options, choice, flag, number, option, parse_path
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import UsageError

if TYPE_CHECKING:
    from sparkfleet.lab.fleet import LabFleet


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions(Options):
    """Options of `lab.up`."""

    hosts: int | None = option("how many Sparks (2; with --gpus, one for each GPU)", number())
    cables: str | None = option(
        "crossed (a pair whose cages differ), straight, both, switch, ring or none",
        value="crossed|straight|both|switch|ring|none",
    )
    wires: str = option(
        "shared (both rails of a cage on one, as on a Spark) or separate",
        choice(("separate", "shared")),
        default="shared",
    )
    bare: bool = flag(
        "hosts as they come out of the box: no rail addresses, MTU 1500, login by password"
    )
    authorized: bool = flag("with --bare: the hosts know your key already, and you know theirs")
    network: str = option(
        "with --bare, what configures the rails: netplan or NetworkManager",
        choice(("netplan", "networkmanager")),
        default="netplan",
        value="netplan|networkmanager",
    )
    gpus: bool = flag("each host has one real NVIDIA GPU of this machine")
    share: bool = flag("with --gpus: hosts share a GPU where there are fewer GPUs than hosts")
    stand_in: bool = flag("with --gpus: nvidia-smi, /proc and /sys show a GB10 anyway")


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
    gpu: bool = flag("vLLM for real GPUs (CUDA 13): 9 GB")
    torch: Path | None = option(
        "with --gpu: a Python that has the pinned torch, used in place of another copy",
        parse_path,
        value="PYTHON",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(Options):
    """Options of `lab.model`."""

    gpu: bool = flag("for the engine of `lab.engine --gpu`")


@command("lab.up")
def up(options: UpOptions) -> int:
    """Boot simulated Sparks, each with its own network, host name, files and sshd; needs root.

    Writes an inventory that the other tasks take with --inventory lab. Does nothing if they are
    already running.

      {task:lab.up} --hosts 3 --cables ring
      {task:lab.up} --gpus
      {task:lab.up} --bare
      {task:lab.up} --bare --authorized --network networkmanager
    """
    from sparkfleet.lab import fleet
    from sparkfleet.lab.host.gpus import choose_gpus, find_gpus
    from sparkfleet.lab.paths import USER

    for name, given in (("--stand-in", options.stand_in), ("--share", options.share)):
        if given and not options.gpus:
            raise UsageError(f"{name} needs --gpus", hint="without --gpus, all hosts show a GB10")
    gpus = choose_gpus(find_gpus(), options.hosts, share=options.share) if options.gpus else ()
    hosts = len(gpus) or options.hosts or 2
    booted = fleet.start_fleet(
        hosts,
        cables=options.cables or ("crossed" if hosts == 2 else "switch"),
        separate_wires=options.wires == "separate" and not options.bare,
        bare=options.bare,
        networkmanager=options.bare and options.network == "networkmanager",
        password=options.bare and not options.authorized,
        gpus=gpus,
        stand_in=options.stand_in,
    )
    if gpus:
        print_lines(*_describe_gpus(booted, stand_in=options.stand_in))
    print_lines(f"{hosts} hosts are up; inventory {booted.inventory}")
    if booted.password:
        addresses = ", ".join(host.address for host in booted.hosts)
        print_lines(f"log in as {USER} to {addresses}; the password is in {booted.password}")
    return 0


def _describe_gpus(booted: LabFleet, *, stand_in: bool) -> Iterator[str]:
    """Yield lines about the GPUs and their driver, and what they mean for the hosts."""
    from sparkfleet.lab.host.gpus import find_container_runtime, read_driver

    for host in booted.hosts:
        if host.gpu:
            uuid = f" ({host.gpu.uuid})" if host.gpu.uuid else ""
            yield f"{host.name}: {host.gpu.name}{uuid}, /dev/nvidia{host.gpu.minor}"
    driver = read_driver()
    shown = "a stand-in for a GB10 (--stand-in)" if stand_in else driver.program or "not found"
    library = driver.library or "not found, so nothing can compute on the GPUs"
    yield f"driver {driver.version or 'of unknown version'}; libcuda {library}; nvidia-smi {shown}"
    runtime = find_container_runtime()
    yield f"NVIDIA's container runtime {runtime or 'not installed: containers get no GPU'}"
    yield "NCCL: over sockets (NCCL_NET in the inventory), because the RDMA devices are stand-ins"


@command("lab.down")
def down(_options: Options) -> int:
    """Remove the simulated Sparks; leaves no process, mount, namespace or bridge."""
    from sparkfleet.lab import fleet

    fleet.remove_fleet()
    return 0


@command("lab.status")
def status(_options: Options) -> int:
    """Show the simulated Sparks and their addresses."""
    from sparkfleet.cli.views.tables import create_cell, create_console, create_table
    from sparkfleet.lab import fleet

    running = fleet.read_fleet()
    if running is None:
        print_lines("the lab is down")
        return 0
    more = ["GPU"] if any(host.gpu for host in running.hosts) else []
    grid = create_table("host", "state", "management", "fabric", "faults", *more)
    for host in running.hosts:
        fabric = ", ".join(f"{rail.interface} {rail.address}" for rail in host.rails)
        state = create_cell(f"pid {host.pid1}") if host.alive else create_cell("off", "red")
        gpu = [host.gpu.name] if host.gpu else []
        grid.add_row(host.name, state, host.address, fabric, ", ".join(host.faults), *gpu)
    create_console().print(grid)
    print_lines(f"inventory {running.inventory}")
    return 0


@command("lab.fault")
def fault(options: FaultOptions) -> int:
    """Break something on a simulated Spark: link-down, mtu, loss, no-rdma, power-off and more."""
    from sparkfleet.lab import fleet

    fleet.set_fault(options.host, options.kind, clear=options.clear)
    return 0


@command("lab.engine")
def engine(options: EngineOptions) -> int:
    """Install the CPU build of vLLM and Ray for the lab: 2.7 GB, minutes, once.

    With --gpu it is the build for real GPUs, which the hosts of `lab.up --gpus` serve with.

    {task:lab.engine} --gpu
    {task:lab.engine} --gpu --wheels ~/wheels --torch /opt/torch/bin/python
    """
    from sparkfleet.lab.engine import install as lab_engine
    from sparkfleet.lab.engine.kinds import CPU, GPU

    if options.torch and not options.gpu:
        raise UsageError("--torch needs --gpu", hint="the CPU engine has its own build of torch")
    path = lab_engine.install_engine(
        print_lines,
        kind=GPU if options.gpu else CPU,
        extra_index_url=options.index,
        find_links=options.wheels,
        torch=options.torch,
    )
    print_lines(f"engine {path}")
    return 0


@command("lab.containers")
def containers(_options: Options) -> int:
    """Start Docker on the simulated Sparks, with the lab's engine as an image on each.

    Writes an inventory whose engine is docker.
    """
    from sparkfleet.lab.engine import containers as lab_containers
    from sparkfleet.lab.paths import DOCKER_INVENTORY

    name = lab_containers.start_docker()
    print_lines(f"image {name}; inventory {DOCKER_INVENTORY}")
    return 0


@command("lab.model")
def model(options: ModelOptions) -> int:
    """Train the tiny model that answers the smoke prompts: about a minute, once."""
    from sparkfleet.lab.engine import model as lab_model
    from sparkfleet.lab.engine.kinds import CPU, GPU

    made = lab_model.ensure_model(print_lines, GPU if options.gpu else CPU)
    print_lines(f"model {made}")
    return 0
