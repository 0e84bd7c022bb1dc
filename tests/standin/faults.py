"""Faults of a run or a host in the fault matrix, in addition to the lab's own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from sparkfleet.lab import fleet
from tests.commandline import Child, becomes, processes
from tests.standin.cluster import FOLDER

Deed = Callable[[Any], object]

FOREIGN = """
import socket, time
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
taken.bind(("0.0.0.0", {port}))
taken.listen()
time.sleep(100000)
"""
CUT = """
table inet cut {
    chain in { type filter hook input priority 0; iifname enP7s7 drop; }
    chain out { type filter hook output priority 0; oifname enP7s7 drop; }
}
"""
SLOW = """
table inet slow {
    chain in {
        type filter hook input priority 0;
        iifname != lo limit rate over 20 mbytes/second burst 4 mbytes drop
    }
}
"""


def nothing(_: Child) -> None:
    """Let the run go on."""


def send(number: signal.Signals) -> Deed:
    """Return the deed that sends a signal to the tool."""
    return lambda child: child.send_signal(number)


def logged(host: str, role: str, text: str, then: Deed = nothing) -> Deed:
    """Return the deed that waits until the log of a role has `text`, and then does `then`."""
    search = ["grep", "-qF", text, f"{FOLDER}/logs/{role}.log"]

    def deed(child: Child) -> None:
        assert becomes(lambda: fleet.run_on(host, search, check=False).returncode == 0), search
        then(child)

    return deed


def fault(host: str, kind: str) -> Deed:
    """Return the deed that breaks a host in a way that the lab knows."""
    return lambda _: fleet.set_fault(host, kind)


def repaired(host: str, kind: str) -> Callable[[], None]:
    """Return what repairs that."""
    return lambda: fleet.set_fault(host, kind, clear=True)


def shell(host: str, script: str) -> Deed:
    """Return the deed that runs a script as root on a host."""
    return lambda _: fleet.run_on(host, ["sh", "-ec", script])


def kill(host: str, mark: str) -> Deed:
    """Return the deed that ends by SIGKILL the engine's processes on a host that have a mark."""

    def deed(_: Child) -> None:
        for pid, command in processes(host).items():
            if mark in command:
                fleet.run_on(host, ["kill", "-9", str(pid)])

    return deed


def occupied(host: str, port: int) -> Callable[[], None]:
    """Return what lets a foreign process of the same user take a port."""

    def deed() -> None:
        program = FOREIGN.format(port=port)
        words = f"exec setsid python3 -c '{program}' >/dev/null 2>&1 &".replace("'", "'\\''")
        script = f"su nvidia -c '{words}'"
        fleet.run_on(host, ["sh", "-c", script])
        held = ["sh", "-c", f"ss -Htln sport = :{port} | grep -q LISTEN"]
        assert becomes(lambda: fleet.run_on(host, held, check=False).returncode == 0)

    return deed


def occupy(host: str, port: int) -> Deed:
    """Return that as a deed."""
    return lambda _: occupied(host, port)()


def vacate(host: str, port: int) -> Callable[[], None]:
    """Return what ends that process."""
    script = f"ss -Htlnp sport = :{port} | sed 's/.*pid=\\([0-9]*\\).*/\\1/' | xargs kill"
    return lambda: void(fleet.run_on(host, ["sh", "-c", script]))


def cut(host: str) -> Deed:
    """Return the deed that cuts the management link of a host; the fabric stays."""
    return shell(host, f"nft -f - <<'.'\n{CUT}\n.")


def cut_sessions(host: str) -> Deed:
    """Return the deed that cuts the SSH connections of now for good, as if this machine were off.

    Later ones are not concerned.
    """
    peers = "ss -Htn state established sport = :22 | awk '{print $4}' | sed 's/.*://' | paste -sd,"
    table = (
        "table inet sessions {\n"
        "chain in { type filter hook input priority 0; tcp dport 22 tcp sport $1 drop; }\n"
        "chain out { type filter hook output priority 0; tcp sport 22 tcp dport $1 drop; }\n}"
    )
    return shell(host, f"set -- {{$({peers})}}\nnft -f - <<.\n{table}\n.")


def end_sessions(host: str) -> Deed:
    """Return the deed that ends the SSH sessions of a host at once; its sshd goes on."""
    return shell(host, "pgrep -f '^sshd(-session)?: nvidia' | xargs -r kill -9")


def end_sessions_at(host: str, mib: int) -> Deed:
    """Return the deed that ends the SSH sessions of a host once its weights have `mib` MiB.

    Until then the host receives so slowly that the transfer cannot end first.
    """
    grown = f"[ $(du -sm /home/nvidia/vllm | cut -f1) -gt {mib} ]"
    end = "pgrep -f '^sshd(-session)?: nvidia' | xargs -r kill -9; nft delete table inet slow"
    wait = f"( until {grown}; do sleep 0.05; done; {end} ) </dev/null >/dev/null 2>&1 &"
    return shell(host, f"nft -f - <<'.'\n{SLOW}\n.\n{wait}")


def cut_for(host: str, seconds: float) -> Deed:
    """Return the deed that cuts the management link of a host for some seconds."""

    def deed(child: Child) -> None:
        cut(host)(child)
        time.sleep(seconds)  # what is tested is that time itself
        uncut(host)()

    return deed


def uncut(host: str) -> Callable[[], None]:
    """Return what repairs that."""
    return lambda: void(fleet.run_on(host, ["nft", "delete", "table", "inet", "cut"]))


def void(_: object) -> None:
    """Return nothing, whatever was done."""
