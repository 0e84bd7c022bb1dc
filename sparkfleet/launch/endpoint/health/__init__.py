"""One verdict on the health of a cluster, from one look at all of its hosts."""

from sparkfleet.launch.endpoint.health.judge import judge_health
from sparkfleet.launch.endpoint.health.observation import HealthLook, HostLook
from sparkfleet.launch.endpoint.health.probing import ProbeUse, look_at_cluster
from sparkfleet.launch.endpoint.health.state import ClusterHealth, HealthState, RankHealth

__all__ = [
    "ClusterHealth",
    "HealthLook",
    "HealthState",
    "HostLook",
    "ProbeUse",
    "RankHealth",
    "judge_health",
    "look_at_cluster",
]
