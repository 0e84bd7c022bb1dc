"""What each fault does, as functions from the plan of a fleet and one of its hosts to steps.

A fault of one rail takes the host's first, unless it says the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sparkfleet.lab import hardware, network
from sparkfleet.lab.driver import LOSS_PERCENT
from sparkfleet.lab.paths import LOSSY, SWITCH
from sparkfleet.lab.plan import WIFI_GATEWAY, WIFI_NET, FleetPlan, HostPlan, Port, address
from sparkfleet.lab.steps import Ip, Kill, Program, Shell, Step, Tell

Steps = Callable[[FleetPlan, HostPlan], Iterable[Step]]
Ends = Sequence[tuple[HostPlan, Port]]

BLOCKED_PORTS = "1024-65535"
SLOW_RATE = "10gbit"


def always(*steps: Step) -> Steps:
    """Return steps that are the same for every host."""
    return lambda _, __: steps


def hide_rdma(*, hidden: bool) -> Steps:
    """Return steps that take the RDMA devices from /sys, not the netdevs, or bring them back."""
    old, new = ("infiniband", ".infiniband") if hidden else (".infiniband", "infiniband")
    return always(
        Shell(
            script=f"""
            if [ -d /sys/class/{old} ]; then mv /sys/class/{old} /sys/class/{new}; fi
            for tree in /sys/bus/pci/devices/*/{old}; do
                if [ -d "$tree" ]; then mv "$tree" "${{tree%/*}}/{new}"; fi
            done
            """
        )
    )


def cable(state: str) -> Steps:
    """Return steps that plug the host's first cable in (`up`) or pull it (`down`)."""

    def steps(plan: FleetPlan, host: HostPlan) -> list[Step]:
        cage = host.rails[0].function.cage
        rails = [port for port in host.rails if port.function.cage == cage]
        return [_switch_ends(_ends(plan, host, rails), state)]

    return steps


def on_rail(number: int, *lines: str) -> Steps:
    """Return steps of `ip` lines in the host's namespace about ``{rail}``, its rail `number`."""
    return lambda _, host: [
        _in_host(host, *(line.format(rail=host.rails[number].netdev) for line in lines))
    ]


def on_switch_port(line: str) -> Steps:
    """Return steps of an `ip` line about ``{port}``, the switch's end of the first rail."""
    return lambda _, host: [_in_switch(line.format(port=host.peer_port(host.rails[0].netdev)))]


def in_host(*lines: str) -> Steps:
    """Return steps of `ip` lines in the host's namespace."""
    return lambda _, host: [_in_host(host, *lines)]


def name_first_rail(path: Path) -> Steps:
    """Return steps that name the first rail of the host to its PID 1, in file `path`."""
    return lambda _, host: [Tell(path=path, text=host.rails[0].netdev)]


def readdress(number: int, new: Callable[[FleetPlan, HostPlan], str | None]) -> Steps:
    """Return steps that give rail `number` the address that `new` says, in place of all others."""

    def steps(plan: FleetPlan, host: HostPlan) -> list[Step]:
        rail, wanted = host.rails[number].netdev, new(plan, host)
        lines = [f"address flush dev {rail} scope global"]
        lines += [f"address add {wanted}/24 brd + dev {rail}"] if wanted else []
        return [_in_host(host, *lines)]

    return steps


def planned(number: int) -> Steps:
    """Return steps that give rail `number` the address of the plan again."""
    return readdress(number, lambda _, host: host.rails[number].address)


def no_address(_: FleetPlan, __: HostPlan) -> None:
    """Return no address."""


def wrong_subnet(_: FleetPlan, host: HostPlan) -> str:
    """Return an address in a subnet that no other host has."""
    return address(100 + _net(host), host.number)


def twins_subnet(_: FleetPlan, host: HostPlan) -> str:
    """Return an address for the second rail in the subnet of the first."""
    return address(_net(host), 100 + host.number)


def peers_address(plan: FleetPlan, host: HostPlan) -> str | None:
    """Return the address that another host has on the first rail's wire."""
    wire = host.rails[0].wire
    others = plan.ends(wire) if wire else ()
    return next((port.address for other, port in others if other is not host), None)


def nic_gone(plan: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that take the ConnectX-7 off the bus; direct peers lose their carrier."""
    lines = [f"link delete {host.peer_port(port.netdev)}" for port in host.ports]
    return [_switch_ends(_far_ends(plan, host), "down"), _in_switch(*lines)]


def nic_back(plan: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that bring it back as planned."""
    lines = [line for port in host.ports for line in network.port_up(port)]
    far = _switch_ends(_far_ends(plan, host), "up")
    return [_in_switch(*network.port_links(host)), _in_host(host, *lines), far]


def power_off(plan: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that end all processes of the host and darken its cables, in that order."""
    management = f"link set {host.peer_port(hardware.MANAGEMENT)} down"
    return [Kill(), _switch_ends(_ends(plan, host, host.rails), "down"), _in_switch(management)]


def power_on(plan: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that light its cables again; the host has to be booted after them."""
    management = f"link set {host.peer_port(hardware.MANAGEMENT)} up"
    return [_switch_ends(_ends(plan, host, host.rails), "up"), _in_switch(management)]


def loss(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps by which the switch drops packets from and to the first rail."""
    port = host.peer_port(host.rails[0].netdev)
    rules = [f'{way} "{port}" numgen random mod 100 < {LOSS_PERCENT} drop'
             for way in ("iifname", "oifname")]  # fmt: skip
    script = _chain("bridge", _loss_table(host), "forward", rules)
    return [_nft(SWITCH, script), Tell(path=LOSSY, text=host.rails[0].netdev)]


def no_loss(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that end the loss."""
    script = f"delete table bridge {_loss_table(host)}\n"
    return [_nft(SWITCH, script), Tell(path=LOSSY, text=None)]


def firewall(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that drop new TCP connections to `BLOCKED_PORTS` on the rails, like ufw."""
    rails = ", ".join(f'"{port.netdev}"' for port in host.rails)
    new = "tcp flags & (syn | ack) == syn"
    rule = f"iifname {{ {rails} }} tcp dport {BLOCKED_PORTS} {new} drop"
    return [_nft(host.namespace, _chain("inet", "sfl_firewall", "input", [rule]))]


def no_firewall(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that open the ports again."""
    return [_nft(host.namespace, "delete table inet sfl_firewall\n")]


def slow(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that shape the first rail to `SLOW_RATE`, in both directions."""
    return [_shape(host.namespace, host.rails[0].netdev),
            _shape(SWITCH, host.peer_port(host.rails[0].netdev))]  # fmt: skip


def fast(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that end the shaping."""
    return [_unshape(host.namespace, host.rails[0].netdev),
            _unshape(SWITCH, host.peer_port(host.rails[0].netdev))]  # fmt: skip


def wifi(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that bring Wi-Fi up with a default route that wins."""
    return [
        _in_switch(f"link set {host.peer_port(hardware.WIFI)} up"),
        _in_host(
            host,
            f"address add {address(WIFI_NET, host.number)}/24 brd + dev {hardware.WIFI}",
            f"route add default via {WIFI_GATEWAY} dev {hardware.WIFI} proto dhcp metric 50",
        ),
    ]


def no_wifi(_: FleetPlan, host: HostPlan) -> list[Step]:
    """Return steps that take Wi-Fi down again, and its routes with it."""
    return [
        _in_host(host, f"address flush dev {hardware.WIFI} scope global"),
        _in_switch(f"link set {host.peer_port(hardware.WIFI)} down"),
    ]


def _in_host(host: HostPlan, *lines: str) -> Ip:
    return Ip(namespace=host.namespace, lines=lines)


def _in_switch(*lines: str) -> Ip:
    return Ip(namespace=SWITCH, lines=lines)


def _switch_ends(ends: Ends, state: str) -> Ip:
    return _in_switch(*(f"link set {host.peer_port(port.netdev)} {state}" for host, port in ends))


def _ends(plan: FleetPlan, host: HostPlan, ports: Iterable[Port]) -> Ends:
    """Return all ports that go dark when cables are pulled from `ports` of a host."""
    return [end for port in ports for end in plan.dark_ends(host, port)]


def _far_ends(plan: FleetPlan, host: HostPlan) -> Ends:
    return [end for end in _ends(plan, host, host.rails) if end[0] is not host]


def _net(host: HostPlan) -> int:
    wire = host.rails[0].wire
    return wire.net if wire else 0


def _loss_table(host: HostPlan) -> str:
    return f"loss{host.number:02d}"


def _chain(family: str, table: str, hook: str, rules: Iterable[str]) -> str:
    head = f"table {family} {table} {{\nchain {hook} {{\ntype filter hook {hook} priority 0\n"
    return head + "\n".join(rules) + "\n}\n}\n"


def _nft(namespace: str, script: str) -> Program:
    return Program(namespace=namespace, argvs=(("nft", "-f", "-"),), stdin=script)


def _shape(namespace: str, netdev: str) -> Program:
    """Return the step that shapes what leaves an interface: by tbf, else by htb."""
    root = f"tc qdisc replace dev {netdev} root"
    tbf = f"{root} tbf rate {SLOW_RATE} burst 8mb latency 50ms"
    only_class = f"tc class replace dev {netdev} parent 1: classid 1:1 htb rate {SLOW_RATE}"
    htb = ("sh", "-ec", f"{root} handle 1: htb default 1; {only_class}")
    return Program(namespace=namespace, argvs=(tuple(tbf.split()), htb))


def _unshape(namespace: str, netdev: str) -> Program:
    argv = f"tc qdisc delete dev {netdev} root".split()
    return Program(namespace=namespace, argvs=(tuple(argv),))
