"""`playbook.*`: playbooks of the user's own."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import UsageError

REPEATED = ["inventory", "limit", "set", "tags", "skip_tags"]


@command(iterable=REPEATED, positional=["file"], help={"file": "the playbook"})
def run(  # noqa: PLR0913 - the options of ansible-playbook, and those of the main job
    context: Any,
    file: str,
    *,
    inventory: Any = None,
    limit: Any = None,
    tags: Any = None,
    skip_tags: Any = None,
    start_at: str | None = None,
    list_tasks: bool = False,
    list_hosts: bool = False,
    check: bool = False,
    diff: bool = False,
    set: Any = None,  # noqa: A002 - the option's name
    ask_become_pass: bool = False,
    forks: str | None = None,
    output: str | None = None,
    junit: str | None = None,
    verbose: bool = False,
    tp: str | None = None,
    pp: str | None = None,
    solo: bool = False,
    recipe: str | None = None,
    cluster: str | None = None,
    lock_wait: str | None = None,
    allow_degraded: str | None = None,
) -> int:
    """Run a playbook: plays and tasks as in Ansible, with the actions of docs/playbooks.md.

    --tp, --pp, --solo, --recipe and --cluster are for playbooks with cluster_up or its tasks;
    without them it takes every Spark of the cluster.

      {task:playbook.run} my.yml --check --diff
      {task:playbook.run} playbooks/examples/chat-template.yml --tp 2
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    options = dict(locals())
    if not (tp or pp or solo):
        del options["tp"]
    return run_playbook(file, parse_options("playbook.run", options))


@command(help={"only": "one action, instead of all", "markdown": "as in docs/playbooks.md"})
def actions(context: Any, *, only: str | None = None, markdown: bool = False) -> None:
    """Show the actions of playbooks, with their arguments."""
    from sparkfleet.playbook import manual  # noqa: PLC0415 - every action: not for --list
    from sparkfleet.playbook.vocabulary import ACTIONS  # noqa: PLC0415 - the same
    from sparkfleet.spelling import suggest_similar  # noqa: PLC0415 - the same

    if only and only not in ACTIONS:
        raise UsageError(f"there is no action {only!r}", hint=suggest_similar(only, list(ACTIONS)))
    if markdown:
        print_lines(manual.format_markdown_manual().rstrip("\n"))
    else:
        print_lines(*manual.format_manual([only] if only else sorted(ACTIONS)))
