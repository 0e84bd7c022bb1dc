"""Memory used outside the model: desktop, page cache, swap; pure.

GPU, CPU and page cache share one memory, so memory that any of them uses is missing for the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Memory
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict, error, warning

DROP_CACHES_COMMAND = "sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'"
MAX_SWAPPED = 1 << 30  # bytes
LOGIN_SCREEN = 256 << 20  # bytes; an idle login screen uses 24 MiB of the GPU
SOURCE = "/proc/meminfo"


def check_host_memory(settings: Settings, facts: HostFacts, survey: Survey) -> Iterator[Verdict]:
    """Yield verdicts on one host's memory.

    A running deployment is stopped before the start, so the memory of a serving host is not
    checked.
    """
    yield from _check_desktop(facts)
    if facts.memory and not survey.running_summary:
        yield from _check_available_memory(settings, facts.memory)
        yield from _check_free_memory(settings, facts.memory)
        yield from _check_swap(settings.host.name, facts.memory)
        yield from _check_gpu_memory(settings, facts)


def _check_desktop(facts: HostFacts) -> Iterator[Verdict]:
    """Report the memory of a desktop: hosts with one have frozen under load."""
    if not facts.desktop:
        return
    size = sum(process.memory or 0 for process in facts.desktop)
    names = ", ".join(process.name.rpartition("/")[2] for process in facts.desktop)
    yield build_verdict(
        Severity.WARNING if size > LOGIN_SCREEN else Severity.INFO,
        "host.desktop",
        facts.host,
        "desktop session",
        expected="no desktop session (it uses GPU memory)",
        seen=f"{format_memory(size)} on the GPU: {names}",
        source="nvidia-smi",
        fix="log out on that host, or stop it: sudo systemctl isolate multi-user.target",
    )


def _check_available_memory(settings: Settings, memory: Memory) -> Iterator[Verdict]:
    """Refuse a start that the memory guard would stop at once."""
    least = settings.size("guard_loading") if settings.value("guard") else 0
    short = memory.available < least
    cached = format_memory(memory.cached)
    swapped = format_memory(memory.swap_total - memory.swap_free)
    yield build_verdict(
        Severity.ERROR if short else Severity.OK,
        "host.memory",
        settings.host.name,
        "MemAvailable",
        expected=f"at least {format_memory(least)} (below that, the memory guard stops ranks)",
        seen=f"{format_memory(memory.available)} of {format_memory(memory.total)}; "
        f"page cache {cached}, swapped out {swapped}",
        source=SOURCE,
        fix="find the processes on that host: ps aux --sort=-rss | head; nvidia-smi"
        if short
        else "",
    )


def _check_free_memory(settings: Settings, memory: Memory) -> Iterator[Verdict]:
    """Warn if vLLM sees too little memory: it reads MemFree (vllm-project/vllm#48140)."""
    share = find_memory_utilization(settings)
    requested = int((share or 0) * memory.total)
    if share is None or memory.free >= requested or memory.available < requested:
        return
    drops = bool(settings.value("drop_caches"))
    yield build_verdict(
        Severity.INFO if drops else Severity.WARNING,
        "host.page_cache",
        settings.host.name,
        "MemFree",
        expected=f"gpu-memory-utilization {share:g} of {format_memory(memory.total)}: "
        f"{format_memory(requested)}",
        seen=f"{format_memory(memory.free)}; page cache {format_memory(memory.cached)}, "
        f"{format_memory(memory.available)} available",
        source=SOURCE,
        fix="drop_caches empties the page cache right before the start"
        if drops
        else f"set drop_caches: true, or once on that host: {DROP_CACHES_COMMAND}",
    )


def _check_gpu_memory(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    """Refuse what vLLM refuses after a minute: less free GPU memory than its share of all.

    For GPUs with memory of their own. vLLM 0.20.2: "Free memory on device cuda:0 (12.52/139.8 GiB)
    on startup is less than desired GPU memory utilization".
    """
    share = find_memory_utilization(settings)
    gpu = facts.gpus[0] if facts.gpus else None
    if share is None or gpu is None or gpu.memory is None or gpu.used is None:
        return
    free = gpu.memory - gpu.used
    if free >= share * gpu.memory:
        return
    yield error(
        "host.gpu_memory",
        facts.host,
        "free GPU memory",
        expected=f"gpu-memory-utilization {share:g} of {format_memory(gpu.memory)}: "
        f"{format_memory(int(share * gpu.memory))}",
        seen=f"{format_memory(free)}; {format_memory(gpu.used)} in use",
        source="nvidia-smi",
        fix="find the process on that host: nvidia-smi, sudo fuser -v /dev/nvidia*; "
        "or lower gpu-memory-utilization",
    )


def find_memory_utilization(settings: Settings) -> float | None:
    """Return the share of memory that vLLM uses; None if the KV cache has a set size."""
    options = settings.vllm_options
    if options.find("kv-cache-memory-bytes"):
        return None
    try:
        return options.memory_utilization
    except ValueError:
        return None  # vLLM says what is wrong with it


def _check_swap(host: str, memory: Memory) -> Iterator[Verdict]:
    used = memory.swap_total - memory.swap_free
    if used < MAX_SWAPPED:
        return
    yield warning(
        "host.swap",
        host,
        "swap",
        expected=f"less than {format_memory(MAX_SWAPPED)} in use",
        seen=format_memory(used),
        source=SOURCE,
        fix="find the processes that use memory: ps aux --sort=-rss | head",
    )
