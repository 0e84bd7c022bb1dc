"""Paths of the lab: on this machine, and inside a host."""

from __future__ import annotations

from pathlib import Path

RUN = Path("/run/sparkfleet-lab")
STATE = RUN / "fleet.json"
LOCK = Path("/run/sparkfleet-lab.lock")  # outlives RUN, so that a second run can wait on it
KEY = RUN / "key"
PASSWORD = RUN / "password"  # of bare hosts that know no key
KNOWN_HOSTS = RUN / "known_hosts"
INVENTORY = RUN / "inventory.yml"
DOCKER_INVENTORY = RUN / "inventory-docker.yml"
NAMESPACES = Path("/run/netns")  # where `ip netns` looks
SWITCH = "sflsw"
CONTROL_NIC = "sflctl"  # this machine's way into the lab
CONTROL_PEER = "sflpeer"  # and its end in the switch
PREFIX = "sfl"
CGROUP = "sparkfleet-lab"  # the parent of all containers of all hosts
LAYERS = Path("/dev/shm/sparkfleet-lab")  # noqa: S108 - a tmpfs of our own is mounted there
COMMON = LAYERS / "common"  # the layer that all hosts share

CACHE = Path("/var/cache/sparkfleet")

INSIDE = Path("/run/sparkfleet-lab")  # in a host: messages between PID 1 and faults
REFRESH_REQUEST = INSIDE / "ask"  # a token put here comes back in DONE, once /sys shows what is
REFRESH_DONE = INSIDE / "done"
CMA = INSIDE / "cma"  # the Cma lines of /proc/meminfo
SCARCE = INSIDE / "scarce"  # its lines about free memory, where that is short
MEMINFO = INSIDE / "meminfo"
KERNEL_MEMINFO = INSIDE / "meminfo.kernel"
SYS_LAYERS = INSIDE / "sys"
GID_FIRST = INSIDE / "gid-first"  # the index of the first IPv4 GID, where it has moved
GID_HOLE = INSIDE / "gid-hole"  # the netdevs whose IPv4 GIDs are missing
CGROUPS = INSIDE / "cgroup"  # this machine's cgroups, while Docker runs there
LOSSY = INSIDE / "lossy"  # the netdevs that lose packets

USER = "nvidia"
HOME = Path("/home") / USER
IMAGES = Path("/var/lib/docker")  # its overlays cannot lie on the host's own
DOCKER_ENABLED = Path("/etc/docker/enabled")  # while this is there, a boot starts Docker
NETWORKMANAGER = Path("/etc/NetworkManager")
NETWORKMANAGER_ENABLED = NETWORKMANAGER / "conf.d/sparkfleet-lab.conf"  # and NetworkManager
UNITS_ENABLED = Path("/etc/lab-units")  # `systemctl lab-on` makes it on a host


CONSOLE = "console.log"  # in a host's layer: what its programs print that have no log


def locate_layers(host: str) -> Path:
    """Return the folder on this machine that holds the layers of a host."""
    return LAYERS / host
