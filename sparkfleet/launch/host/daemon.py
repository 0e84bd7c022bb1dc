"""The container engine of a host, as it reports itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.values import (
    convert_count,
    convert_flag,
    convert_mapping,
    convert_string,
    parse_digits,
)

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
    """Return the daemon in the answer of `onhost/deployment/containers.py`.

    Raises InvalidValueError or LookupError.
    """
    if "error" in answer:
        return Daemon(cli=cli, error=convert_string(answer["error"]))
    info = convert_mapping(answer["info"])
    host = _read_group(info, "host")  # as Podman groups it, like the store and the version
    store = _read_group(info, "store")
    version = info.get("ServerVersion") or _read_group(info, "version").get("Version")
    free = answer["free"]
    return Daemon(
        cli=cli,
        version=convert_string(version or ""),
        client=convert_string(_read_group(info, "ClientInfo").get("Version") or ""),
        root=convert_string(info.get("DockerRootDir") or store.get("graphRoot") or ""),
        free=None if free is None else convert_count(free),
        storage=convert_string(info.get("Driver") or store.get("graphDriverName") or ""),
        cgroups=convert_string(info.get("CgroupDriver") or host.get("cgroupManager") or ""),
        hook=convert_flag(answer["hook"], strict=True),
        cdi=convert_flag(answer["cdi"], strict=True),
        rootless=bool(_read_group(host, "security").get("rootless")),
    )


def _read_group(info: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return convert_mapping(info.get(name) or {})


def _parse_docker_version(version: str) -> tuple[int, ...]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return tuple(parse_digits(part) or 0 for part in (major, minor))
