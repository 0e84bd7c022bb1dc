"""Read what a host is: files, folders and a few tools, as raw text; changes nothing.

Request: ``{"weights_dir": "~/vllm", "ports": [8000], "files": [], "fabric": true}``. `files` are
read as well; without `fabric` nothing of the QSFP network is. Answer: ``{"facts": {source:
item}}``: a source is a path or a command, an item holds exactly one of ``text``, ``missing`` (no
such file, tree or tool), ``denied`` (permission) and ``failed`` (any other error).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import pwd
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

TOOL_TIMEOUT = 10  # seconds; nvidia-smi takes seconds while the driver wakes up
MELLANOX = "0x15b3"  # PCI vendor id of ConnectX
NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
SIOCGIFADDR = 0x8915
SIOCGIFNETMASK = 0x891B
GPU_FIELDS = "name,uuid,driver_version,compute_cap,memory.total,memory.used,clocks.sm"
RELEASE_FILES = ("/etc/dgx-release", "/etc/os-release", "/etc/machine-id")
HARDWARE_FILES = ("/proc/cmdline", "/proc/meminfo", "/sys/class/dmi/id/product_name")
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf", "/var/lib/dpkg/info/mlnx-fw-updater.list")
NETDEV_FILES = ("address", "carrier", "flags", "mtu", "speed", "type")
NETDEV_LINKS = ("device", "master", "phy80211")
PORT_FILES = ("state", "phys_state", "rate", "link_layer")
PCI_FILES = ("vendor", "current_link_speed", "current_link_width", "max_link_width")
ENVIRONMENT = ("NCCL_", "GLOO_", "TP_SOCKET", "UCX_")

facts: dict[str, dict[str, str]] = {}


def answer_os_error(error: OSError) -> dict[str, str]:
    """Return the item that says why something could not be read."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return {"missing": why}
    return {"denied" if error.errno in (errno.EACCES, errno.EPERM) else "failed": why}


def note_fact(source: str, read: Callable[[], str]) -> str:
    """Keep what `read()` returns as fact `source`; return its text, empty if there is none."""
    try:
        facts[source] = {"text": read()}
    except OSError as error:
        facts[source] = answer_os_error(error)
    return get_fact_text(source)


def get_fact_text(source: str) -> str:
    """Return the text of a fact, empty if it was not read or could not be."""
    return facts.get(source, {}).get("text", "")


def read_file_content(path: str | Path) -> str:
    """Return the text of a file without its last line end."""
    return Path(path).expanduser().read_bytes().decode("utf-8", "backslashreplace").rstrip("\n")


def list_folder_names(folder: str) -> list[str]:
    """Return the names in a folder."""
    return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths


def note_files(folder: str, files: Iterable[str]) -> None:
    """Keep the text of each of `files`."""
    for path in (os.path.join(folder, file) for file in files):  # noqa: PTH118 - an absolute wins
        note_fact(path, partial(read_file_content, path))


def note_folder(path: str) -> list[str]:
    """Keep the names in a folder, one a line, and return them."""
    return note_fact(path, lambda: "\n".join(list_folder_names(path))).split()


def note_table(folder: str, entries: Iterable[str] | None = None, blank: str = "") -> list[str]:
    """Keep small files of a folder as lines ``name value`` and return the names.

    A value of nothing but the characters in `blank` is left out.
    """

    def read() -> str:
        lines = []
        for name in list_folder_names(folder) if entries is None else entries:
            with contextlib.suppress(OSError):  # sysfs answers EINVAL for an entry that is unset
                value = read_file_content(f"{folder}/{name}")
                if value.strip(blank):
                    lines.append(f"{name} {value}")
        return "\n".join(lines)

    return [line.split(" ", 1)[0] for line in note_fact(folder, read).splitlines()]


def note_tool(*argv: str) -> str:
    """Keep what a tool prints; its standard error counts only where it fails."""
    source = " ".join(argv)
    path = shutil.which(argv[0], path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        facts[source] = {"missing": f"no {argv[0]} on PATH"}
        return ""
    try:
        done = subprocess.run(
            (path, *argv[1:]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(os.environ, LC_ALL="C"),
            timeout=TOOL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        facts[source] = {"failed": f"no answer within {TOOL_TIMEOUT} s"}
        return ""
    output = done.stdout.decode("utf-8", "backslashreplace")
    failed = f"status {done.returncode}: {output}{done.stderr.decode('utf-8', 'backslashreplace')}"
    facts[source] = {"failed": failed.strip()} if done.returncode else {"text": output}
    return get_fact_text(source)


def gather_machine(weights_dir: str) -> None:
    """Keep what the machine is: release, kernel, GPU, memory, disk, limits, clock."""
    note_files("", RELEASE_FILES + HARDWARE_FILES + ("/etc/systemd/logind.conf",))
    note_folder("/run/systemd/users")
    note_folder("/var/lib/systemd/linger")
    note_fact("uname", lambda: " ".join(os.uname()))
    note_fact("page_size", lambda: str(resource.getpagesize()))
    note_fact("python", lambda: sys.version.split()[0])
    note_fact("user", lambda: f"{getpass.getuser()} {Path.home()}")
    note_fact("clock", lambda: repr(time.time()))
    note_fact(
        "memlock", lambda: str(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    )  # -1: unlimited
    note_fact("weights_dir", lambda: describe_disk(Path(weights_dir).expanduser()))
    note_tool("nvidia-smi")  # only its table shows what draws on the GPU
    note_tool("nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv")
    note_tool("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv")


def describe_disk(path: Path) -> str:
    """Return ``total available folder``: bytes on the disk of the nearest folder that exists."""
    folder = next(folder for folder in (path, *path.parents) if folder.is_dir())
    space = os.statvfs(folder)
    return f"{space.f_blocks * space.f_frsize} {space.f_bavail * space.f_frsize} {folder}"


def gather_network() -> None:
    """Keep netdevs, addresses, routes and neighbours."""
    for name in note_folder(NET):
        note_files(f"{NET}/{name}", NETDEV_FILES)
        for link in (f"{NET}/{name}/{link}" for link in NETDEV_LINKS):
            note_fact(link, partial(os.readlink, link))
    if not note_tool("ip", "-j", "addr"):
        for name in get_fact_text(NET).split():
            note_fact(f"SIOCGIFADDR {name}", partial(query_ipv4_address, name))
    if not note_tool("ip", "-j", "route"):
        note_files("/proc/net", ["route"])
    note_tool("ip", "-j", "neigh")


def query_ipv4_address(netdev: str) -> str:
    """Return ``address netmask``, the first IPv4 address of a netdev, where `ip` is missing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        ifreq = struct.pack("40s", netdev.encode())  # struct ifreq
        replies = [
            fcntl.ioctl(probe, which, ifreq)[20:24] for which in (SIOCGIFADDR, SIOCGIFNETMASK)
        ]
    return " ".join(map(socket.inet_ntoa, replies))


def gather_listeners(ports: set[int]) -> None:
    """Keep who listens: ``address:port inode user`` a line, and ``inode pid name`` for `ports`."""
    inodes = set()
    users = {str(user.pw_uid): user.pw_name for user in pwd.getpwall()}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        note_files("", [table])
        rows = [line.split() for line in get_fact_text(table).splitlines()[1:]]
        listeners = [(row[1], row[9], users.get(row[7], row[7])) for row in rows if row[3] == "0A"]
        facts[table] = {"text": "\n".join(map(" ".join, listeners))}
        inodes |= {inode for local, inode, _ in listeners if int(local.split(":")[1], 16) in ports}
    note_fact("listeners", lambda: "\n".join(find_socket_holders(inodes)))


def find_socket_holders(inodes: set[str]) -> list[str]:
    """Return lines ``inode pid name`` for those sockets that this user may look into."""
    lines = []
    for pid in filter(str.isdigit, list_folder_names("/proc") if inodes else ()):
        with contextlib.suppress(OSError):
            for fd in list_folder_names(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    lines.append(f"{target[8:-1]} {pid} {read_file_content(f'/proc/{pid}/comm')}")
    return lines


def gather_fabric() -> None:
    """Keep the RDMA tree, the ConnectX PCI functions and what only the RDMA tools know."""
    for hca in note_folder(RDMA):
        gather_hca(f"{RDMA}/{hca}")
    for function in note_folder(PCI):
        note_files(f"{PCI}/{function}", PCI_FILES)
    for name in get_fact_text(NET).split():
        function = get_fact_text(f"{NET}/{name}/device").rsplit("/", 1)[-1]
        if (
            get_fact_text(f"{PCI}/{function}/vendor") == MELLANOX
            and get_fact_text(f"{NET}/{name}/carrier") != "1"
        ):
            note_tool("ethtool", name)  # sysfs does not distinguish "no cable" from "no link"
    note_tool("ibv_devinfo")  # sysfs lacks active_mtu
    note_tool("rdma", "link")
    note_fact("/dev/infiniband", lambda: "\n".join(list_openable_devices("/dev/infiniband")))
    note_files("", NCCL_FILES)
    variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(ENVIRONMENT))
    note_fact("environment", lambda: "\n".join(map("=".join, variables)))


def gather_hca(root: str) -> None:
    """Keep one HCA: firmware, netdevs, and of each port state, GIDs and counters."""
    note_files(root, ["fw_ver"])
    note_folder(f"{root}/device/net")
    for port in note_folder(f"{root}/ports"):
        base = f"{root}/ports/{port}"
        note_files(base, PORT_FILES)
        used = note_table(f"{base}/gids", blank="0:")
        note_table(f"{base}/gid_attrs/types", used)
        note_table(f"{base}/gid_attrs/ndevs", used)
        note_table(f"{base}/counters")
        note_table(f"{base}/hw_counters")


def list_openable_devices(folder: str) -> list[str]:
    """Return lines ``name True`` or ``name False``: whether this user may open the device."""
    return [
        f"{name} {os.access(f'{folder}/{name}', os.R_OK | os.W_OK)}"
        for name in list_folder_names(folder)
    ]


def main() -> None:
    """Answer one request."""
    request = json.loads(sys.stdin.buffer.readline())
    gather_machine(request["weights_dir"])
    gather_network()
    gather_listeners(set(request["ports"]))
    note_files("", request["files"])
    if request["fabric"]:
        gather_fabric()
    print(json.dumps({"facts": facts}))


if __name__ == "__main__":
    main()
