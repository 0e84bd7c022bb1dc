"""`hosts.*`: what the Sparks are, whether they can start anything, and making them ready."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options
from sparkfleet.cli.views.screen import print_lines

REPEATED = ["inventory", "limit", "set"]
HOST = "the same as --limit"


@command(iterable=[*REPEATED, "host"], help={"host": HOST})
def facts(
    context: Any,
    *,
    host: Any = None,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    output: str | None = None,
) -> int:
    """Show what each host is: system, driver, GPU, memory, disk, login, rails; read-only.

    A host a column. One round trip a host, as its user, without sudo. --output json has all facts
    that sparkfleet decides by.

      {task:hosts.facts}
      {task:hosts.facts} --host spark-02 --output json
    """
    from sparkfleet.cli.hosts.facts import show_facts  # noqa: PLC0415 - Fabric: not for --list

    return show_facts(parse_options("hosts.facts", {**locals(), "limit": [*host, *limit]}))


@command(iterable=[*REPEATED, "host"], help={"host": HOST})
def check(  # noqa: PLR0913 - the options of a task
    context: Any,
    *,
    host: Any = None,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    output: str | None = None,
) -> int:
    """Check every host as `cluster.up` does before it moves a byte; read-only, needs no recipe.

    SSH, driver, GPU, engine and its group, ports, memory and what takes it, and what must be equal
    on all hosts: one line a verdict, with its fix. Ends with 2 if one refuses, with 4 if a host
    does not answer. A recipe that is named, here or in the inventory, counts for memory and engine.
    The links between the hosts are for `links.verify`.

      {task:hosts.check}
      {task:hosts.check} --host spark-02
    """
    from sparkfleet.cli.hosts.check import show_checks  # noqa: PLC0415 - Fabric: not for --list

    return show_checks(parse_options("hosts.check", {**locals(), "limit": [*host, *limit]}))


@command(
    iterable=[*REPEATED, "host", "tags", "skip_tags"],
    help={
        "host": HOST,
        "yes": "do it; without it everything is only shown",
        "tags": "only these changes: weights, linger, caches, docker",
        "skip-tags": "all changes but these",
    },
)
def prepare(  # noqa: PLR0913 - the options of a task
    context: Any,
    *,
    yes: bool = False,
    host: Any = None,
    tags: Any = None,
    skip_tags: Any = None,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    check: bool = False,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    ask_become_pass: bool = False,
    output: str | None = None,
    junit: str | None = None,
    verbose: bool = False,
) -> int:
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

    overrides = {"check": check or not yes, "diff": True, "limit": [*host, *limit]}
    options = parse_options("hosts.prepare", {**locals(), **overrides})
    code = run_playbook("hosts-prepare", options)
    if options.check and options.output == "text":
        print_lines("nothing was changed; to do it: --yes")
    return code
