"""The links gate: which rails carry a cluster, each rank's environment, and whether it holds."""

from sparkfleet.links.active_gate import probe
from sparkfleet.links.checks import check, check_machines
from sparkfleet.links.environment import EnvVar, env
from sparkfleet.links.gate import prove, sample
from sparkfleet.links.measurement import measure
from sparkfleet.links.model import Cable, Cage, Fabric, Rail, Topology
from sparkfleet.links.rate_verdicts import judge_rates
from sparkfleet.links.rates import Samples
from sparkfleet.links.reach import reach_plan
from sparkfleet.links.reach_verdicts import judge_reach
from sparkfleet.links.selection import fabric

__all__ = [
    "Cable",
    "Cage",
    "EnvVar",
    "Fabric",
    "Rail",
    "Samples",
    "Topology",
    "check",
    "check_machines",
    "env",
    "fabric",
    "judge_rates",
    "judge_reach",
    "measure",
    "probe",
    "prove",
    "reach_plan",
    "sample",
]
