"""The states of a cluster, and the verdict that has one of them; pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sparkfleet.command_name import expand_commands


class HealthState(enum.Enum):
    """The health of a deployment; docs/health.md says what decides each."""

    SERVING = "serving"
    STARTING = "starting"
    DEGRADED = "degraded"  # works, with a reason
    WEDGED = "wedged"  # alive, without an answer, or without a token while requests run
    RANK_LOST = "rank lost"
    STOPPED = "stopped"
    UNKNOWN = "unknown"  # a host was not reached


RELAUNCHED = (HealthState.WEDGED, HealthState.RANK_LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHealth:
    """One rank, which is one process on the GPU of one host.

    `alive` is None where nothing shows it. `gpu_memory` is in bytes, None where the GPU does not
    report it. `since` is when a lost rank was last known to run, in s since 1970, None if unknown.
    `last_line` is the last line of its log; `problem` says why it does not work, "" if it does.
    """

    rank: int
    host: str
    alive: bool | None
    pid: int | None = None
    gpu_memory: int | None = None
    since: float | None = None
    last_line: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The verdict: a state, its reason, where, and what to type next.

    `host` and `rank` are None where the reason concerns the whole cluster. `since` is when a rank
    was lost, in s since 1970, None if unknown. `probed`: a request of one token decided it, since
    nothing else could. `should_serve`: it was started, and not stopped. A ``{task:cluster.up}`` in
    `fix` becomes the command that the user types.
    """

    state: HealthState
    reason: str
    host: str | None = None
    rank: int | None = None
    fix: str = ""
    since: float | None = None
    ranks: tuple[RankHealth, ...] = ()
    probed: bool = False
    should_serve: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "fix", expand_commands(self.fix))

    def __str__(self) -> str:
        return f"{self.state.value}: {self.reason}"

    @property
    def should_relaunch(self) -> bool:
        """Whether stopping all ranks and starting them again is the way to serve."""
        return self.state in RELAUNCHED

    @property
    def works(self) -> bool:
        """Whether it answers requests."""
        return self.state in (HealthState.SERVING, HealthState.DEGRADED)
