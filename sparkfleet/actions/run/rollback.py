"""Restore the previous deployment on all hosts together, and wait until it serves again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.actions.action import Executed
from sparkfleet.actions.deploy.start_action import locate_files, remove_run_record
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import Replacement, RunState
from sparkfleet.command_name import name_command
from sparkfleet.errors import LaunchError, SparkfleetError, UnreachableError
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.deployment_record import PreviousDeployment
from sparkfleet.launch.host.file_names import RAY_TOKEN
from sparkfleet.launch.startup.join import check_ray_nodes, wait_for_ray_nodes
from sparkfleet.launch.startup.ranks import RankUpdate
from sparkfleet.launch.startup.start_watch import (
    Watch,
    WatchTarget,
    create_rank_tracker,
    create_rendezvous,
)
from sparkfleet.model import EMPTY, Host
from sparkfleet.onhost.shared.endpoint_url import build_local_url
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note, Progress

LAST = "serve"  # the role on the head that needs all others


def restore_deployment(run: RunContext, hosts: Sequence[Host]) -> Executed[None]:
    """Stop what this run started on `hosts`, restore the previous deployment, report the outcome.

    If a host of the previous deployment is unreachable, that deployment cannot serve: the record of
    this run stays on the hosts, and the next run restores it. Nothing is left to restore after it.
    """
    replacement = run.state.replacement
    if replacement is None or not replacement.states:
        return Executed(answers=Answers(values={}, errors={}))
    targets = {name: state.previous for name, state in replacement.states.items()}
    restored = run.pool.map(
        lambda connection: _restore_files(run, connection, targets[connection.host.name]), hosts
    )
    serving = [target for target in targets.values() if target.roles]
    spanned = {name: None for target in serving for name in target.about.hosts}
    lost = [name for name in spanned if name not in restored.values]
    if lost:
        up = name_command("cluster.up")
        _report_previous(
            run, f"stays down: {', '.join(lost)} unreachable; once reachable, run {up}"
        )
    elif serving:
        _restart_previous(run, [host for host in hosts if host.name in restored.values], targets)
    else:
        if any(target.hash for target in targets.values()):
            _report_previous(run, "had died before this run and stays down", level="warning")
        run.pool.map(lambda connection: remove_run_record(run, connection), hosts)
    return Executed(answers=restored, provided=RunState(replacement=Replacement()))


def _restore_files(run: RunContext, connection: Connection, target: PreviousDeployment) -> None:
    """Stop what runs, and restore the previous files."""
    name = connection.host.name
    where = locate_files(run, connection.host)
    processes.stop_processes(connection, where)
    written = dict.fromkeys((*run.surveys[name].files, RAY_TOKEN))
    if launch := run.state.launch:
        written |= dict.fromkeys(launch.deployment.files.get(name, ()))
    processes.write_files(connection, where, {**written, **target.files})


def _restart_previous(
    run: RunContext, hosts: Sequence[Host], targets: Mapping[str, PreviousDeployment]
) -> None:
    """Start the previous deployment, wait for it within its own limit, and report the outcome."""
    began = run.clock().ticks
    _report_previous(run, "is being restarted", level="info")
    try:
        _start_previous(run, hosts, targets)
    except SparkfleetError as error:
        _report_previous(run, f"failed to restart: {error}")
        if isinstance(error, UnreachableError):
            return  # the record of this run stays, so that the next run can restore it
    else:
        _report_previous(
            run, f"is serving again after {run.clock().ticks - began:.0f} s", level="info"
        )
    run.pool.map(lambda connection: remove_run_record(run, connection), hosts)


def _start_previous(
    run: RunContext, hosts: Sequence[Host], targets: Mapping[str, PreviousDeployment]
) -> None:
    """Start its roles in the order of a start, and watch all of them until the endpoint answers."""
    parts = [host for host in hosts if targets[host.name].roles]
    about = targets[parts[0].name].about
    head = next(host for host in parts if host.name == about.hosts[0])
    run.pool.map(
        lambda connection: _arm_previous_guard(run, connection, targets[connection.host.name]),
        parts,
    ).all()
    run.pool.map(lambda connection: _start_roles(run, connection, targets, last=False), parts).all()
    if about.ray_nodes:
        connection = run.pool.connect(head)
        nodes = wait_for_ray_nodes(connection, targets[head.name].about, timeout=about.join_timeout)
        if missing := check_ray_nodes(nodes, about.ray_nodes):
            raise LaunchError(missing, host=head.name)
    run.pool.map(lambda connection: _start_roles(run, connection, targets, last=True), [head]).all()
    watch = Watch(
        create_rank_tracker(about),
        lambda news: _report_previous_news(run, news),
        create_rendezvous(about),
    )
    posts = {host.name: _build_previous_post(run, host, targets[host.name]) for host in parts}
    run.pool.map(
        lambda connection: watch.follow(connection, posts[connection.host.name]), parts
    ).all()


def _arm_previous_guard(
    run: RunContext, connection: Connection, target: PreviousDeployment
) -> None:
    where = processes.replace_cli(locate_files(run, connection.host), target.cli)
    memory_guard.arm_guard(connection, where, run.settings(connection.host), loads=False)


def _start_roles(
    run: RunContext,
    connection: Connection,
    targets: Mapping[str, PreviousDeployment],
    *,
    last: bool,
) -> None:
    """Start either the role that needs all others, or the others, on one host."""
    target = targets[connection.host.name]
    where = processes.replace_cli(locate_files(run, connection.host), target.cli)
    is_head = connection.host.name == target.about.hosts[0]
    for role, script in target.roles.items():
        if (is_head and role == LAST) is last:
            processes.start_process(
                connection,
                where,
                role,
                script,
                hash_=target.hash or "",
                about=target.about,
                files={RAY_TOKEN: run.ray_token} if role == "ray" else EMPTY,
            )


def _build_previous_post(run: RunContext, host: Host, target: PreviousDeployment) -> WatchTarget:
    about = target.about
    return WatchTarget(
        location=processes.replace_cli(locate_files(run, host), target.cli),
        folder=run.surveys[host.name].folder,
        roles=tuple(target.roles),
        url=build_local_url(about.listens_on, about.port) if host.name == about.hosts[0] else None,
        limit=about.ready_timeout,
    )


def _report_previous_news(run: RunContext, news: RankUpdate) -> None:
    run.report(Progress(host=news.host, text=f"previous deployment: {news}"))


def _report_previous(run: RunContext, text: str, *, level: str = "error") -> None:
    run.report(Note(text=f"previous deployment {text}", level=level))
