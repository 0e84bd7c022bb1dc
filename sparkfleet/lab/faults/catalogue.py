"""The faults that the lab knows: what breaks on Sparks, as switches on simulated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.faults import effects, traffic
from sparkfleet.lab.faults.effects import Steps, repeat_steps
from sparkfleet.lab.faults.steps import HostScript, InitFile, ResizeHome
from sparkfleet.lab.host import hardware
from sparkfleet.lab.host.build import HOME_SIZE
from sparkfleet.lab.host.disk import CMA_IDLE, CMA_ZERO
from sparkfleet.lab.host.network import DEFAULT_ROUTE
from sparkfleet.lab.paths import CMA, GID_FIRST, GID_HOLE, SCARCE
from sparkfleet.lab.plan import FABRIC_MTU, HostPlan
from sparkfleet.spelling import did_you_mean

MOVED_GID = "4"  # the pair of an address begins here, so that its RoCE v2 GID has index 5
STRAY = "169.254.127.30/16"
NEARLY_NOTHING = "MemFree:           65536 kB\nMemAvailable:     131072 kB\n"
EMPTY_GPU = """
nvidia-smi --query-compute-apps=pid --format=csv,noheader | cut -d, -f1 >/run/gpu-empty.new
mv /run/gpu-empty.new /run/gpu-empty
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to break a host: what happens, how to break and fix it, and what that takes.

    `rails` are the cabled rails that the host must have, `needs` the tools of this machine. After
    one that `stops` the host it has to be booted.
    """

    what: str
    inject: Steps
    repair: Steps
    rails: int = 0
    needs: tuple[str, ...] = ()
    stops: bool = False


FAULTS: Mapping[str, Fault] = {
    "link-down": Fault(
        what="the first cable is pulled: both its rails lose the carrier, a direct peer's too",
        inject=effects.set_cable("down"),
        repair=effects.set_cable("up"),
        rails=2,
    ),
    "swapped-cages": Fault(
        what="each cable is in the other cage, while the addresses stay with the ports",
        inject=effects.swap_cages,
        repair=effects.unswap_cages,
        rails=2,
    ),
    "nic-gone": Fault(
        what="the ConnectX-7 dropped off the PCI bus: no netdev, no RDMA device, dark cables",
        inject=effects.remove_nic,
        repair=effects.restore_nic,
    ),
    "rail-down": Fault(
        what="the second rail is administratively down, with its cable in place",
        inject=effects.on_rail(1, "link set {rail} down"),
        repair=effects.on_rail(1, "link set {rail} up"),
        rails=2,
    ),
    "mtu": Fault(
        what="the first rail has MTU 1500",
        inject=effects.on_rail(0, "link set {rail} mtu 1500"),
        repair=effects.on_rail(0, f"link set {{rail}} mtu {FABRIC_MTU}"),
        rails=1,
    ),
    "jumbo-blackhole": Fault(
        what="all MTUs read 9000, but the switch's port of the first rail drops what is over 1500",
        inject=effects.on_switch_port("link set {port} mtu 1500"),
        repair=effects.on_switch_port(f"link set {{port}} mtu {FABRIC_MTU}"),
        rails=1,
    ),
    "loss": Fault(
        what="the first rail loses 30 % of its packets each way, and its RoCE counters show it",
        inject=traffic.inject_loss,
        repair=traffic.end_loss,
        rails=1,
        needs=("nft",),
    ),
    "shape": Fault(
        what="the first rail carries 1 Gb/s at most, though its link reads 200 Gb/s",
        inject=traffic.limit_rate,
        repair=traffic.lift_rate_limit,
        rails=1,
        needs=("tc",),
    ),
    "no-rdma": Fault(
        what="no RDMA device: the netdevs work, /sys/class/infiniband is missing",
        inject=effects.hide_rdma(hidden=True),
        repair=effects.hide_rdma(hidden=False),
    ),
    "no-address": Fault(
        what="the first rail has no IPv4 address",
        inject=effects.change_address(0, effects.choose_no_address),
        repair=effects.restore_address(0),
        rails=1,
    ),
    "wrong-subnet": Fault(
        what="the first rail has an address in a subnet that no peer is in",
        inject=effects.change_address(0, effects.choose_other_subnet),
        repair=effects.restore_address(0),
        rails=1,
    ),
    "same-subnet": Fault(
        what="the second rail has an address in the subnet of the first",
        inject=effects.change_address(1, effects.duplicate_subnet),
        repair=effects.restore_address(1),
        rails=2,
    ),
    "duplicate-address": Fault(
        what="the first rail has the address of a peer's rail",
        inject=effects.change_address(0, effects.duplicate_address),
        repair=effects.restore_address(0),
        rails=1,
    ),
    "link-local": Fault(
        what="the second rail has a stray 169.254 address as well as its own",
        inject=effects.on_rail(1, f"address add {STRAY} brd + dev {{rail}} scope link"),
        repair=effects.on_rail(1, f"address delete {STRAY} dev {{rail}}"),
        rails=2,
    ),
    "gid-moved": Fault(
        what="the RoCE v2 GID of every IPv4 address has index 5 in place of 3",
        inject=repeat_steps(InitFile(path=GID_FIRST, text=MOVED_GID)),
        repair=repeat_steps(InitFile(path=GID_FIRST, text=None)),
        rails=1,
    ),
    "gid-hole": Fault(
        what="the first rail's IPv4 GIDs are missing, though it has its address",
        inject=effects.name_first_rail(GID_HOLE),
        repair=repeat_steps(InitFile(path=GID_HOLE, text=None)),
        rails=1,
    ),
    "firewall": Fault(
        what=f"new TCP connections to ports {traffic.BLOCKED_PORTS} on the rails are dropped",
        inject=traffic.block_ports,
        repair=traffic.unblock_ports,
        rails=1,
        needs=("nft",),
    ),
    "wifi-route": Fault(
        what="Wi-Fi is up, and its default route wins",
        inject=effects.enable_wifi,
        repair=effects.disable_wifi,
    ),
    "no-default-route": Fault(
        what="there is no default route",
        inject=effects.in_host(f"route delete default dev {hardware.MANAGEMENT}"),
        repair=effects.in_host(DEFAULT_ROUTE),
    ),
    "management-lost": Fault(
        what="the management network no longer reaches the host, which keeps running",
        inject=effects.set_management("down"),
        repair=effects.set_management("up"),
    ),
    "ssh-dead": Fault(
        what="sshd does not run; the host answers pings, and existing sessions go on",
        inject=repeat_steps(HostScript(script="kill $(cat /run/sshd.pid)")),
        repair=repeat_steps(HostScript(script="/usr/sbin/sshd -E /run/sshd.log")),
    ),
    "disk-full": Fault(
        what="the filesystem of ~/vllm is full",
        inject=repeat_steps(ResizeHome(size=None)),
        repair=repeat_steps(ResizeHome(size=HOME_SIZE)),
    ),
    "cma-zero": Fault(
        what="CmaTotal is 0, as on the kernel on which ibv_reg_mr fails",
        inject=repeat_steps(InitFile(path=CMA, text=CMA_ZERO)),
        repair=repeat_steps(InitFile(path=CMA, text=CMA_IDLE)),
    ),
    "memory": Fault(
        what="128 MiB of memory are available, according to /proc/meminfo",
        inject=repeat_steps(InitFile(path=SCARCE, text=NEARLY_NOTHING)),
        repair=repeat_steps(InitFile(path=SCARCE, text=None)),
    ),
    "gpu-empty": Fault(
        what="nvidia-smi no longer lists the ranks that run; it lists those that start later",
        inject=repeat_steps(HostScript(script=EMPTY_GPU)),
        repair=repeat_steps(HostScript(script="rm /run/gpu-empty")),
    ),
    "power-off": Fault(
        what="every process of the host dies at once, then its cables go dark",
        inject=effects.cut_power,
        repair=effects.restore_power,
        stops=True,
    ),
}


def find_fault(kind: str) -> Fault:
    """Return the fault called `kind`; raises UsageError that lists them all."""
    if kind in FAULTS:
        return FAULTS[kind]
    guess = did_you_mean(kind, FAULTS)
    names = f"faults of the lab: {', '.join(FAULTS)}"
    raise UsageError(f"fault {kind!r} not found", hint=f"{guess} {names}" if guess else names)


def check_rail_count(kind: str, host: HostPlan) -> None:
    """Raise UsageError where the host has fewer cabled rails than the fault needs."""
    needed = FAULTS[kind].rails
    if len(host.rails) < needed:
        raise UsageError(
            f"{kind} needs {needed} cabled rails, and {host.name} has {len(host.rails)}",
            hint=f"sudo {name_command('lab.up')} --hosts 2",
        )
