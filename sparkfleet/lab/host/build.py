"""Everything of a fleet that exists before its hosts run: keys, disks, wires, inventory."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from sparkfleet.lab import inventory
from sparkfleet.lab.host import disk, kernel, network
from sparkfleet.lab.host.gpus import read_driver
from sparkfleet.lab.host.kernel import MountFlag
from sparkfleet.lab.host.sysfs import build_sysfs
from sparkfleet.lab.paths import (
    COMMON,
    CONTROL_NIC,
    INVENTORY,
    KEY,
    KNOWN_HOSTS,
    LAYERS,
    PASSWORD,
    RUN,
    SWITCH,
    locate_layers,
)
from sparkfleet.lab.plan import FleetPlan, HostPlan

MAX_DIGITS = 10  # of a user id, a number of 32 bits
HOME_SIZE = "2g"
GPU_HOME_SIZE = "64g"  # weights with real work, and what CUDA and vLLM compile for this host
ARP_RETRY = Path(f"/proc/sys/net/ipv4/neigh/{CONTROL_NIC}/retrans_time_ms")
ARP_INTERVAL = "20"  # ms in place of 1 s: a fresh link may lose its first packet
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


def build_fleet(plan: FleetPlan, venv: Path, model: Path) -> None:
    """Build a fleet; the caller holds the lock and has removed what was there before."""
    RUN.mkdir(mode=0o755)
    LAYERS.mkdir(mode=0o755)
    kernel.mount("sparkfleet-lab", LAYERS, "tmpfs", data="mode=755")
    _make_key(KEY, "sparkfleet-lab")
    password = secrets.token_urlsafe(9) if plan.password else ""
    common = disk.build_common_layer(
        password=password,
        netplan=not plan.networkmanager,
        driver=read_driver() if plan.gpus else None,
        stand_in=plan.stand_in,
    )
    common.write(COMMON)
    uid = disk.read_user_id(common)
    keys = {host.name: _make_disk(plan, host, uid) for host in plan.hosts}
    _make_wires(plan)
    KNOWN_HOSTS.write_text("" if plan.password else inventory.format_known_hosts(plan, keys))
    INVENTORY.write_text(inventory.format_lab_inventory(plan, venv, model))
    PASSWORD.touch(mode=0o600)
    PASSWORD.write_text(f"{password}\n")
    for path in (KEY, KNOWN_HOSTS, INVENTORY, PASSWORD):
        os.chown(path, *find_caller_ids())


def find_caller_ids() -> tuple[int, int]:
    """Return the user and group ids of the caller, through sudo or not."""
    given = [os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if not all(text.isdecimal() and len(text) < MAX_DIGITS for text in given):
        return os.getuid(), os.getgid()
    user, group = map(int, given)
    return user, group


def _make_disk(plan: FleetPlan, host: HostPlan, uid: int) -> str:
    """Make the layers of a host and return its public SSH host key."""
    base = locate_layers(host.name)
    for folder in ("root", "disk/upper", "disk/work", "sys", "home", "docker"):
        (base / folder).mkdir(parents=True)
    (base / "console.log").touch()
    disk.build_host_layer(plan, host).write(base / "disk/upper")
    (base / "disk/upper/etc/ssh").mkdir()
    _make_key(base / "disk/upper" / HOST_KEY, host.name)
    renew_sys(host)
    size = GPU_HOME_SIZE if host.gpu else HOME_SIZE
    _make_home(base / "home", uid, size, authorized=not plan.password)
    return (base / "disk/upper" / f"{HOST_KEY}.pub").read_text()


def renew_sys(host: HostPlan) -> None:
    """Make a host's part of /sys as for a first boot, while the host is off."""
    base = locate_layers(host.name) / "sys"
    shutil.rmtree(base)
    for folder in ("upper", "work"):
        (base / folder).mkdir(parents=True)
    build_sysfs(host).write(base / "upper")


def _make_home(home: Path, uid: int, size: str, *, authorized: bool) -> None:
    """Mount a home of limited size, outside the host, so that it survives a loss of power."""
    kernel.mount("sparkfleet-home", home, "tmpfs", MountFlag.NO_DEV, data=f"mode=750,size={size}")
    os.chown(home, uid, uid)
    if not authorized:
        return
    (home / ".ssh").mkdir(mode=0o700)
    shutil.copy(f"{KEY}.pub", home / ".ssh/authorized_keys")
    for path in (home / ".ssh", home / ".ssh/authorized_keys"):
        os.chown(path, uid, uid)


def _make_key(path: Path, comment: str) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, close_fds=False)


def _make_wires(plan: FleetPlan) -> None:
    network.run_ip(network.build_namespace_commands(plan))
    ARP_RETRY.write_text(ARP_INTERVAL)
    network.run_ip(network.build_switch_commands(plan), SWITCH)
    for host in plan.hosts:
        network.run_ip(network.build_host_commands(host), host.namespace)
    _answer_unreachable()


def _answer_unreachable() -> None:
    """Let the gateway answer for every other network; without forwarding it would be silent."""
    write = "echo 1 >/proc/sys/net/ipv4/ip_forward"
    subprocess.run(["ip", "netns", "exec", SWITCH, "sh", "-c", write], check=True, close_fds=False)
