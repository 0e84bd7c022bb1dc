"""One look at all hosts of a cluster: one round trip to each, at the same time, with deadlines.

Two further questions go to the head: Ray's nodes, and as the last resort a request of one token.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkfleet.errors import SparkfleetError, UnreachableError
from sparkfleet.launch.endpoint.endpoint import find_recorded_endpoint
from sparkfleet.launch.endpoint.health.judge import OK, judge_health
from sparkfleet.launch.endpoint.health.observation import (
    HealthLook,
    HostLook,
    ProbeLook,
    parse_host_look,
)
from sparkfleet.launch.startup.join import wait_for_ray_nodes
from sparkfleet.model import Cluster, Host
from sparkfleet.onhost.shared.counters import has_progressed
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool

PATIENCE = 5.0  # seconds for `/health`, `/metrics` and nvidia-smi
GAP = 1.0  # seconds between two readings of counters
STALL = 20.0  # seconds without progress while requests run: a step over a long prompt takes several
MARGIN = 15.0  # seconds for all else that a look reads
HOST_LIMIT = 2 * PATIENCE + STALL + MARGIN  # seconds for one host; it takes 1 where all is well
RAY_LIMIT = 30.0  # seconds for Ray to list its nodes, of which its import takes most
PROBE_LIMIT = 30.0  # seconds for the answer to a request of one token
PROBE = "Hi"

ShowWait = Callable[[str], None]  # gets what is waited for, and for how long at most


class ProbeUse(enum.Enum):
    """When a request of one token is sent to an endpoint that seems to work."""

    NEVER = "never"
    LAST = "where nothing else shows whether every rank works"
    ALWAYS = "unless tokens were just generated"


def look_at_cluster(
    pool: ConnectionPool,
    cluster: Cluster,
    *,
    settings: Callable[[Host], Settings] = lambda host: Settings(host=host),
    ray: bool = True,
    probe: ProbeUse = ProbeUse.LAST,
    show: ShowWait = lambda _: None,
) -> HealthLook:
    """Return one look at all hosts of a cluster; no error of a host is raised, and none waits.

    Without `ray`, Ray's nodes are not asked for, which takes seconds of the head's CPU.
    """
    show(f"checking {', '.join(host.name for host in cluster.hosts)}, {HOST_LIMIT:.0f} s at most")
    answers = pool.map(
        lambda connection: look_at_host(connection, settings(connection.host), cluster.name),
        cluster.hosts,
    )
    look = collect_look(answers.values, answers.errors)
    return complete_look(pool, cluster, look, ray=ray, probe=probe, show=show)


def look_at_host(connection: Connection, settings: Settings, cluster: str) -> HostLook:
    """Return the look at one host, within `HOST_LIMIT` s; raises CommandError."""
    request = {
        "cluster_dir": settings.cluster_dir,
        "cluster": cluster,
        "host": connection.host.name,
        "patience": PATIENCE,
        "gap": GAP,
        "stall": STALL,
    }
    return connection.query("deployment/health", request, parse_host_look, timeout=HOST_LIMIT)


def collect_look(
    hosts: Mapping[str, HostLook], errors: Mapping[str, SparkfleetError]
) -> HealthLook:
    """Return the look at hosts of which some did not answer."""
    unreached = {name for name, error in errors.items() if isinstance(error, UnreachableError)}
    return HealthLook(
        hosts=hosts,
        errors={name: errors[name].message for name in errors if name in unreached},
        broken={name: errors[name].message for name in errors if name not in unreached},
    )


def complete_look(
    pool: ConnectionPool,
    cluster: Cluster,
    look: HealthLook,
    *,
    ray: bool = True,
    probe: ProbeUse = ProbeUse.LAST,
    show: ShowWait = lambda _: None,
) -> HealthLook:
    """Return `look` with what only the head can answer: Ray's nodes, and a token of each copy."""
    head = next((host for host in cluster.hosts if host.name == look.head), None)
    if head is None or head.name not in look.hosts or not judge_health(look).works:
        return look
    if ray and look.about.ray_nodes:
        show(f"asking Ray for its nodes, {RAY_LIMIT:.0f} s at most")
        look = replace(look, nodes=_list_ray_nodes(pool, head, look))
    if _needs_probe(look, probe):
        show(f"asking {head.name} for one token, {PROBE_LIMIT:.0f} s at most")
        look = replace(look, probe=_send_probe(pool.connect(head), look))
    return look


def _list_ray_nodes(
    pool: ConnectionPool, head: Host, look: HealthLook
) -> Mapping[str, float] | None:
    with contextlib.suppress(SparkfleetError):  # a Ray that is silent proves no rank lost
        connection = pool.connect(head)
        return wait_for_ray_nodes(connection, look.about, timeout=0.0, margin=RAY_LIMIT)
    return None


def _needs_probe(look: HealthLook, probe: ProbeUse) -> bool:
    health = judge_health(look)
    if probe is ProbeUse.NEVER or not health.works or _has_worked(look):
        return False
    return probe is ProbeUse.ALWAYS or any(rank.alive is None for rank in health.ranks)


def _has_worked(look: HealthLook) -> bool:
    """Return whether the engine worked on requests of others during the look.

    The counters are those of all copies together: they do not show that each one works.
    """
    if look.about.dp > 1:
        return False
    endpoint = look.hosts[look.ranks[0]].endpoint
    samples = endpoint.samples if endpoint else ()
    return len(samples) > 1 and has_progressed(samples[0], samples[-1])


def _send_probe(connection: Connection, look: HealthLook) -> ProbeLook:
    about = look.about
    endpoint = find_recorded_endpoint(about, look.hosts[connection.host.name].folder)
    copies = tuple(range(about.dp)) if about.dp > 1 else ()
    bodies = [endpoint.body(PROBE, tokens=1)] * about.dp
    try:
        replies = endpoint.post_all(connection, bodies, timeout=PROBE_LIMIT, copies=copies)
    except SparkfleetError as error:
        return ProbeLook(status=0, error=error.message, limit=PROBE_LIMIT)
    looks = [
        ProbeLook(
            status=reply.status,
            error=reply.error,
            limit=PROBE_LIMIT,
            copy=copies[at] if copies else None,
        )
        for at, reply in enumerate(replies)
    ]
    return next((look for look in looks if look.status != OK), looks[0])
