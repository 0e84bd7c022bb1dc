"""Checks that a host can run the configured containers; pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from sparkfleet.facts import HostFacts
from sparkfleet.launch.engines.docker_options import HOOK, build_gpu_options
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict, info, warning

SHM_SHARE = 4  # a quarter of unified memory: a host with more had to be powered off
NO_MEMORY_KERNEL = "7.0.0-1019*"  # NV_ERR_NO_MEMORY with 22 GiB free: vllm-project/vllm#46307
REMEDIES = (
    (
        "permission denied",
        "on that host: sudo usermod -aG docker $USER, then log in again; or: {task:hosts.prepare}",
    ),
    ("is not installed", "install it on that host: sudo apt-get install -y {cli}"),
    ("cannot connect", "start it on that host: sudo systemctl start docker"),
)


def check_container_engine(
    settings: Settings, facts: HostFacts, daemon: Daemon
) -> Iterator[Verdict]:
    """Yield verdicts on the engine of one host; only the first if it does not answer."""
    yield _check_daemon(settings, daemon)
    if daemon.error:
        return
    yield _check_container_gpu(settings, daemon)
    yield from _check_cgroup_driver(settings, daemon)
    yield from _check_shared_memory(settings, facts)
    yield from _check_memory_cap(settings, facts)
    yield from _check_engine_user(settings)


def _check_daemon(settings: Settings, daemon: Daemon) -> Verdict:
    error = daemon.error.lower()
    remedies = (text for mark, text in REMEDIES if mark in error)
    fix = next(remedies, f"on that host: {daemon.cli} info")
    return build_verdict(
        Severity.ERROR if error else Severity.OK,
        "engine.daemon",
        settings.host.name,
        daemon.cli,
        expected="an answer",
        seen=daemon.error or daemon.version,
        source=f"{daemon.cli} info",
        fix=fix.replace("{cli}", daemon.cli) if error else "",
    )


def _check_container_gpu(settings: Settings, daemon: Daemon) -> Verdict:
    mode = settings.text("engine_gpus")
    flags = build_gpu_options(mode, daemon)
    lacking = not flags and mode != "none"
    toolkit = "install nvidia-container-toolkit on that host"
    if daemon.cli == "podman":
        toolkit += "; sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    return build_verdict(
        Severity.ERROR if lacking else Severity.OK,
        "engine.gpu",
        settings.host.name,
        f"GPU in containers of {daemon.cli}",
        expected="NVIDIA's hook, or a CDI specification",
        seen=" ".join(flags) or ("neither" if lacking else "engine_gpus: none"),
        source=f"{daemon.cli} info, /etc/cdi",
        fix=toolkit if lacking else "",
    )


def _check_cgroup_driver(settings: Settings, daemon: Daemon) -> Iterator[Verdict]:
    """Report that a daemon-reload removes the GPU from containers, unless they use CDI."""
    by_hook = build_gpu_options(settings.text("engine_gpus"), daemon) == (HOOK,)
    if not by_hook or daemon.cgroups != "systemd":
        return
    yield info(
        "engine.cgroups",
        settings.host.name,
        f"cgroup driver of {daemon.cli}",
        expected="cgroupfs, or the GPU by CDI",
        seen="systemd: `systemctl daemon-reload` removes the GPU from running containers",
        source=f"{daemon.cli} info",
        fix="run: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; then set "
        "engine_gpus: cdi",
    )


def _check_shared_memory(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    if settings.value("engine_shm_size") is None or facts.memory is None:
        return
    size = settings.size("engine_shm_size")
    most = facts.memory.total // SHM_SHARE
    yield build_verdict(
        Severity.WARNING if size > most else Severity.OK,
        "engine.shm",
        settings.host.name,
        "engine_shm_size",
        expected=f"at most a quarter of the memory, {format_size(most)}",
        seen=format_size(size),
        source=str(settings.origin("engine_shm_size")),
        fix="remove it or set 16GiB: it uses GPU memory too" if size > most else "",
    )


def _check_memory_cap(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    risky = fnmatch.fnmatchcase(facts.system.kernel, NO_MEMORY_KERNEL)
    if not risky or settings.value("engine_memory") is not None:
        return
    yield warning(
        "engine.memory",
        settings.host.name,
        f"kernel {facts.system.kernel}",
        expected="a memory limit for containers: this kernel can hang with 22 GiB free",
        seen="engine_memory not set",
        source="uname -r",
        fix="set engine_memory, such as 110GiB; symptom: the host answers ping but not SSH",
    )


def _check_engine_user(settings: Settings) -> Iterator[Verdict]:
    user = settings.text("engine_user")
    if user in ("", "host", "root", "0", "0:0"):
        return
    yield warning(
        "engine.user",
        settings.host.name,
        "engine_user",
        expected="host, or a user that can read the files of the SSH user",
        seen=user,
        source=str(settings.origin("engine_user")),
        fix="set engine_user: host",
    )
