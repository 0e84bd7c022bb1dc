"""`playbook.*`: playbooks of the user's own."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.command import command
from sparkfleet.cli.options import (
    BECOME,
    CHECK,
    CONFIRM,
    DEGRADED,
    DIFF,
    LISTING,
    LOCK,
    RECIPE,
    RUN,
    SIZE,
    TAGS,
    Options,
    flag,
    option,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookOptions(Options):
    """Options of `playbook.run`."""

    file: str = option("the playbook", default="", positional=True, value="PLAYBOOK")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsOptions(Options):
    """Options of `playbook.actions`."""

    only: str | None = option("one action, instead of all", value="ACTION")
    markdown: bool = flag("as in docs/playbooks.md")


@command(
    "playbook.run",
    *(RUN, TAGS, LISTING, CHECK, DIFF, BECOME, SIZE, CONFIRM, RECIPE, LOCK, DEGRADED),
    whole_cluster=True,
)
def run(options: PlaybookOptions) -> int:
    """Run a playbook: plays and tasks as in Ansible, with the actions of docs/playbooks.md.

    --tp, --pp, --dp, --solo, --recipe and --cluster are for playbooks with cluster_up or its tasks;
    without a size such a playbook uses as many Sparks of the cluster as the recipe can use.

      {task:playbook.run} my.yml --check --diff
      {task:playbook.run} chat-template --tp 2      a shipped example, by its name
    """
    from sparkfleet.cli.playbook.run_playbook import run_playbook

    return run_playbook(options.file, options)


@command("playbook.actions")
def actions(options: ActionsOptions) -> None:
    """Show the actions of playbooks, with their arguments."""
    from sparkfleet.playbook import manual
    from sparkfleet.playbook.vocabulary import ACTIONS
    from sparkfleet.spelling import suggest_similar

    only = options.only
    if only and only not in ACTIONS:
        raise UsageError(f"action {only!r} not found", hint=suggest_similar(only, list(ACTIONS)))
    if options.markdown:
        print_lines(manual.format_markdown_manual().rstrip("\n"))
    else:
        print_lines(*manual.format_manual([only] if only else sorted(ACTIONS)))
