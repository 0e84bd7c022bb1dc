"""`check_logs`: check the logs of a start for expected and forbidden texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import processes
from sparkfleet.launch.startup.log_patterns import check_log_lines
from sparkfleet.remote.connection import Connection
from sparkfleet.report.plurals import format_plural


class CheckLogs(Action[NoArgs]):
    """Search the logs of all ranks for the recipe's expected and forbidden texts.

    A model can answer correctly on a slow or wrong code path; the log shows which one was used.
    """

    name = "check_logs"
    requires = ("launch",)
    after = ("wait_ready",)
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> dict[str, str]:
        """Read the logs of one host, if this run has started something."""
        if run.options.check or not _needs_log_check(run):
            return {}
        return processes.read_logs(connection, locate_files(run, connection.host))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Fail for the first text that is missing or forbidden."""
        logs = {
            f"{host} {role}": text
            for host, texts in inspected.items()
            for role, text in texts.items()
        }
        if not logs:
            return {name: Plan() for name in inspected}
        log = run.recipe.log
        for message, reason in check_log_lines(logs, log, run.recipe.why):
            head = run.cluster.head.name
            failed = Plan(failed=True, message=message, hint=reason or None)
            return {**{name: Plan() for name in inspected}, head: failed}
        count = len(log.expect) + len(log.forbid)
        return {name: Plan(message=f"{format_plural(count, 'text')} checked") for name in inspected}


def _needs_log_check(run: RunContext) -> bool:
    log = run.recipe.log
    return bool(run.launch.reason and (log.expect or log.forbid))
