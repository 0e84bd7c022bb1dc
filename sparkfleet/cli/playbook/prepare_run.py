"""Prepare a run of a playbook: read all files, choose tasks and hosts; no host is touched."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.cli.command_line import format_command_line
from sparkfleet.cli.connection_checks import check_ssh_options, check_sudo_passwords
from sparkfleet.cli.context import CommandContext, check_tp, get_tp, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.review import review_recipe
from sparkfleet.command_name import name_command
from sparkfleet.errors import PlaybookError
from sparkfleet.playbook.assignment import (
    assign_hosts,
    find_become_hosts,
    starts_deployment,
    uses_cluster,
)
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import select_tasks
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.playbook.task_order import check_selected_order
from sparkfleet.resources import find_data_file, is_existing_file, list_data_files
from sparkfleet.spelling import suggest_similar
from sparkfleet.unreadable_files import explain_unreadable_file

EXAMPLES = "playbooks/examples"


def find_playbook(name: str) -> Path:
    """Return the file `name`, else the shipped playbook or example of that name or path."""
    is_file_name = name.endswith((".yml", ".yaml"))
    if is_file_name and is_existing_file(Path(name)):
        return Path(name)
    shipped = name.removeprefix("playbooks/") if is_file_name else f"{name}.yml"
    path = find_data_file("playbooks", shipped) or find_data_file(EXAMPLES, shipped)
    if path is None and (why := explain_unreadable_file(Path(name))):
        hint = f"name a file: {name_command('playbook.run')} FILE.yml"
        raise PlaybookError(f"{name!r} cannot be read: {why}", hint=hint)
    if path is None:
        names = [*list_data_files("playbooks", ".yml"), *list_data_files(EXAMPLES, ".yml")]
        raise PlaybookError(f"playbook {name!r} not found", hint=suggest_similar(name, names))
    return path


def prepare_run(path: Path, options: Options) -> tuple[CommandContext, tuple[AssignedPlay, ...]]:
    """Read all files and choose tasks and hosts; connects to no host."""
    playbook = load_playbook(path)
    plays = select_tasks(playbook, options.selection)
    works = uses_cluster(plays)
    begins = starts_deployment(plays)
    context = resolve_context(options, works_on_cluster=works, needs_recipe=begins)
    if begins:
        review_recipe(context.recipe, options)
    if begins and options.offers_size:
        run_options = build_run_options(options, context)
        check_tp(run_options.tp, context.recipe, pp=run_options.pp)
    assigned = assign_hosts(
        plays, context.inventory, context.cluster, limit=options.limit, given=options.set_variables
    )
    check_selected_order(
        [assignment.play for assignment in assigned],
        playbook,
        nodes=build_run_options(options, context).nodes,
    )
    check_ssh_options(host for assignment in assigned for host in assignment.hosts)
    check_sudo_passwords(find_become_hosts(assigned))
    return context, assigned


def build_run_options(options: Options, context: CommandContext) -> RunOptions:
    """Return the options of a run: the size of the deployment, and how the run is made."""
    return RunOptions(
        tp=get_tp(options, context),
        pp=options.pp,
        dp=options.dp,
        check=options.check,
        allow_degraded=options.allow_degraded,
        lock_wait=options.lock_wait,
        command=format_command_line(),
    )
