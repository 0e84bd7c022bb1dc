"""Memory of a host available for a start, after its deployment has stopped; pure."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts import HostFacts
from sparkfleet.fit.memory import NodeMemory
from sparkfleet.launch.host.survey import Survey
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings


def compute_available_memory(
    facts: HostFacts, survey: Survey, settings: Settings
) -> NodeMemory | None:
    """Return the memory of a host, less its `vllm_memory_reserve`; None if unknown.

    Memory of the running deployment counts as available, since it will be stopped; `available` is
    None if its size is unknown.
    """
    if facts.gpus and (apart := facts.gpus[0].memory) is not None:
        # not a Spark: the GPU has memory of its own
        return NodeMemory(host=facts.host, total=apart)
    if facts.memory is None:
        return None
    reserve = settings.value("vllm_memory_reserve")
    managed = compute_managed_memory(facts, survey)
    return NodeMemory(
        host=facts.host,
        total=facts.memory.total,
        available=None if managed is None else facts.memory.available + managed,
        kept=settings.size("vllm_memory_reserve") if reserve is not None else 0,
        guard=settings.size("guard_serving") if settings.value("guard") else 0,
    )


def compute_managed_memory(facts: HostFacts, survey: Survey) -> int | None:
    """Return the GPU memory of the running deployment in bytes; None if unknown.

    Processes in containers have other PIDs inside, and nvidia-smi may list none.
    """
    if not survey.running_summary:
        return 0
    pids = {process["pid"] for process in survey.processes}
    sizes = [process.memory for process in facts.gpu_processes if process.pid in pids]
    if survey.containers or not sizes:
        return None
    readable = [size for size in sizes if size is not None]
    return sum(readable) if len(readable) == len(sizes) else None


def list_gpu_memory_users(facts: HostFacts, survey: Survey) -> Iterator[str]:
    """Yield a description of each other process that uses GPU memory."""
    pids = {process["pid"] for process in survey.processes}
    for process in facts.gpu_processes:
        if process.pid not in pids and process.memory:
            yield f"{process.name} (pid {process.pid}, {format_memory(process.memory)})"
