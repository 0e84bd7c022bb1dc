"""The holder of a listening port of a host: a process, a container, or unknown; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PORTS = (
    "vllm_port",
    "vllm_master_port",
    "vllm_dp_port",
    "ray_port",
    "ray_node_manager_port",
    "ray_object_manager_port",
    "ray_dashboard_port",
)
MAX_PORT = 65535
# As `docker ps` and `podman ps` print it: 0.0.0.0:8000-8001->80-81/tcp, [::]:8000->80/tcp
PUBLISHED = re.compile(r":(\d{1,5})(?:-(\d{1,5}))?->[\d-]+/tcp")


def parse_sockets(inodes: Iterable[object] | None) -> frozenset[str] | None:
    """Return the inodes of sockets as texts; None where they are unknown."""
    return None if inodes is None else frozenset(map(str, inodes))


def parse_holders(answer: Mapping[str, object]) -> Mapping[str, str]:
    """Return the containers by the inode of a socket that they hold."""
    return {str(inode): f"container {label}" for inode, label in answer.items()}


def parse_published_ports(text: str) -> Mapping[int, str]:
    """Parse lines ``name<TAB>image<TAB>ports`` into the container of each published TCP port."""
    rows = (line.split("\t") for line in text.splitlines() if line.count("\t") == 2)
    return {
        port: f"container {name} ({image})"
        for name, image, ports in rows
        for first, last in PUBLISHED.findall(ports)
        for port in range(int(first), min(int(last or first), MAX_PORT) + 1)
    }
