"""Checks of one host that no engine changes: GPU, interfaces, memory, kernel, logind; pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from sparkfleet.facts import HostFacts
from sparkfleet.launch.engines.checks import NO_MEMORY_KERNEL
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.memory_checks import check_host_memory
from sparkfleet.links.checks.interface_names import check_interface_names
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict, warning

ENOUGH_LEFT = 8 << 30  # bytes at which the guard ends ranks before such a kernel hangs


def check_host(settings: Settings, facts: HostFacts, survey: Survey) -> Iterator[Verdict]:
    """Yield verdicts on one host, and on risks to it while it serves."""
    yield _check_gpu_present(facts)
    yield from _check_interface_names(settings, facts)
    yield from check_host_memory(settings, facts, survey)
    yield from _check_native_kernel(settings, facts)
    yield from _check_linger(settings, facts)


def _check_gpu_present(facts: HostFacts) -> Verdict:
    return build_verdict(
        Severity.OK if facts.gpus else Severity.ERROR,
        "host.gpu",
        facts.host,
        "GPU",
        expected="a GPU listed by nvidia-smi",
        seen=facts.gpus[0].name if facts.gpus else "none",
        source="nvidia-smi",
        fix="" if facts.gpus else "check the driver with nvidia-smi; reboot after an update",
    )


def _check_interface_names(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    variables = settings.mapping("vllm_env")
    sources = {name: f"vllm_env at {settings.origin('vllm_env', name)}" for name in variables}
    yield from check_interface_names(facts, variables, sources)


def _check_native_kernel(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    """Warn of a kernel that runs out of memory early and has no container limit."""
    risky = fnmatch.fnmatchcase(facts.system.kernel, NO_MEMORY_KERNEL)
    guarded = settings.value("guard") and settings.size("guard_loading") >= ENOUGH_LEFT
    if not risky or guarded or read_engine_kind(settings) != NATIVE:
        return
    yield warning(
        "host.kernel",
        facts.host,
        f"kernel {facts.system.kernel}",
        expected="a kernel without this known hang (with 22 GiB available)",
        seen="no memory limit, since the engine is native",
        source="uname -r",
        fix="set guard_loading: 8GiB; symptom: the host answers ping but not SSH",
    )


def _check_linger(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    """Warn of a host that removes semaphores after the last logout."""
    outside = read_engine_kind(settings) == NATIVE or settings.text("engine_user") not in (
        "",
        "root",
        "0",
    )
    if facts.lingers is not False or not outside:
        return
    yield warning(
        "host.linger",
        facts.host,
        f"shared memory of {facts.system.user}",
        expected="shared memory to be kept when the last SSH session ends",
        seen="removal by systemd-logind (RemoveIPC)",
        source="/var/lib/systemd/linger, /etc/systemd/logind.conf",
        fix=f"on that host: loginctl enable-linger {facts.system.user}; or: {{task:hosts.prepare}}",
    )
