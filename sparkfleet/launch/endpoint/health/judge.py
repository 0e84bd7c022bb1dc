"""The verdict on the health of a cluster, from one look at all of its hosts; pure.

The first of `CHECKS` that finds something decides: what could not be read comes first, then what
a person or a run does on purpose, then what is lost, and last what works with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sparkfleet.launch.endpoint.health.observation import HealthLook, HostLook
from sparkfleet.launch.endpoint.health.ranks import (
    format_since,
    judge_ranks,
    went_off_under_load,
)
from sparkfleet.launch.endpoint.health.state import ClusterHealth, HealthState
from sparkfleet.launch.host import memory_guard
from sparkfleet.launch.preflight.gpu_clock import MIN_CLOCK
from sparkfleet.onhost.shared.counters import count_requests, has_progressed
from sparkfleet.vllm.metrics import Sample

OK = 200
RELAUNCH = "start all ranks again: {task:cluster.up}"
COOL = (
    "if the host goes down again, check its cooling and power supply, and set gpu_clock_max: 2150"
)
WAIT = "wait: {task:cluster.status} --watch"
START = "start it: {task:cluster.up}"
RESOLVE = "roll it back and start again: {task:cluster.up}; or stop everything: {task:cluster.down}"


def judge_health(look: HealthLook) -> ClusterHealth:
    """Return the health of what the hosts in `look` run together."""
    ranks = judge_ranks(look)
    for check in CHECKS:
        if health := check(look):
            return replace(health, ranks=ranks, host=health.host or _find_host(look, health.rank))
    answered = look.probe is not None
    return ClusterHealth(
        state=HealthState.SERVING,
        reason=_describe_serving(look, answered=answered),
        host=look.head,
        ranks=ranks,
        probed=answered,
    )


def _find_host(look: HealthLook, rank: int | None) -> str | None:
    return None if rank is None else look.ranks[rank]


def _describe_serving(look: HealthLook, *, answered: bool) -> str:
    count = len(look.ranks)
    copies = f"{look.about.dp} copies, " if look.about.dp > 1 else ""
    text = f"{copies}{count} rank{'s' if count > 1 else ''}, /health answers"
    if copies and answered:
        return f"{text}, and each copy answers a one-token request"
    return f"{text}, and a one-token request succeeds" if answered else text


def _check_unreached(look: HealthLook) -> ClusterHealth | None:
    """Find a host that was not reached, of the deployment where one is recorded."""
    names = look.ranks or (*look.errors, *look.broken)
    for name in names:
        if name in look.errors:
            fix = f"check that {name} is on and connected, then: {{task:cluster.status}}"
            reason = f"{name} was not reached: {look.errors[name]}"
            return ClusterHealth(state=HealthState.UNKNOWN, reason=reason, host=name, fix=fix)
        if name in look.broken:
            reason = f"{name} does not report its state: {look.broken[name]}"
            fix = f"look at the host: {{task:hosts.check}} --limit {name}"
            return ClusterHealth(state=HealthState.UNKNOWN, reason=reason, host=name, fix=fix)
        if name not in look.hosts:
            reason = f"{name} has rank {look.ranks.index(name)}, but was not queried"
            fix = "leave out --limit, or add the host to the inventory"
            return ClusterHealth(state=HealthState.UNKNOWN, reason=reason, host=name, fix=fix)
    return None


def _check_run(look: HealthLook) -> ClusterHealth | None:
    """Find a run that starts or stops the deployment now."""
    for name, seen in look.hosts.items():
        if seen.busy and seen.interrupted and seen.progress:
            reason = f"a run is in progress, last step {seen.progress.step}"
            return ClusterHealth(state=HealthState.STARTING, reason=reason, host=name, fix=WAIT)
    return None


def _check_stopped(look: HealthLook) -> ClusterHealth | None:
    """Find that no host has a deployment."""
    if look.head is not None:
        return None
    for name, seen in look.hosts.items():
        if seen.interrupted and seen.progress:
            reason = f"a run was interrupted after {seen.progress.step}; nothing runs"
            return ClusterHealth(state=HealthState.STOPPED, reason=reason, host=name, fix=RESOLVE)
    for name, seen in look.hosts.items():
        if seen.processes or seen.containers:
            reason = f"orphaned: {name} has processes of this cluster without a deployment record"
            fix = "stop them: {task:cluster.down}"
            return ClusterHealth(
                state=HealthState.STOPPED, reason=reason, host=name, fix=fix, should_serve=False
            )
    reason = "no deployment is recorded on any host"
    return ClusterHealth(state=HealthState.STOPPED, reason=reason, fix=START, should_serve=False)


def _check_ranks(look: HealthLook) -> ClusterHealth | None:
    """Find a lost rank; the one whose role died before those whose processes are missing."""
    lost = [rank for rank in judge_ranks(look) if rank.alive is False]
    if not lost:
        return None
    first = min(lost, key=lambda rank: (not look.hosts[rank.host].dead, rank.rank))
    guard = look.hosts[first.host].guard
    fix = memory_guard.FIX if guard and guard.reason else RELAUNCH
    if went_off_under_load(look, first.host):
        fix = f"{RELAUNCH}; {COOL}"
    name = f"rank {first.rank}{_name_copy(look, first.rank)} on {first.host}"
    reason = f"{name} is lost{format_since(first)}: {first.problem}"
    if len(lost) > 1:
        others = ", ".join(f"{rank.rank} on {rank.host}" for rank in lost if rank is not first)
        reason += f"; also lost: {others}"
    return ClusterHealth(
        state=HealthState.RANK_LOST, reason=reason, rank=first.rank, since=first.since, fix=fix
    )


def _name_copy(look: HealthLook, rank: int) -> str:
    """Return which copy a rank belongs to, as text that follows it; "" where there is only one.

    Ray chooses the hosts of all copies but the first, so that it is known of one other only.
    """
    chosen = look.about.ray_nodes and (look.copy_size > 1 or look.about.dp > 2)
    return f" (copy {rank // look.copy_size})" if look.about.dp > 1 and not chosen else ""


def _check_suspended(look: HealthLook) -> ClusterHealth | None:
    """Find a process that a signal has stopped, or a paused container."""
    for rank, name in enumerate(look.ranks):
        seen = look.hosts[name]
        for entry in seen.processes:
            if entry.suspended:
                title = _shorten_title(entry.title)
                reason = f"{title} on {name} (pid {entry.pid}) is stopped by a signal (SIGSTOP)"
                return _build_wedged(reason, rank)
        for role, state in seen.containers.items():
            if state == "paused":
                return _build_wedged(f"the container of {role} on {name} is paused", rank)
    return None


def _check_endpoint(look: HealthLook) -> ClusterHealth | None:
    """Find an endpoint that does not answer `/health` with 200."""
    head = look.hosts[look.ranks[0]]
    endpoint = head.endpoint
    if endpoint is None or endpoint.status == OK:
        return None
    where = f"/health on {look.ranks[0]}, port {look.about.port},"
    reason = (
        f"{where} answered {endpoint.status}: the engine is dead or does not work"
        if endpoint.status
        else f"{where} gave no answer within {endpoint.limit:.0f} s: {endpoint.error}"
    )
    if _is_loading(look, head):
        reason = f"the ranks of an interrupted run are still loading; {reason}"
        return ClusterHealth(state=HealthState.STARTING, reason=reason, rank=0, fix=WAIT)
    return _build_wedged(reason, 0)


def _is_loading(look: HealthLook, head: HostLook) -> bool:
    """Return whether ranks of a run that was killed may still become ready."""
    ages = [role.age for role in head.roles.values() if role.age is not None]
    return head.interrupted and bool(ages) and min(ages) < look.about.ready_timeout


def _check_probe(look: HealthLook) -> ClusterHealth | None:
    """Find that a request of one token got no answer."""
    probe = look.probe
    if probe is None or probe.status == OK or _is_compiling(look):
        return None
    whom = "" if probe.copy is None else f" to copy {probe.copy}"
    reason = (
        f"a one-token request{whom} failed with status {probe.status}: {probe.error}"
        if probe.status
        else f"a one-token request{whom} got no answer within {probe.limit:.0f} s: {probe.error}"
    )
    rank = (probe.copy or 0) * look.copy_size
    return replace(_build_wedged(reason, rank), probed=True)


def _check_progress(look: HealthLook) -> ClusterHealth | None:
    """Find requests that run without a token, although no kernel is being compiled."""
    stalled = _find_stall(look)
    if stalled is None or _is_compiling(look):
        return None
    seconds, requests = stalled
    return _build_wedged(
        f"no token for {seconds:.0f} s while {requests} requests are running or waiting", 0
    )


def _find_stall(look: HealthLook) -> tuple[float, int] | None:
    """Return for how many s how many requests have made no progress, None if there are none."""
    endpoint = look.hosts[look.ranks[0]].endpoint
    samples: tuple[Sample, ...] = endpoint.samples if endpoint else ()
    if endpoint is None or len(samples) < 2 or not all(map(count_requests, samples)):
        return None
    seconds = samples[-1]["at"] - samples[0]["at"]
    if seconds < endpoint.stall or has_progressed(samples[0], samples[-1]):
        return None
    return seconds, count_requests(samples[-1])


def _is_compiling(look: HealthLook) -> bool:
    return any(look.hosts[name].compilers for name in look.ranks)


def _check_degraded(look: HealthLook) -> ClusterHealth | None:
    """Find a reason to look at a deployment that works."""
    for rank, name in enumerate(look.ranks):
        for reason, fix in _find_degradations(look, name):
            return ClusterHealth(state=HealthState.DEGRADED, reason=reason, rank=rank, fix=fix)
    return None


def _find_degradations(look: HealthLook, name: str) -> Iterator[tuple[str, str]]:
    """Yield why the deployment on a host works less well than it should, and what to do."""
    seen = look.hosts[name]
    if seen.interrupted and seen.progress:
        yield (
            f"the cluster serves, but a run was interrupted after {seen.progress.step} on {name}",
            RESOLVE,
        )
    if down := [rail for rail, carrier in seen.rails.items() if not carrier]:
        text = f"no carrier on {', '.join(down)} of {name} (cable or far end)"
        yield text, "check the cable, then: {task:links.verify}"
    if seen.gpu is None and seen.gpu_error:
        text = f"nvidia-smi on {name} does not list the processes on the GPU: {seen.gpu_error}"
        yield text, f"on {name}: nvidia-smi; look for Xid in its kernel log: journalctl -k"
    yield from _find_slow_gpu(look, name, seen)
    if seen.compilers and (_find_stall(look) or (look.probe and look.probe.status != OK)):
        text = f"requests wait while {', '.join(seen.compilers)} compiles kernels on {name}"
        yield text, WAIT


def _find_slow_gpu(look: HealthLook, name: str, seen: HostLook) -> Iterator[tuple[str, str]]:
    """Yield that the GPU of a host is slowed by its hardware, or has a low clock under load."""
    gpu = seen.gpu_state
    if gpu and gpu.halved:
        text = f"the GPU of {name} is slowed by {' and '.join(gpu.halved)} ({gpu})"
        yield text, f"check the cooling and the power supply of {name}: {{task:serve.watch}}"
    endpoint = look.hosts[look.ranks[0]].endpoint
    samples = endpoint.samples if endpoint else ()
    is_loaded = len(samples) > 1 and has_progressed(samples[0], samples[-1])
    if gpu and gpu.clock and gpu.clock < MIN_CLOCK and is_loaded and count_requests(samples[-1]):
        text = f"the GPU of {name} runs at {gpu.clock:.0f} MHz while requests run"
        yield (
            text,
            f"expected >= {MIN_CLOCK} MHz: shut down {name}, unplug it for a minute, boot it",
        )


def _build_wedged(reason: str, rank: int) -> ClusterHealth:
    return ClusterHealth(state=HealthState.WEDGED, reason=reason, rank=rank, fix=RELAUNCH)


def _shorten_title(title: str) -> str:
    """Return the program of a command line, with its first word after the interpreter."""
    words = [word.rsplit("/", 1)[-1] for word in title.split()]
    return " ".join(words[1:3] if words[:1] and words[0].startswith("python") else words[:1])


CHECKS: tuple[Callable[[HealthLook], ClusterHealth | None], ...] = (
    _check_unreached,
    _check_run,
    _check_stopped,
    _check_ranks,
    _check_suspended,
    _check_endpoint,
    _check_probe,
    _check_progress,
    _check_degraded,
)
