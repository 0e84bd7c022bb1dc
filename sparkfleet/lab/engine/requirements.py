"""Requirements of the lab on this machine, checked before anything is made."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import UsageError
from sparkfleet.lab.paths import CONSOLE, locate_layers

# The Debian and Ubuntu package of each tool.
PACKAGES: Mapping[str, str] = {
    "ip": "iproute2",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
    "ping": "iputils-ping",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "bash": "bash",
}
NETWORKMANAGER_PACKAGES: Mapping[str, str] = {
    "NetworkManager": "network-manager",
    "nmcli": "network-manager",
    "dbus-daemon": "dbus",
}
FAULT_PACKAGES: Mapping[str, str] = {"nft": "nftables", "tc": "iproute2"}
NAMESPACES = ("net", "mnt", "uts", "ipc", "pid")
LAST_LINES = 5  # of what sshd printed
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def check_requirements() -> None:
    """Raise UsageError unless this machine can run a lab, with what to type to make it so."""
    check_root()
    check_tools(PACKAGES)
    check_kernel_features()


def check_root() -> None:
    """Raise UsageError unless we are root."""
    if os.geteuid():
        program, *arguments = sys.argv
        run = [sys.executable, "-m", "sparkfleet"] if program.endswith(".py") else [program]
        raise UsageError(
            "the lab creates network namespaces and mounts, which requires root",
            hint=f"sudo {quote([*run, *arguments])}",  # with its path: sudo has a PATH of its own
        )


def check_tools(packages: Mapping[str, str]) -> None:
    """Raise UsageError that names every tool of `packages` that is missing, at once."""
    missing = [tool for tool in packages if not find_tool(tool)]
    if missing:
        install = dict.fromkeys(packages[tool] for tool in missing)
        raise UsageError(
            f"missing on this machine: {', '.join(missing)}",
            hint=f"sudo apt-get install -y {' '.join(install)}",
        )


def find_tool(tool: str) -> str | None:
    """Return the path of a tool, also where only root's PATH leads."""
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def check_kernel_features() -> None:
    """Raise UsageError unless this kernel has overlay filesystems and the namespaces."""
    missing = [name for name in NAMESPACES if not Path(f"/proc/self/ns/{name}").exists()]
    if missing:
        names = ", ".join(missing)
        raise UsageError(
            f"this kernel has no {names} namespaces", hint=f"see: {name_command('docs')} lab"
        )
    if not _knows_filesystem("overlay") and not _load_module("overlay"):
        raise UsageError("this kernel has no overlay filesystem", hint="sudo modprobe overlay")


def _knows_filesystem(name: str) -> bool:
    return name in Path("/proc/filesystems").read_text().split()


def _load_module(name: str) -> bool:
    modprobe = find_tool("modprobe")
    if not modprobe:
        return False
    subprocess.run([modprobe, name], capture_output=True, check=False)
    return _knows_filesystem(name)


def check_free_space(folder: Path, needed: int, what: str) -> None:
    """Raise UsageError unless the filesystem of `folder` has `needed` bytes free."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise UsageError(
            f"{what} needs {needed / 1e9:.1f} GB, and {there} has {free / 1e9:.1f} GB free",
            hint=f"free some space on the filesystem of {there}",
        )


def explain_silent_sshd(host: str, log: str) -> UsageError:
    """Return the error of a host whose sshd does not answer, with the last lines that it printed.

    One that lacks a shared library has no log: the loader prints on the host's console.
    """
    with contextlib.suppress(OSError):
        log = log.strip() or (locate_layers(host) / CONSOLE).read_text(errors="backslashreplace")
    lines = log.strip().splitlines()[-LAST_LINES:]
    printed = ": " + "\n".join(lines) if lines else ", and printed nothing"
    return UsageError(
        f"{host}: sshd does not answer{printed}",
        hint="try it on this machine: sudo /usr/sbin/sshd -t",
    )
