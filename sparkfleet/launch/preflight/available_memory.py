"""How much memory a host has for a start, once what we run there now has stopped; pure."""

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
    """Return the memory of a host, less what its `vllm_memory_reserve` keeps; None if unread.

    What our own deployment holds counts as available, since it will be stopped; where that cannot
    be told, `available` is None.
    """
    if facts.gpus and (apart := facts.gpus[0].memory) is not None:
        return NodeMemory(
            host=facts.host, total=apart
        )  # not a Spark: the GPU has memory of its own
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
    """Return the bytes of the GPU that our processes hold; None where nobody tells.

    Processes in containers have other numbers inside, and nvidia-smi may not name any.
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
    """Yield who else holds memory of the GPU, as a person reads it."""
    pids = {process["pid"] for process in survey.processes}
    for process in facts.gpu_processes:
        if process.pid not in pids and process.memory:
            yield f"{process.name} (pid {process.pid}, {format_memory(process.memory)})"
