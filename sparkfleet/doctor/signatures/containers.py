"""Failures of Docker: its daemon, the names of containers, registries and the driver."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import Signature

ROWS = (
    Signature(
        id="docker-not-running",
        pattern=r"Cannot connect to the Docker daemon",
        cause="Docker does not run on this host.",
        fix="Run `sudo systemctl enable --now docker` on that host.",
        source="sunlab-osu/TURL#12; significa/app-distribution-server#23",
        sample=(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
            "docker daemon running?"
        ),
        near_miss="Connected to the Docker daemon at unix:///var/run/docker.sock",
    ),
    Signature(
        id="container-name-taken",
        pattern=(
            r"\b[Tt]he (?:container )?name \"?/?(?P<name>[\w.-]{1,128})\"? is already "
            r"(?:in use|assigned|used)"
        ),
        cause="A container with the name {name} exists on this host.",
        fix=(
            "Stop the cluster with `{task:cluster.down}` if it is its own; otherwise `docker rm -f "
            "{name}` on that host removes it."
        ),
        source="docker/docs#13140; moby/moby#23371",
        sample=(
            'docker: Error response from daemon: Conflict. The container name "/vllm" is '
            'already in use by container "e424e1d9".'
        ),
        near_miss='The container name "/vllm" is free',
    ),
    Signature(
        id="driver-libraries-not-found",
        pattern=(
            r"nvidia-container-cli: initialization error: load library failed: "
            r"(?P<library>lib[\w+.-]{1,60})"
        ),
        cause=(
            "NVIDIA's container toolkit does not find {library} on this host: the driver is not "
            "installed, or Docker cannot see it (a snap, or rootless)."
        ),
        fix=(
            "If `nvidia-smi` fails on that host, install the driver and reboot; otherwise install "
            "Docker from its packages instead of the snap."
        ),
        source="NVIDIA/nvidia-docker#1711; docker/for-win#13835",
        leads_to=("driver-library-missing",),
        sample=(
            "nvidia-container-cli: initialization error: load library failed: "
            "libnvidia-ml.so.1: cannot open shared object file: no such file or "
            "directory: unknown."
        ),
        near_miss="nvidia-container-cli: initialization error: nvml error: driver not loaded",
    ),
    Signature(
        id="apt-signed-by",
        pattern=r"Conflicting values set for option Signed-By regarding source (?P<url>\S{1,200})",
        cause="Two files of apt's sources name {url} with different keys, and apt reads none.",
        fix=(
            "Find them with `grep -rl {url} /etc/apt/sources.list.d` on that host, and remove the "
            "older one."
        ),
        source="NVIDIA/libnvidia-container#194; NVIDIA/nvidia-container-toolkit#170",
        sample=(
            "E: Conflicting values set for option Signed-By regarding source "
            "https://nvidia.github.io/libnvidia-container/stable/ubuntu18.04/amd64/ /: a.gpg !="
        ),
        near_miss="W: Target Packages is configured multiple times in /etc/apt/sources.list:57",
    ),
)
