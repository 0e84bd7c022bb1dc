"""The fabric: the rails that carry a cluster, each rank's environment, and the links gate."""

from sparkfleet.links.bandwidth.measurement import measure_rates
from sparkfleet.links.bandwidth.rates import Samples
from sparkfleet.links.bandwidth.verdicts import judge_rates
from sparkfleet.links.checks.static_gate import check_machines, run_static_gate
from sparkfleet.links.gate import run_gate, sample_rates
from sparkfleet.links.model import Cable, Cage, Fabric, Rail, Topology
from sparkfleet.links.nccl_environment import EnvVar, compute_rank_env
from sparkfleet.links.reachability.active_gate import run_active_gate
from sparkfleet.links.reachability.plan import plan_reachability
from sparkfleet.links.reachability.verdicts import judge_reach
from sparkfleet.links.selection import select_fabric

__all__ = [
    "Cable",
    "Cage",
    "EnvVar",
    "Fabric",
    "Rail",
    "Samples",
    "Topology",
    "check_machines",
    "compute_rank_env",
    "judge_rates",
    "judge_reach",
    "measure_rates",
    "plan_reachability",
    "run_active_gate",
    "run_gate",
    "run_static_gate",
    "sample_rates",
    "select_fabric",
]
