"""`gpu_clock_limit`: limit the clock of the GPU while the cluster serves, if the inventory asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, Plan, arg
from sparkfleet.actions.builtin.become import find_sudo_password
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.commands import quote
from sparkfleet.launch.host import clock_limit
from sparkfleet.launch.host.clock_limit import ClockLimit
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClockLimitArgs:
    """Whether to lift the limit, whatever is configured."""

    lift: bool = arg("lift the limit, for a cluster that stops", default=False)


class GpuClockLimit(Action[GpuClockLimitArgs]):
    """Limit the GPU's clock to `gpu_clock_max`, and lift a limit that is no longer configured.

    By `sudo nvidia-smi -lgc`; it changes what runs without a new start. `cluster.down` lifts it.
    """

    name = "gpu_clock_limit"
    after = ("gpu_clock",)
    args_type = GpuClockLimitArgs
    inspects = True
    undoes = True

    def inspect(self, run: RunContext, connection: Connection) -> ClockLimit | None:
        """Read the limit that was set last on a host."""
        return clock_limit.read_clock_limit(connection, locate_files(run, connection.host))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Compare it with `gpu_clock_max`."""
        wanted = {
            host.name: None if self.args.lift else run.settings(host).value("gpu_clock_max")
            for host in run.cluster.hosts
        }
        return {name: _plan_limit(wanted[name], found) for name, found in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Set or lift it on one host."""
        _change_limit(run, connection, plan.work["wanted"], plan.work["found"])
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Bring back the limit that was there before, or none."""
        found = plan.work["found"]
        before = found.highest if found and found.in_force else None
        now = clock_limit.read_clock_limit(connection, locate_files(run, connection.host))
        _change_limit(run, connection, before, now)


def find_limit_drift(wanted: int | None, found: ClockLimit | None) -> str:
    """Return how the limit of a host differs from `wanted` MHz, "" if it does not."""
    now = found.highest if found and found.in_force else None
    if now == wanted:
        return ""
    return f"GPU clock limit: {_describe(now)}, expected {_describe(wanted)}"


def _plan_limit(wanted: int | None, found: ClockLimit | None) -> Plan:
    if not find_limit_drift(wanted, found):
        stale = found is not None and wanted is None
        message = "" if wanted is None else f"limited to {wanted} MHz"
        work = {"wanted": None, "found": found} if stale else None
        return Plan(skip=wanted is None, message=message, work=work)
    now = found.highest if found and found.in_force else None
    command = clock_limit.LIFT if wanted is None else clock_limit.build_limit_command(wanted)
    return Plan(
        changes=(
            Change(
                summary=f"GPU clock limit: {_describe(wanted)} (sudo {quote(command)})",
                path="GPU clock limit",
                before=f"{_describe(now)}\n",
                after=f"{_describe(wanted)}\n",
            ),
        ),
        work={"wanted": wanted, "found": found},
    )


def _change_limit(
    run: RunContext, connection: Connection, wanted: int | None, found: ClockLimit | None
) -> None:
    location = locate_files(run, connection.host)
    password = find_sudo_password(run, connection.host.name)
    if wanted is not None:
        clock_limit.set_clock_limit(connection, location, wanted, password=password)
    elif found and found.in_force:
        clock_limit.lift_clock_limit(connection, location, password=password)
    elif found:
        clock_limit.forget_clock_limit(connection, location)


def _describe(highest: int | None) -> str:
    return "none" if highest is None else f"{highest} MHz"
