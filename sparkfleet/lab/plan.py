"""The fleet as a plan: hosts, interfaces, addresses and cables, from a number and a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet.errors import UsageError
from sparkfleet.lab.host import hardware
from sparkfleet.lab.host.gpus import LabGpu
from sparkfleet.lab.host.hardware import FUNCTIONS, NicFunction
from sparkfleet.spelling import did_you_mean, suggest_similar

MAX_HOSTS = 64
NETWORK = "10.78"  # management is .0, the wire of a rail .1 and up, Wi-Fi .200; all /24
MANAGEMENT_NET = 0
WIFI_NET = 200
CONTROL = f"{NETWORK}.0.254"  # this machine, in the management network
GATEWAY = f"{NETWORK}.0.253"  # answers "unreachable" for everything else
WIFI_GATEWAY = f"{NETWORK}.{WIFI_NET}.253"
FABRIC_MTU = 9000
DEFAULT_MTU = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One rail of one cable, or of the switch: a subnet of its own.

    `direct` is a cable from host to host: pulled at one end, both ends lose the carrier. `bridge`
    is the name of its bridge in the switch's namespace: both rails of a cable are on one, unless
    they have separate wires.
    """

    net: int
    direct: bool
    ends: tuple[tuple[int, int], ...]  # (host number, index in FUNCTIONS)
    bridge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A function of a host's ConnectX-7; without a wire, or on a bare host, it has no address."""

    function: NicFunction
    mac: str
    wire: Wire | None = None
    address: str | None = None

    @property
    def netdev(self) -> str:
        """The name of its network interface."""
        return self.function.netdev

    @property
    def mtu(self) -> int:
        """The MTU in bytes; the kernel's default where it has no address."""
        return FABRIC_MTU if self.address else DEFAULT_MTU

    @property
    def wire_mtu(self) -> int:
        """The MTU of the switch's end, in bytes."""
        return FABRIC_MTU if self.wire else DEFAULT_MTU


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """A simulated Spark; `number` counts from 1 and ends each of its addresses.

    `gpu` is the real GPU that it has, None without; `stand_in`: it reads like a GB10 all the same.
    """

    number: int
    ports: tuple[Port, ...]
    gpu: LabGpu | None = None
    stand_in: bool = False

    @property
    def name(self) -> str:
        """The name in the inventory, and the host name."""
        return f"spark-{self.number:02d}"

    @property
    def namespace(self) -> str:
        """The name of its network namespace on this machine."""
        return f"sfl{self.number:02d}"

    @property
    def address(self) -> str:
        """The management address."""
        return format_address(MANAGEMENT_NET, self.number)

    @property
    def machine_id(self) -> str:
        """The content of /etc/machine-id: 32 hexadecimal digits."""
        return f"5fa12ce7{self.number:024x}"

    @property
    def serial(self) -> str:
        """The serial number of the machine."""
        return f"1981{self.number:09d}"

    @property
    def bare(self) -> bool:
        """Whether its rails are cabled and have no addresses."""
        return any(port.wire and not port.address for port in self.ports)

    @property
    def shown_gpu(self) -> LabGpu | None:
        """The real GPU that nvidia-smi, /proc and /sys show; None where they show a GB10."""
        return None if self.stand_in else self.gpu

    @property
    def rails(self) -> tuple[Port, ...]:
        """The ports that have a cable: both functions of each cabled cage."""
        return tuple(port for port in self.ports if port.wire)

    def peer_port(self, netdev: str) -> str:
        """Return the name of the switch's end of interface `netdev`: 15 bytes at most."""
        return f"{self.number:02d}{netdev}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """All hosts and wires of a fleet, and the shape that they were planned from.

    `separate`: the two rails of a cage have a wire each, which no Spark has. `bare`: the hosts are
    as they come, without addresses on the rails; `networkmanager` configures these in place of
    netplan, and `password`: a login needs one, for no key is there. `gpus` has the real GPU of each
    host, or is empty; with `stand_in` the hosts read like GB10s all the same.
    """

    cables: str
    separate: bool = False
    bare: bool = False
    networkmanager: bool = False
    password: bool = False
    gpus: tuple[LabGpu, ...] = ()
    stand_in: bool = False
    hosts: tuple[HostPlan, ...]
    wires: tuple[Wire, ...]

    @property
    def shape(self) -> dict[str, Any]:
        """The argument of `plan_shape` for this plan, as JSON can hold it."""
        return {
            "hosts": len(self.hosts),
            "cables": self.cables,
            "separate": self.separate,
            "bare": self.bare,
            "networkmanager": self.networkmanager,
            "password": self.password,
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "stand_in": self.stand_in,
        }

    def host(self, name: str) -> HostPlan:
        """Return the host of that name; raises UsageError if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        names = [host.name for host in self.hosts]
        hint = did_you_mean(name, names) or f"the fleet has {names[0]} to {names[-1]}"
        raise UsageError(f"lab host {name!r} not found", hint=hint)

    def ends(self, wire: Wire) -> tuple[tuple[HostPlan, Port], ...]:
        """Return the hosts on a wire, each with the port that is plugged into it."""
        members = ((self.hosts[number - 1], index) for number, index in wire.ends)
        return tuple((host, host.ports[index]) for host, index in members)

    def dark_ends(self, host: HostPlan, port: Port) -> tuple[tuple[HostPlan, Port], ...]:
        """Return the ports that lose their carrier with `port`: both ends of a direct cable."""
        if port.wire is not None and port.wire.direct:
            return self.ends(port.wire)
        return ((host, port),)

    def neighbours(self, host: HostPlan) -> tuple[HostPlan, ...]:
        """Return the hosts at the other ends of direct cables of `host`."""
        far = {
            neighbour.number: neighbour
            for port in host.rails
            for neighbour, _ in self.dark_ends(host, port)
        }
        return tuple(neighbour for number, neighbour in far.items() if number != host.number)


def format_address(net: int, host: int) -> str:
    """Return the address of host number `host` in subnet `net`."""
    return f"{NETWORK}.{net}.{host}"


def plan_fleet(
    hosts: int,
    cables: str = "crossed",
    *,
    separate: bool = False,
    bare: bool = False,
    networkmanager: bool = False,
    password: bool = False,
    gpus: Sequence[LabGpu] = (),
    stand_in: bool = False,
) -> FleetPlan:
    """Return the plan of a fleet of `hosts` Sparks, cabled in the shape `cables` (see `SHAPES`).

    More than two hosts cannot share one cable, so `crossed`, the default, becomes `switch`;
    a single host has no peer and so no cable. `separate` gives each rail a wire of its own,
    `bare` no rail an address; the others are as in `FleetPlan`. Raises UsageError.
    """
    if not 1 <= hosts <= MAX_HOSTS:
        raise UsageError(
            f"a lab must have 1 to {MAX_HOSTS} hosts (got {hosts})", hint="choose another --hosts"
        )
    shape = SHAPES.get(cables)
    if shape is None:
        raise UsageError(f"cable shape {cables!r} not found", hint=suggest_similar(cables, SHAPES))
    if hosts == 1 or (cables == "crossed" and hosts > PAIR):
        cables = "switch" if hosts > 1 else "none"
    elif hosts not in shape.sizes:
        sizes = " or ".join(map(str, shape.sizes))
        raise UsageError(
            f"cable shape {cables!r} needs {sizes} hosts (got {hosts})",
            hint="choose another --hosts or --cables",
        )
    wires = tuple(_plan_wires(SHAPES[cables].cables(hosts), separate=separate))
    members = tuple(
        _plan_host(number, wires, bare=bare, gpu=gpu, stand_in=stand_in)
        for number, gpu in enumerate(gpus or [None] * hosts, start=1)
    )
    return FleetPlan(
        cables=cables,
        separate=separate,
        bare=bare,
        networkmanager=networkmanager,
        password=password,
        gpus=tuple(gpus),
        stand_in=stand_in,
        hosts=members,
        wires=wires,
    )


def plan_shape(shape: Mapping[str, Any]) -> FleetPlan:
    """Return the plan of a `shape`; raises KeyError and TypeError for that of another version."""
    return plan_fleet(**{**shape, "gpus": tuple(LabGpu(**gpu) for gpu in shape["gpus"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class CablePlan:
    """One cable: (host number, cage) of every end; two ends unless it is a switch."""

    ends: tuple[tuple[int, int], ...]
    direct: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A way to cable a fleet: the sizes that it fits, and its cables for a size."""

    sizes: tuple[int, ...] | range
    cables: Callable[[int], Iterable[CablePlan]]


PAIR = 2
_CROSSED = (CablePlan(ends=((1, 1), (2, 0))),)
_STRAIGHT = (CablePlan(ends=((1, 1), (2, 1))),)
_BOTH = (CablePlan(ends=((1, 0), (2, 0))), CablePlan(ends=((1, 1), (2, 1))))


def _switch_cables(hosts: int) -> Iterator[CablePlan]:
    yield CablePlan(ends=tuple((number, 1) for number in range(1, hosts + 1)), direct=False)


def _ring_cables(hosts: int) -> Iterator[CablePlan]:
    for number in range(1, hosts + 1):
        yield CablePlan(ends=((number, 0), (number % hosts + 1, 1)))


SHAPES: Mapping[str, Shape] = {
    "crossed": Shape(sizes=(PAIR,), cables=lambda _: _CROSSED),
    "straight": Shape(sizes=(PAIR,), cables=lambda _: _STRAIGHT),
    "both": Shape(sizes=(PAIR,), cables=lambda _: _BOTH),
    "switch": Shape(sizes=range(2, MAX_HOSTS + 1), cables=_switch_cables),
    "ring": Shape(sizes=(3, 4), cables=_ring_cables),
    "none": Shape(sizes=range(1, MAX_HOSTS + 1), cables=lambda _: ()),
}


def _plan_wires(cables: Iterable[CablePlan], *, separate: bool) -> Iterator[Wire]:
    """Yield the two rails of each cable: one for each function of a cage."""
    net = 0
    for position, cable in enumerate(cables, start=1):
        for rail in (0, 2):
            net += 1
            ends = tuple((number, rail + cage) for number, cage in cable.ends)
            bridge = f"wire{net}" if separate else f"cable{position}"
            yield Wire(net=net, direct=cable.direct, ends=ends, bridge=bridge)


def _plan_host(
    number: int, wires: Iterable[Wire], *, bare: bool, gpu: LabGpu | None, stand_in: bool
) -> HostPlan:
    plugged = {index: wire for wire in wires for end, index in wire.ends if end == number}
    return HostPlan(
        number=number,
        gpu=gpu,
        stand_in=stand_in,
        ports=tuple(
            _plan_port(number, index, plugged.get(index), bare=bare)
            for index in range(len(FUNCTIONS))
        ),
    )


def _plan_port(number: int, index: int, wire: Wire | None, *, bare: bool) -> Port:
    return Port(
        function=FUNCTIONS[index],
        mac=hardware.format_mac(number, FUNCTIONS[index].mac_offset),
        wire=wire,
        address=format_address(wire.net, number) if wire and not bare else None,
    )
