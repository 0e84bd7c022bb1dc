"""The memory of all clusters of the inventory that run on one host; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.interval import Interval
from sparkfleet.fit.memory import NodeMemory, evaluate_nodes
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.fit.requirements import GIB, MemoryRequirements, estimate_requirements
from sparkfleet.launch.engines.container import WEIGHTS
from sparkfleet.launch.host.file_names import SERVE_SCRIPT
from sparkfleet.launch.host.survey import Survey, split_serve_script
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_memory
from sparkfleet.verdicts import build_verdict
from sparkfleet.vllm.options import read_command_line

SERVE = ["vllm", "serve"]
MIN_EXCESS = 64 << 20  # bytes; below it the difference is one of rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """Another cluster that runs on some of the hosts: what its `vllm serve` was started with.

    `folder` holds its model on the head, "" where its command line names none.
    """

    name: str
    hosts: tuple[str, ...]
    options: ServeOptions
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNeed:
    """A running cluster, and the memory that it needs on each of its hosts."""

    cluster: RunningCluster
    requirements: MemoryRequirements

    def estimate_claim(self, room: NodeMemory) -> Interval:
        """Return the bytes that its rank takes of the memory of one host."""
        fits = evaluate_nodes(self.requirements, self.cluster.options, (room,))
        return fits[room.host].claim


def find_running_cluster(
    name: str, surveys: Mapping[str, Survey], weights_dir: str
) -> RunningCluster | None:
    """Return what runs as cluster `name` by the surveys of its hosts, None if nothing does.

    Raises InputError for options that `vllm serve` would refuse, LaunchError for a start script
    that cannot be read.
    """
    for host, survey in surveys.items():
        is_head = survey.about.hosts[:1] == (host,)
        if not (is_head and survey.runs) or survey.files.get(SERVE_SCRIPT) is None:
            continue
        words = split_serve_script(survey, host)
        about = survey.about
        return RunningCluster(
            name=name,
            hosts=about.hosts,
            options=parse_serve_options(read_command_line(words), tp=about.tp, pp=about.pp),
            folder=_find_model_folder(words, weights_dir),
        )
    return None


def _find_model_folder(words: Sequence[str], weights_dir: str) -> str:
    """Return the model's folder as the host has it: containers see it below another path."""
    for place, model in enumerate(words[2:], 2):
        if [word.rpartition("/")[2] for word in words[place - 2 : place]] == SERVE:
            inside = model.removeprefix(f"{WEIGHTS}/")
            return model if inside == model else f"{weights_dir}/{inside}"
    return ""


def estimate_cluster_need(cluster: RunningCluster, shape: Mapping[str, Any] | None) -> ClusterNeed:
    """Return what `cluster` needs; `shape` is the answer of `weights/shape` for its model."""
    answer = shape or {"files": {}, "tensors": [], "drafts": {}}
    profile = build_model_profile(answer, cluster.options)
    requirements = estimate_requirements(profile, cluster.options)
    return ClusterNeed(cluster=cluster, requirements=requirements)


def check_shared_memory(
    cluster: str, room: NodeMemory, claim: Interval, others: Sequence[ClusterNeed]
) -> Iterator[Verdict]:
    """Yield the sum of what `cluster` and the running `others` take of one host's memory.

    It refuses what is sure to be too much, also where the others have not taken all of theirs yet.
    """
    there = [other for other in others if room.host in other.cluster.hosts]
    if not there:
        return
    claims = {other.cluster.name: other.estimate_claim(room) for other in there} | {cluster: claim}
    least = sum(each.low for each in claims.values())
    limit = room.total - room.kept
    excess = least > limit + MIN_EXCESS
    parts = " + ".join(f"{_format_claim(each)} {name}" for name, each in claims.items())
    names = " and ".join(other.cluster.name for other in there)
    yield build_verdict(
        Severity.ERROR if excess else Severity.OK,
        "memory.clusters",
        room.host,
        "memory of all clusters",
        expected=f"at most {format_memory(limit)} together",
        seen=f"at least {format_memory(least)}: {parts}",
        source=f"/proc/meminfo; {SERVE_SCRIPT} of {names}",
        fix=_suggest_fix(cluster, room, least - claim.low, there) if excess else "",
    )


def _format_claim(claim: Interval) -> str:
    low = format_memory(claim.low)
    high = format_memory(claim.high)
    return low if low == high else f"{low.removesuffix(' GiB')} to {high}"


def _suggest_fix(cluster: str, room: NodeMemory, taken: float, there: Sequence[ClusterNeed]) -> str:
    stops = " and ".join(f"{{task:cluster.down}} --cluster {other.cluster.name}" for other in there)
    left = room.total - room.kept - taken
    if left < GIB:
        return f"stop another first: {stops}"
    return (
        f"give {cluster} less: gpu-memory-utilization: {int(left / room.total * 100) / 100:.2f}; "
        f"or stop another first: {stops}"
    )
