"""Faults of what passes through an intact cable: lost, refused or slowed packets."""

from __future__ import annotations

from collections.abc import Iterable

from sparkfleet.lab.faults.steps import FaultStep, InitFile, NetnsProgram
from sparkfleet.lab.host.driver import LOSS_PERCENT
from sparkfleet.lab.paths import LOSSY, SWITCH
from sparkfleet.lab.plan import FleetPlan, HostPlan

BLOCKED_PORTS = "1024-65535"
SLOW_RATE = "1gbit"  # far below what busy CPUs move, so that it shows on any machine


def inject_loss(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps by which the switch drops packets from and to the first rail."""
    port = host.peer_port(host.rails[0].netdev)
    rules = [f'{way} "{port}" numgen random mod 100 < {LOSS_PERCENT} drop'
             for way in ("iifname", "oifname")]  # fmt: skip
    script = _nft_chain("bridge", _loss_table(host), "forward", rules)
    return [_nft_step(SWITCH, script), InitFile(path=LOSSY, text=host.rails[0].netdev)]


def end_loss(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that end the loss."""
    script = f"delete table bridge {_loss_table(host)}\n"
    return [_nft_step(SWITCH, script), InitFile(path=LOSSY, text=None)]


def block_ports(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that drop new TCP connections to `BLOCKED_PORTS` on the rails, like ufw."""
    rails = ", ".join(f'"{port.netdev}"' for port in host.rails)
    new = "tcp flags & (syn | ack) == syn"
    rule = f"iifname {{ {rails} }} tcp dport {BLOCKED_PORTS} {new} drop"
    return [_nft_step(host.namespace, _nft_chain("inet", "sfl_firewall", "input", [rule]))]


def unblock_ports(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that open the ports again."""
    return [_nft_step(host.namespace, "delete table inet sfl_firewall\n")]


def limit_rate(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that shape the first rail to `SLOW_RATE`, in both directions."""
    return [_shape_step(host.namespace, host.rails[0].netdev),
            _shape_step(SWITCH, host.peer_port(host.rails[0].netdev))]  # fmt: skip


def lift_rate_limit(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that end the shaping."""
    return [_unshape_step(host.namespace, host.rails[0].netdev),
            _unshape_step(SWITCH, host.peer_port(host.rails[0].netdev))]  # fmt: skip


def _loss_table(host: HostPlan) -> str:
    return f"loss{host.number:02d}"


def _nft_chain(family: str, table: str, hook: str, rules: Iterable[str]) -> str:
    head = f"table {family} {table} {{\nchain {hook} {{\ntype filter hook {hook} priority 0\n"
    return head + "\n".join(rules) + "\n}\n}\n"


def _nft_step(namespace: str, script: str) -> NetnsProgram:
    return NetnsProgram(namespace=namespace, argvs=(("nft", "-f", "-"),), stdin=script)


def _shape_step(namespace: str, netdev: str) -> NetnsProgram:
    """Return the step that shapes what leaves an interface: by tbf, else by htb."""
    root = f"tc qdisc replace dev {netdev} root"
    tbf = f"{root} tbf rate {SLOW_RATE} burst 1mb latency 50ms"
    only_class = f"tc class replace dev {netdev} parent 1: classid 1:1 htb rate {SLOW_RATE}"
    htb = ("sh", "-ec", f"{root} handle 1: htb default 1; {only_class}")
    return NetnsProgram(namespace=namespace, argvs=(tuple(tbf.split()), htb))


def _unshape_step(namespace: str, netdev: str) -> NetnsProgram:
    argv = f"tc qdisc delete dev {netdev} root".split()
    return NetnsProgram(namespace=namespace, argvs=(tuple(argv),))
