"""`hosts.*`: facts of the Sparks, checks before a start, and their preparation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from sparkfleet.cli.command import command
from sparkfleet.cli.options import (
    BECOME,
    CHECK,
    FORKS,
    HOSTS,
    OUTPUT,
    RECIPE,
    RUN,
    TAGS,
    Options,
    flag,
    join_limits,
    repeated,
)
from sparkfleet.cli.views.screen import print_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions(Options):
    """Options of the tasks that take --host as well as --limit."""

    host: str | None = repeated("the same as --limit", join_limits, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(HostOptions):
    """Options of `hosts.prepare`."""

    yes: bool = flag("make the changes; without it they are only shown")


HostOptionsT = TypeVar("HostOptionsT", bound=HostOptions)


def _merge_limits(options: HostOptionsT) -> HostOptionsT:
    """Return the options with the hosts of --host in their limit."""
    patterns = filter(None, (options.host, options.limit))
    return replace(options, limit=join_limits("limit", patterns))


@command("hosts.facts", HOSTS, FORKS, OUTPUT)
def facts(options: HostOptions) -> int:
    """Show what each host is: system, driver, GPU, memory, disk, login, rails; read-only.

    One column a host. One round trip a host, as its user, without sudo. --output json has all facts
    that sparkfleet decides by.

      {task:hosts.facts}
      {task:hosts.facts} --host spark-02 --output json
    """
    from sparkfleet.cli.hosts.facts import show_facts  # noqa: PLC0415 - Fabric: not for --list

    return show_facts(_merge_limits(options))


@command("hosts.check", HOSTS, FORKS, OUTPUT, RECIPE)
def check(options: HostOptions) -> int:
    """Check every host as `cluster.up` does before it moves a byte; read-only, needs no recipe.

    SSH, driver, GPU, engine and its group, ports, memory and what takes it, and what must be equal
    on all hosts: one line a verdict, with its fix. Exits with 2 if one refuses, with 4 if a host
    does not answer. A recipe that is named, here or in the inventory, counts for memory and engine.
    `links.verify` checks the links between the hosts.

      {task:hosts.check}
      {task:hosts.check} --host spark-02
    """
    from sparkfleet.cli.hosts.check import show_checks  # noqa: PLC0415 - Fabric: not for --list

    return show_checks(_merge_limits(options))


@command(
    "hosts.prepare",
    RUN,
    TAGS,
    CHECK,
    BECOME,
    help={
        "tags": "only these changes: weights, linger, caches, docker",
        "skip_tags": "all changes but these",
    },
)
def prepare(options: PrepareOptions) -> int:
    """Show what would make the hosts ready for cluster.up, and with --yes do it.

    The folder for the weights, lingering, a sudo rule for drop_caches, the docker group: each with
    its command, why, and how to undo it, and done only where it is lacking. Nothing is changed
    without --yes; network, firmware, clocks and packages never are. Where sudo asks for a
    password, --ask-become-pass asks once for it. It is playbooks/hosts-prepare.yml.

      {task:hosts.prepare}
      {task:hosts.prepare} --yes --ask-become-pass
      {task:hosts.prepare} --yes --tags docker,linger
      {task:hosts.prepare} --yes --skip-tags caches --host spark-02
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    check_only = options.check or not options.yes
    code = run_playbook(
        "hosts-prepare", replace(_merge_limits(options), check=check_only, diff=True)
    )
    if check_only and not options.json:
        print_lines("nothing was changed; to make these changes: --yes")
    return code
