"""Files on a lab host's disk in addition to this machine's own."""

from __future__ import annotations

import ctypes
import json
import re
import secrets
import shutil
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from sparkfleet.lab.host.gpus import PROGRAM_PATH, GpuDriver
from sparkfleet.lab.host.tree import FileTree
from sparkfleet.lab.paths import CGROUP, HOME, NETWORKMANAGER, NETWORKMANAGER_ENABLED, USER
from sparkfleet.lab.plan import FleetPlan, HostPlan

FIRST_UID = 1000
KERNEL_RELEASE = "6.17.0-1021-nvidia"
KERNEL_VERSION = "#21-Ubuntu SMP PREEMPT_DYNAMIC Wed May 27 19:14:05 UTC 2026"
STAND_INS = ("ethtool", "ibdev2netdev", "ibstat", "ibv_devinfo", "lab-docker",
             "lab-networkmanager", "nvidia-container-runtime", "nvidia-container-runtime-hook",
             "nvidia-smi", "rdma", "show_gids", "systemctl", "uname")  # fmt: skip
LINKER_FILE = "etc/ld.so.conf.d/zz-sparkfleet-lab.conf"  # where the driver's libraries are
NETPLAN = "usr/sbin/netplan"
NETPLAN_FILE = "etc/netplan/01-network-manager-all.yaml"
NETPLAN_LIBRARY = "usr/lib/sparkfleet-lab"  # where the stand-in of netplan finds PyYAML
# As Ubuntu Desktop installs it; no recorded file of a Spark.
NETPLAN_DEFAULT = """\
# Let NetworkManager manage all devices on this system
network:
  version: 2
  renderer: NetworkManager
"""
# The network by which the host is reached is the lab's. `dns=none`: no file of it is written.
NETWORKMANAGER_CONFIG = """\
[main]
plugins=keyfile
dns=none

[keyfile]
unmanaged-devices=except:interface-name:en*p1s0f*np*

[connectivity]
enabled=false
"""

CMA_IDLE = "CmaTotal:         131072 kB\nCmaFree:          120320 kB\n"
CMA_ZERO = "CmaTotal:              0 kB\nCmaFree:          220924 kB\n"  # kernel 7.0.0-1019-nvidia

OS_RELEASE = """\
PRETTY_NAME="Ubuntu 24.04.4 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.4 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
SUPPORT_URL="https://help.ubuntu.com/"
BUG_REPORT_URL="https://bugs.launchpad.net/ubuntu/"
PRIVACY_POLICY_URL="https://www.ubuntu.com/legal/terms-and-policies/privacy-policy"
UBUNTU_CODENAME=noble
LOGO=ubuntu-logo
"""

# Updates append their own block: the last DGX_OTA_VERSION is the one that runs.
DGX_RELEASE = """\
DGX_NAME="DGX Spark"
DGX_PRETTY_NAME="NVIDIA DGX Spark"
DGX_SWBUILD_DATE="2025-09-10-13-50-03"
DGX_SWBUILD_VERSION="7.2.3"
DGX_COMMIT_ID="833b4a7"
DGX_PLATFORM="DGX Spark"
DGX_SERIAL_NUMBER="{serial}"

DGX_OTA_VERSION="7.4.0"
DGX_OTA_DATE="Mon Feb  2 19:34:58 CET 2026"

DGX_OTA_VERSION="7.5.0"
DGX_OTA_DATE="Sat Apr  4 15:11:50 CEST 2026"

DGX_OTA_VERSION="7.6.0"
DGX_OTA_DATE="Wed Sep 16 17:08:05 CEST 2026"
"""

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PasswordAuthentication {password_login}
KbdInteractiveAuthentication no
PermitRootLogin no
AuthorizedKeysFile .ssh/authorized_keys
UsePAM no
UseDNS no
PrintMotd no
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Subsystem sftp internal-sftp
"""


def build_common_layer(
    accounts: Path = Path("/etc"),
    *,
    password: str = "",
    netplan: bool = True,
    driver: GpuDriver | None = None,
    stand_in: bool = False,
) -> FileTree:
    """Return the layer that all hosts share: the user, sshd's configuration, the stand-ins.

    `accounts` is the folder with this machine's passwd, shadow and group files. `password` lets
    the user log in with it; without `netplan` there is no stand-in of it. `driver` is that of real
    GPUs, whose nvidia-smi the hosts have unless `stand_in`.
    """
    uid = find_free_id((accounts / "passwd").read_text() + (accounts / "group").read_text())
    names = {name: f"usr/bin/{name}" for name in STAND_INS}
    programs = resources.files("sparkfleet.lab.host") / "programs"
    files = {path: (programs / name).read_text() for name, path in names.items()}
    files |= {
        "etc/passwd": _replace_user_line(
            accounts / "passwd", f"{USER}:x:{uid}:{uid}::{HOME}:/bin/bash"
        ),
        "etc/shadow": _replace_user_line(
            accounts / "shadow",
            f"{USER}:{hash_password(password) if password else '*'}:20000:0:99999:7:::",
        ),
        "etc/group": _add_docker_user(_replace_user_line(accounts / "group", f"{USER}:x:{uid}:")),
        "etc/os-release": OS_RELEASE,
        "etc/resolv.conf": "# a lab host has no name server\n",
        "etc/ssh/sshd_config": SSHD_CONFIG.format(password_login="yes" if password else "no"),
    }
    if netplan:
        files[NETPLAN] = (programs / "netplan").read_text()
        files |= _read_yaml_library()
    modes = dict.fromkeys((*names.values(), NETPLAN), 0o755) | {"etc/shadow": 0o640}
    if shutil.which("sudo"):
        files[f"etc/sudoers.d/90-{USER}"] = f"{USER} ALL=(ALL) NOPASSWD:ALL\n"
        modes[f"etc/sudoers.d/90-{USER}"] = 0o440
    links = {} if Path("/usr/bin/python3").exists() else {"usr/bin/python3": _interpreter_path()}
    if driver:
        _add_driver(files, links, driver, stand_in=stand_in)
    return FileTree(files=files, links=links, modes=modes)


def _add_driver(
    files: dict[str, str], links: dict[str, str], driver: GpuDriver, *, stand_in: bool
) -> None:
    """Let the hosts' linker find libcuda, and put the real nvidia-smi in place of the stand-in."""
    if driver.library:
        files[LINKER_FILE] = f"{driver.library.parent}\n"
    if stand_in:
        return
    del files[str(PROGRAM_PATH.relative_to("/"))]
    if driver.program and driver.program != PROGRAM_PATH:
        links[str(PROGRAM_PATH.relative_to("/"))] = str(driver.program)


def hash_password(password: str) -> str:
    """Return a password as /etc/shadow keeps it: SHA-512, by crypt(3) of the library of sshd."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    salt = f"$6${secrets.token_hex(8)}"
    hashed: bytes = library.crypt(password.encode(), salt.encode())
    return hashed.decode()


def _read_yaml_library() -> dict[str, str]:
    """Return PyYAML, which is pure Python, for the stand-in of netplan."""
    folder = Path(yaml.__file__).parent
    return {f"{NETPLAN_LIBRARY}/yaml/{path.name}": path.read_text() for path in folder.glob("*.py")}


def read_user_id(common: FileTree) -> int:
    """Return the id of our user in the layer that all hosts share."""
    return int(common.files["etc/passwd"].splitlines()[-1].split(":")[2])


def build_host_layer(plan: FleetPlan, host: HostPlan) -> FileTree:
    """Return what differs from host to host; the SSH host key is added later."""
    bare = {}
    opaque: tuple[str, ...] = ()
    if plan.networkmanager:
        bare = {str(NETWORKMANAGER_ENABLED.relative_to("/")): NETWORKMANAGER_CONFIG}
        opaque = (str(NETWORKMANAGER.relative_to("/")),)
    elif plan.bare:
        bare = {NETPLAN_FILE: NETPLAN_DEFAULT}
        opaque = (str(Path(NETPLAN_FILE).parent),)
    return FileTree(
        files={
            **bare,
            "etc/hostname": f"{host.name}\n",
            "etc/hosts": format_hosts_file(plan, host),
            "etc/machine-id": f"{host.machine_id}\n",
            "etc/dgx-release": DGX_RELEASE.format(serial=host.serial),
            "etc/docker/daemon.json": json.dumps(build_docker_config(host), indent=1) + "\n",
        },
        modes=dict.fromkeys(bare, 0o600),
        opaque=opaque,
    )


def build_docker_config(host: HostPlan) -> dict[str, Any]:
    """Return the configuration of a host's Docker.

    Its cgroups are this machine's, and its firewall rules would be the fabric's.
    """
    return {
        "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}},
        "default-runtime": "nvidia",
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "cgroup-parent": f"/{CGROUP}/{host.name}",
    }


def format_hosts_file(plan: FleetPlan, host: HostPlan) -> str:
    """Return /etc/hosts: the own name resolves to loopback, as Ubuntu installs it."""
    peers = (f"{peer.address} {peer.name}" for peer in plan.hosts if peer is not host)
    lines = ("127.0.0.1 localhost", f"127.0.1.1 {host.name}", "::1 localhost", *peers)
    return "".join(f"{line}\n" for line in lines)


def find_free_id(accounts: str) -> int:
    """Return the lowest id from 1000 that no line of passwd and group files has, but our own."""
    fields = [line.split(":") for line in accounts.splitlines() if line.count(":") > 1]
    taken = {int(ids[2]) for ids in fields if ids[0] != USER}
    return next(uid for uid in range(FIRST_UID, FIRST_UID + len(taken) + 1) if uid not in taken)


def merge_meminfo(kernel: str, overrides: str) -> str:
    """Return /proc/meminfo with the lines of `overrides` in place of the kernel's, or added."""
    rows = {
        line.partition(":")[0]: line for text in (kernel, overrides) for line in text.splitlines()
    }
    return "".join(f"{line}\n" for line in rows.values())


def find_closed_parents(paths: Iterable[Path]) -> list[Path]:
    """Return every folder above `paths` that others than its owner may not pass."""
    folders = {folder for path in paths for folder in path.parents}
    return sorted(f for f in folders if f.exists() and not f.stat().st_mode & 0o001)


def _replace_user_line(path: Path, line: str) -> str:
    """Return the file's lines without our user's, and our own line."""
    kept = [entry for entry in path.read_text().splitlines() if not entry.startswith(f"{USER}:")]
    return "".join(f"{entry}\n" for entry in (*kept, line))


def _add_docker_user(groups: str) -> str:
    """Return the lines of a group file with our user in Docker's group, if there is one."""
    return re.sub(r"^docker:.*:$", rf"\g<0>{USER}", groups, flags=re.MULTILINE)


def _interpreter_path() -> str:
    return str(Path(sys.base_prefix) / "bin" / "python3")
