"""`cluster.render`: every file that would run, for reading or for running by hand."""

from __future__ import annotations

from pathlib import Path

from sparkfleet import links
from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.deploy.launch_state import LaunchState
from sparkfleet.actions.deploy.render import Render
from sparkfleet.actions.run.gather_facts import FleetFacts, GatherFacts
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.stage.stage_weights import Staged, find_draft_folders, fingerprint_manifest
from sparkfleet.cli.cluster.output_folder import check_output_folder, write_output_files
from sparkfleet.cli.context import CommandContext, print_run_started, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.door import command_name
from sparkfleet.errors import GateError, UsageError
from sparkfleet.launch.deployment.executor import select_executor
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.links import Fabric
from sparkfleet.remote.open import open_connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.events import NullReporter
from sparkfleet.weights import layout
from sparkfleet.weights.required_models import resolve_required_models


def render_files(options: Options, out: str | None) -> int:
    """Write the files of every host below the folder `out`; only looks at the hosts.

    Raises UsageError for a folder with files that are not ours, and what facts and the Hub raise.
    """
    if not out:
        raise UsageError("--out needs a folder", hint="type: --out rendered")
    folder = Path(out)
    previous = check_output_folder(folder)
    context = resolve_context(options)
    print_run_started(options, context)
    with ConnectionPool(open_connection, forks=options.forks) as pool:
        launch = _render_deployment(context, options, pool)
    write_output_files(folder, launch.deployment.files, previous)
    _print_summary(folder, launch)
    return 0


def _render_deployment(
    context: CommandContext, options: Options, pool: ConnectionPool
) -> LaunchState:
    run = RunContext(
        inventory=context.inventory,
        cluster=context.cluster,
        recipe=context.recipe,
        options=RunOptions(tp=options.tp, pp=options.pp, check=True),
        given=options.set_variables,
        pool=pool,
        reporter=NullReporter(),
        log_dir=Path(),
        run_id="render",
    )
    hosts = context.cluster.hosts
    for host in hosts:
        check_engine_settings(run.settings(host))
    gather = GatherFacts(NoArgs())
    gather.plan(run, gather.inspect_all(run, hosts).all())
    if run.options.nodes > 1:
        run.remember(_find_fabric(run))
    run.remember(_locate_weights(run))
    _check_executor(run)
    Render(NoArgs()).plan(run, {host.name: None for host in hosts})
    return run.recall(LaunchState)


def _find_fabric(run: RunContext) -> Fabric:
    fabric = links.select_fabric(run.recall(FleetFacts).facts, run.cluster.hosts)
    for host in run.cluster.hosts:
        if fabric.address(host.name) is None:
            raise GateError(
                "no fabric address that the whole group reaches",
                host=host.name,
                hint="to see why: {task:links.show}, {task:links.verify}",
            )
    return fabric


def _locate_weights(run: RunContext) -> Staged:
    """Return where the weights belong on every host, whether they are there yet or not."""
    stocks = resolve_required_models(run.settings(run.cluster.head))
    served = layout.served_folder(stocks[0].manifest)
    paths = {}
    for host in run.cluster.hosts:
        root = run.settings(host).text("weights_dir")
        paths[host.name] = f"{run.recall(FleetFacts).surveys[host.name].expand(root)}/{served}"
    commit = ";".join(fingerprint_manifest(stock.manifest) for stock in stocks)
    return Staged(paths=paths, commit=commit, drafts=find_draft_folders(stocks))


def _check_executor(run: RunContext) -> None:
    settings, surveys = run.settings(run.cluster.head), run.recall(FleetFacts).surveys
    if select_executor(settings, surveys, nodes=run.options.nodes) is None:
        raise UsageError(
            "whether Ray or vLLM itself joins the hosts is known once the image was looked into",
            hint="say it: --set vllm_executor=ray, or --set vllm_executor=mp",
        )


def _print_summary(folder: Path, launch: LaunchState) -> None:
    print_lines(f"deployment {launch.deployment.hash}")
    for host, files in launch.deployment.files.items():
        print_lines(f"{folder / host}: {', '.join(files)}")
        print_lines(f"    belongs to {launch.surveys[host].folder}/ on {host}")
    print_lines(f"{launch.reason or 'already running'}; start it with {command_name('cluster.up')}")
