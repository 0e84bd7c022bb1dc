"""What a host's container engine says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WITH_PLATFORM = (28, 0)  # Docker that has `save --platform`


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Docker or Podman on one host.

    `error` is what it said instead of an answer. `hook` tells that NVIDIA's hook is on the
    daemon's PATH, `cdi` that a CDI specification of NVIDIA's GPUs is there, `rootless` that Podman
    has only the user's own rights. `root` holds images, with `free` bytes.
    """

    cli: str
    error: str = ""
    version: str = ""
    client: str = ""
    root: str = ""
    free: int | None = None
    storage: str = ""
    cgroups: str = ""
    hook: bool = False
    cdi: bool = False
    rootless: bool = False

    @property
    def saves_one_platform(self) -> bool:
        """Whether `save` can leave the other platforms out of a multi-architecture image."""
        return self.cli == "docker" and min(
            _parse_docker_version(self.version), _parse_docker_version(self.client)
        ) >= (WITH_PLATFORM)


def parse_daemon(cli: str, answer: Mapping[str, Any]) -> Daemon:
    """Return what the program `onhost/containers.py` found."""
    if "error" in answer:
        return Daemon(cli=cli, error=answer["error"])
    info = answer["info"]
    host, store = info.get("host") or {}, info.get("store") or {}  # as Podman groups it
    client = (info.get("ClientInfo") or {}).get("Version", "")
    return Daemon(
        cli=cli,
        version=info.get("ServerVersion") or (info.get("version") or {}).get("Version", ""),
        client=client,
        root=info.get("DockerRootDir") or store.get("graphRoot", ""),
        free=answer["free"],
        storage=info.get("Driver") or store.get("graphDriverName", ""),
        cgroups=info.get("CgroupDriver") or host.get("cgroupManager", ""),
        hook=answer["hook"],
        cdi=answer["cdi"],
        rootless=bool((host.get("security") or {}).get("rootless")),
    )


def _parse_docker_version(version: str) -> tuple[int, ...]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return tuple(int(part) if part.isdecimal() else 0 for part in (major, minor))
