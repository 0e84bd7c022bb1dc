"""The container engine of a host, as it reports itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.values import parse_digits

WITH_PLATFORM = (28, 0)  # first Docker version with `save --platform`


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Docker or Podman on one host.

    `error` is its message if it did not answer. `hook`: NVIDIA's hook is on the daemon's PATH;
    `cdi`: a CDI specification of NVIDIA's GPUs exists; `rootless`: Podman has only the user's own
    rights. `root` is the folder of images, with `free` bytes.
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
        """Whether `save` can omit the other platforms of a multi-architecture image."""
        return self.cli == "docker" and min(
            _parse_docker_version(self.version), _parse_docker_version(self.client)
        ) >= (WITH_PLATFORM)


def parse_daemon(cli: str, answer: Mapping[str, Any]) -> Daemon:
    """Return the daemon in the answer of `onhost/deployment/containers.py`."""
    if "error" in answer:
        return Daemon(cli=cli, error=answer["error"])
    info = answer["info"]
    host = info.get("host") or {}
    store = info.get("store") or {}  # as Podman groups it
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
    return tuple(parse_digits(part) or 0 for part in (major, minor))
