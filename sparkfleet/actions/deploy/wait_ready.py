"""`wait_ready`: wait until the endpoint is healthy, and watch every rank meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import (
    find_endpoint,
    locate_files,
    record_step_everywhere,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.command_name import name_command
from sparkfleet.errors import LaunchError
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.startup import copied_environment, placement_group
from sparkfleet.launch.startup.ranks import RankUpdate
from sparkfleet.launch.startup.start_watch import (
    LOADING_HINT,
    Watch,
    WatchTarget,
    create_rank_tracker,
    create_rendezvous,
)
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress
from sparkfleet.vllm.milestones import Phase

RUNNING_LIMIT = 60.0  # seconds for an endpoint that answered at the beginning of this run
RUNNING_HINT = "it answered when this run began: {task:cluster.status}"


class WaitReady(Action[NoArgs]):
    """Wait until `/health` answers and `/v1/models` has the served name; show what ranks do.

    A silent log is not a failure: a cold start compiles for minutes. A dead process, a host that
    stops answering and the recipe's time limit are, and stop the wait on all hosts at once.
    """

    name = "wait_ready"
    requires = ("launch",)
    uses = ("replacement",)
    after = ("serve",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Watch every host, even if nothing was started: it must still be healthy."""
        launch = run.launch
        about = launch.about[run.cluster.head.name]
        if not launch.reason:  # its milestones were reported when it started
            return dict.fromkeys(
                inspected, Plan(work=Watch(create_rank_tracker(about), lambda _: None))
            )
        began = run.now.ticks
        limit = run.settings(run.cluster.head).seconds("vllm_ready_timeout")
        watch = Watch(
            create_rank_tracker(about),
            lambda update: _report_update(run, update, run.clock().ticks - began, limit),
            create_rendezvous(about),
            check_line=lambda line: _explain_fatal_line(launch.deployment, line),
        )
        return dict.fromkeys(inspected, Plan(work=watch))

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Watch one host until the head is ready or some rank has failed."""
        seconds = plan.work.follow(connection, _build_watch_target(run, connection.host))
        if seconds is None:
            return Plan()
        check_models(run, connection)
        return Plan(message=f"ready after {seconds:.0f} s")

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Record that every rank is ready."""
        record_step_everywhere(run, RunStep.READY)
        return NOTHING


def _build_watch_target(run: RunContext, host: Host) -> WatchTarget:
    launch = run.launch
    head = host.name == run.cluster.head.name
    return WatchTarget(
        location=locate_files(run, host),
        folder=launch.surveys[host.name].folder,
        roles=launch.deployment.roles(head=head),
        url=find_endpoint(run).url if head else None,
        limit=run.settings(host).seconds("vllm_ready_timeout") if launch.reason else RUNNING_LIMIT,
        hint=LOADING_HINT if launch.reason else RUNNING_HINT,
    )


def _explain_fatal_line(deployment: Deployment, line: str) -> tuple[str, str] | None:
    """Return why a start whose log has this line cannot succeed, and the fix."""
    checks = (
        (copied_environment.check_copied_environment, copied_environment.HINT),
        (placement_group.check_placement_group, placement_group.HINT),
    )
    for check, hint in checks:
        if problem := check(deployment, line):
            return problem, hint
    return None


def _report_update(run: RunContext, update: RankUpdate, waited: float, limit: float) -> None:
    milestone = update.milestone
    what = format_update(update, head=run.cluster.head.name)
    text = f"{what} ({waited:.0f} s of at most {limit:.0f} s)"
    run.report(
        Progress(
            host=update.host,
            text=text,
            done=milestone.done,
            total=milestone.total,
            stage=update.stage,
        )
    )


def format_update(update: RankUpdate, *, head: str) -> str:
    """Return what a rank does; a worker that has joined Ray says no more by itself."""
    if update.milestone.phase is Phase.JOINING and update.rank is None and update.host != head:
        return "has joined Ray; the head's log has the rest"
    return str(update)


def check_models(run: RunContext, connection: Connection) -> None:
    """Raise LaunchError unless the endpoint has the served name; some other server could answer."""
    server = find_endpoint(run)
    models = server.list_models(connection)
    if server.served_name not in models:
        raise LaunchError(
            f"the endpoint serves {', '.join(models) or 'no model'}, not {server.served_name}",
            host=connection.host.name,
            hint=f"check what listens on port {server.port}; logs: {name_command('cluster.logs')}",
        )
