"""`wait_ready`: until the endpoint is healthy, with every rank watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import (
    LaunchState,
    find_endpoint,
    locate_files,
    record_step_everywhere,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import LaunchError
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.startup import copied_environment, placement_group
from sparkfleet.launch.startup.ranks import RankUpdate
from sparkfleet.launch.startup.watch import (
    Watch,
    WatchTarget,
    create_rank_tracker,
    create_rendezvous,
)
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress


class WaitReady(Action[NoArgs]):
    """Wait until `/health` answers and `/v1/models` has the served name, showing what ranks do.

    Silence of a log is no failure: a cold start compiles for minutes. A dead process, a host that
    stops answering, or the recipe's time limit is one, and it ends the wait on all hosts at once.
    """

    name = "wait_ready"

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Watch every host, also when nothing was started: it must be healthy still."""
        launch = run.recall(LaunchState)
        about = launch.about[run.cluster.head.name]
        if not launch.reason:  # what runs has told its milestones before
            return dict.fromkeys(
                inspected, Plan(work=Watch(create_rank_tracker(about), lambda _: None))
            )
        watch = Watch(
            create_rank_tracker(about),
            lambda news: _report_news(run, news),
            create_rendezvous(about),
            check_line=lambda line: _explain_fatal_line(launch.deployment, line),
        )
        return dict.fromkeys(inspected, Plan(work=watch))

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Watch one host until the head is ready or somebody has failed."""
        post = _build_post(run, connection.host)
        seconds = plan.work.follow(connection, post)
        if seconds is None:
            return Plan()
        check_models(run, connection)
        return Plan(message=f"ready after {seconds:.0f} s")

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> None:
        """Write down that every rank is ready."""
        record_step_everywhere(run, RunStep.READY)


def _build_post(run: RunContext, host: Host) -> WatchTarget:
    launch = run.recall(LaunchState)
    head = host.name == run.cluster.head.name
    return WatchTarget(
        location=locate_files(run, host),
        folder=launch.surveys[host.name].folder,
        roles=launch.deployment.roles(head=head),
        port=launch.deployment.port if head else None,
        limit=run.settings(host).seconds("vllm_ready_timeout"),
    )


def _explain_fatal_line(deployment: Deployment, line: str) -> tuple[str, str] | None:
    """Return why a start cannot end well once its log has this line, and what to do about it."""
    checks = (
        (copied_environment.check_copied_environment, copied_environment.HINT),
        (placement_group.check_placement_group, placement_group.HINT),
    )
    for check, hint in checks:
        if problem := check(deployment, line):
            return problem, hint
    return None


def _report_news(run: RunContext, news: RankUpdate) -> None:
    done, total = news.milestone.done, news.milestone.total
    run.report(Progress(host=news.host, text=str(news), done=done, total=total))


def check_models(run: RunContext, connection: Connection) -> None:
    """Raise LaunchError unless the endpoint has the served name: another server can be healthy."""
    server = find_endpoint(run)
    models = server.list_models(connection)
    if server.served_name not in models:
        raise LaunchError(
            f"the endpoint serves {', '.join(models) or 'no model'}, not {server.served_name}",
            host=connection.host.name,
            hint=f"what listens on port {server.port}? its log: cluster.logs",
        )
