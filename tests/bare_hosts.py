"""Bare hosts of the lab: their network before and after `links.apply`, which is stopped midway."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping

from sparkfleet.lab import fleet
from sparkfleet.lab.paths import INVENTORY
from tests.commandline import Child, becomes, run_command, started, wait_until_stopped

PAIR = ("spark-01", "spark-02")
LAB = ("--inventory", str(INVENTORY))
TRIED = "tried; each host undoes it"
TIMER = ("--revert-after", "15")
FOLDERS = "/etc/netplan /run/netplan /etc/NetworkManager /run/NetworkManager/system-connections"
FILES = f"find {FOLDERS} /etc/sysctl.d -type f -exec stat -c '%n %a' {{}} + -exec cat {{}} +"


def type_command(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, *LAB)


def run_on_host(host: str, *argv: str) -> str:
    return fleet.run_on(host, argv, check=False).stdout


def is_quiet(host: str) -> bool:
    """Return whether each address is proven to be unique, and each link is up or dark."""
    text = run_on_host(host, "ip", "-j", "addr")
    return bool(text) and "tentative" not in text and "LOWERLAYERDOWN" not in text


def read_state(host: str) -> tuple[str, list[dict[str, object]]]:
    """Return the files of the network of a host, with their modes, and its addresses."""
    assert becomes(lambda: is_quiet(host))
    files = run_on_host(host, "sh", "-c", f"{FILES} 2>/dev/null")
    return files, json.loads(run_on_host(host, "ip", "-j", "addr"))


def read_states() -> Mapping[str, object]:
    return {host: read_state(host) for host in PAIR}


def is_pending(host: str) -> bool:
    return "pending.json" in run_on_host(host, "ls", "/run/sparkfleet-links")


def apply_with(deed: Callable[[Child], object]) -> tuple[int, str]:
    """Apply, do `deed` once the change is tried on all hosts, and return exit code and output."""
    lines = []
    with started("links.apply", "--yes", *TIMER, *LAB, marks=[TRIED]) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if TRIED in line:
                wait_until_stopped(child)
                assert all(is_pending(host) for host in PAIR)
                try:
                    deed(child)
                except BaseException:
                    child.kill()  # it may be stopped
                    raise
        return child.wait(), "".join(lines)


def go_on(child: Child) -> None:
    child.send_signal(signal.SIGCONT)
