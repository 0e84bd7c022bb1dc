"""Health of each rank: which host should run it, whether it does, and its last log line; pure.

A rank is found by the title of its process, which vLLM and Ray set: ``VLLM::Worker_TP1`` (mp),
``ray::RayWorkerProc`` or ``VLLM::Worker`` below a Raylet, and ``VLLM::EngineCore`` for a single
rank (https://github.com/vllm-project/vllm/blob/main/vllm/v1/engine/core.py). Releases without
titles are judged by the processes on the GPUs alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from sparkfleet.launch.endpoint.health.observation import EngineProcess, HealthLook, HostLook
from sparkfleet.launch.endpoint.health.state import RankHealth
from sparkfleet.vllm.milestones import ANSI

WORKER = re.compile(r"VLLM::Worker|ray::\w*Worker")
ENGINE = re.compile(r"VLLM::EngineCore")
# https://github.com/vllm-project/vllm/blob/main/vllm/v1/metrics/loggers.py writes it every 10 s
RUNNING = re.compile(r"Running: (\d{1,9}) reqs")
RECENT = 60.0  # seconds before a host went down in which the log of the head still shows its load


def judge_ranks(look: HealthLook) -> tuple[RankHealth, ...]:
    """Return the health of every rank of the deployment; empty if no host has a record."""
    return tuple(_judge_rank(look, rank, name) for rank, name in enumerate(look.ranks))


def find_rank_processes(look: HealthLook, name: str) -> tuple[EngineProcess, ...]:
    """Return the processes of the rank on a host, by their titles."""
    title = _find_rank_title(look)
    seen = look.hosts.get(name)
    return tuple(entry for entry in seen.processes if title.match(entry.title)) if seen else ()


def _find_rank_title(look: HealthLook) -> re.Pattern[str]:
    """Return the title of the processes that are ranks.

    The only rank of a copy runs in the engine itself, unless Ray starts it.
    """
    alone = look.copy_size == 1 and not look.about.ray_nodes
    return ENGINE if alone else WORKER


def _judge_rank(look: HealthLook, rank: int, name: str) -> RankHealth:
    seen = look.hosts.get(name)
    if seen is None:
        return RankHealth(rank=rank, host=name, alive=None, problem="its host was not reached")
    processes = find_rank_processes(look, name)
    pid = processes[0].pid if processes else None
    on_gpu = [entry for entry in seen.gpu or () if entry.pid in _list_pids(seen)]
    memory = sum(entry.memory or 0 for entry in on_gpu)
    problem = next(_find_rank_problems(look, name, seen), "")
    proven = bool(processes or on_gpu)
    return RankHealth(
        rank=rank,
        host=name,
        alive=False if problem else True if proven else None,
        pid=pid,
        gpu_memory=memory or None,
        since=_find_end(seen) if problem else None,
        last_line=_find_last_line(look, rank, name),
        problem=problem,
    )


def _find_rank_problems(look: HealthLook, name: str, seen: HostLook) -> Iterator[str]:
    """Yield what proves that the rank of a host is lost, the cause before its consequences."""
    if seen.guard and seen.guard.reason:
        yield str(seen.guard.reason)
    if seen.hash is None:
        yield f"no deployment is recorded on {name}"
        return
    if seen.rebooted:
        text = f"{name} was rebooted after cluster.up; nothing has been started there since"
        yield f"{text}{describe_last_shutdown(look, seen)}"
    if seen.hash != (_find_wanted_hash(look) or seen.hash):
        yield f"{name} runs another deployment ({seen.hash})"
    if seen.dead:
        yield f"{' and '.join(seen.dead)} died on {name}"
    yield from _find_missing_processes(look, name, seen)
    node = look.about.ray_nodes.get(name)
    if look.nodes is not None and node is not None and node not in look.nodes:
        yield f"Ray no longer lists {name} (node {node})"


def describe_last_shutdown(look: HealthLook, seen: HostLook) -> str:
    """Return how the host went down, and whether under load, to follow a text; "" if unknown."""
    ended = seen.last_shutdown
    if ended is None or not str(ended):
        return ""
    if ended.clean:
        return f"; {ended}"
    requests = _count_last_requests(look, ended.at)
    load = f" under load ({requests} requests ran)" if requests else ""
    return f"; {ended}{load}, without a shutdown"


def went_off_under_load(look: HealthLook, name: str) -> bool:
    """Return whether a host went down without a shutdown while requests ran."""
    seen = look.hosts.get(name)
    ended = seen.last_shutdown if seen else None
    return ended is not None and ended.clean is False and bool(_count_last_requests(look, ended.at))


def _count_last_requests(look: HealthLook, at: float | None) -> int:
    """Return how many requests ran by the last statistics in the head's log, 0 if it is older."""
    log = look.hosts[look.ranks[0]].logs.get("serve") if look.ranks[0] in look.hosts else None
    if log is None or (at and log.at and log.at < at - RECENT):
        return 0
    found = [match for match in map(RUNNING.search, log.lines) if match]
    return int(found[-1][1]) if found else 0


def _find_missing_processes(look: HealthLook, name: str, seen: HostLook) -> Iterator[str]:
    titled = any(find_rank_processes(look, host) for host in look.ranks) or any(
        ENGINE.match(entry.title) for host in look.hosts.values() for entry in host.processes
    )
    if titled and not find_rank_processes(look, name):
        kind = "engine" if _find_rank_title(look) is ENGINE else "worker"
        yield f"the {kind} process of vLLM on {name} no longer exists"
    others = [host for host in look.ranks if host != name and host in look.hosts]
    used = any(_uses_gpu(look.hosts[host]) for host in others)
    if used and seen.gpu is not None and not _uses_gpu(seen):
        yield f"no process of the deployment is on the GPU of {name}"


def _uses_gpu(seen: HostLook) -> bool:
    pids = _list_pids(seen)
    return any(entry.pid in pids for entry in seen.gpu or ())


def _list_pids(seen: HostLook) -> set[int]:
    return {entry.pid for entry in seen.processes}


def _find_wanted_hash(look: HealthLook) -> str | None:
    head = look.hosts.get(look.head or "")
    return head.hash if head else None


def _find_end(seen: HostLook) -> float | None:
    """Return when the last log of a role that ended was written: its process wrote no more."""
    ends = [log.at for role, log in seen.logs.items() if role in seen.dead and log.at is not None]
    return max(ends, default=None)


def _find_last_line(look: HealthLook, rank: int, name: str) -> str:
    """Return the last line of a rank, without its colours.

    Under Ray the head's log has the lines of all ranks.
    """
    seen = look.hosts[name]
    address = look.about.ray_nodes.get(name)
    head = look.hosts.get(look.head or "")
    if address and head and rank:
        marks = (f"ip={address})", f"ip={address},", f"[{rank}] died")
        lines = head.logs["serve"].lines if "serve" in head.logs else ()
        of_rank = [line for line in lines if any(mark in line for mark in marks)]
        if of_rank:
            return ANSI.sub("", of_rank[-1])
    roles = (*seen.dead, "serve", "ray")
    logs = (seen.logs[role].lines for role in roles if role in seen.logs)
    return ANSI.sub("", next((lines[-1] for lines in logs if lines), ""))


def format_since(rank: RankHealth) -> str:
    """Return since when a rank is lost, as text that follows its problem; "" if unknown."""
    if rank.since is None:
        return ""
    return time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(rank.since))
