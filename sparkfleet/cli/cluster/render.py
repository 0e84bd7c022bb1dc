"""`cluster.render`: write every file of a deployment, to read or to run by hand."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState
from sparkfleet.cli.cluster.options import RenderOptions
from sparkfleet.cli.cluster.output_folder import check_output_folder, write_output_files
from sparkfleet.cli.context import ClusterSession, get_tp, open_cluster
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import CommandError, HostError, Interrupted, UnreachableError, UsageError
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.model import Outcome, Status
from sparkfleet.playbook.engine import PlaybookRunner
from sparkfleet.playbook.syntax import AssignedPlay, Play, Task
from sparkfleet.playbook.task_runner import BAD
from sparkfleet.report.events import Event, HostEnded


def render_files(options: RenderOptions) -> int:
    """Write the files of every host below the folder of --out; only reads on the hosts.

    Raises UsageError for a folder with other files, and the errors of the hosts and of the Hub.
    """
    if options.out is None:
        raise UsageError("--out is missing", hint="name a folder: --out rendered")
    folder = options.out
    previous = check_output_folder(folder)
    with open_cluster(options, needs_recipe=True) as session:
        launch = _render_deployment(session, options)
    write_output_files(folder, launch.deployment.files, previous)
    _print_summary(folder, launch)
    return 0


def _render_deployment(session: ClusterSession, options: RenderOptions) -> LaunchState:
    failures = _Failures()
    context = session.context
    run = RunContext(
        inventory=context.inventory,
        cluster=context.cluster,
        recipe=context.recipe,
        options=RunOptions(tp=get_tp(options, context), pp=options.pp, dp=options.dp, check=True),
        given=options.set_variables,
        pool=session.pool,
        reporter=failures,
        log_dir=Path(),
        run_id="render",
    )
    for host in context.cluster.hosts:
        check_engine_settings(run.settings(host))
    play = AssignedPlay(play=build_render_play(run.options.nodes), hosts=context.cluster.hosts)
    if PlaybookRunner(run).run([play]).exit_code == Interrupted.exit_code:
        raise KeyboardInterrupt
    failures.raise_first()
    return run.launch


def build_render_play(nodes: int) -> Play:
    """Return the play of the actions up to `render` that neither write nor test links."""
    names = ["gather_facts", "select_fabric", "locate_weights", "render"]
    if nodes == 1:
        names.remove("select_fabric")
    tasks = tuple(Task(name=name, action=name) for name in names)
    return Play(name="Render", hosts="sparks", tasks=tasks)


class _Failures:
    """A reporter that keeps the outcomes of failed hosts and drops all other events."""

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []

    def handle(self, event: Event) -> None:
        """Keep a failure."""
        if isinstance(event, HostEnded) and event.outcome.status in BAD:
            self._outcomes.append(event.outcome)

    def raise_first(self) -> None:
        """Raise the first failure, with those of further hosts in it, if there is one."""
        errors = [_build_host_error(outcome) for outcome in self._outcomes]
        if errors:
            errors[0].others = tuple(errors[1:])
            raise errors[0]


def _build_host_error(outcome: Outcome) -> HostError:
    kind = UnreachableError if outcome.status is Status.UNREACHABLE else CommandError
    return kind(outcome.message, host=outcome.host, hint=outcome.hint)


def _print_summary(folder: Path, launch: LaunchState) -> None:
    print_lines(f"deployment {launch.deployment.hash}")
    for host, files in launch.deployment.files.items():
        print_lines(f"{folder / host}: {', '.join(files)}")
        print_lines(f"    install in {launch.surveys[host].folder}/ on {host}")
    print_lines(f"{launch.reason or 'already running'}; start it with {name_command('cluster.up')}")
