"""`cluster.*`: the main job, and what belongs to it."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options

REPEATED = ["inventory", "limit", "set"]


@command(iterable=REPEATED)
def up(  # noqa: PLR0913 - the options of the main job
    context: Any,
    *,
    tp: str | None = None,
    pp: str | None = None,
    executor: str | None = None,
    solo: bool = False,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    check: bool = False,
    diff: bool = False,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    lock_wait: str | None = None,
    ask_become_pass: bool = False,
    allow_degraded: str | None = None,
    output: str | None = None,
    junit: str | None = None,
    verbose: bool = False,
) -> int:
    """Bring the cluster up: from reachable Sparks to an endpoint that answered a smoke prompt.

    Checks hosts and links, stages the weights, starts Ray and vLLM, waits for every rank and asks
    a question with a known answer. A second run changes nothing. It is playbooks/cluster-up.yml.

      {task:cluster.up} --tp 2                   two Sparks, one model
      {task:cluster.up} --tp 2 --executor mp     the same, joined by vLLM itself instead of Ray
      {task:cluster.up} --tp 2 --pp 2            four Sparks: halves of the layers, halves of each
      {task:cluster.up} --solo                   one Spark, no fabric, no Ray
      {task:cluster.up} --tp 2 --check --diff    what would change
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    return run_playbook("cluster-up", parse_options("cluster.up", locals()))


@command(iterable=REPEATED, help={"out": "a folder that is new, empty, or of an earlier render"})
def render(  # noqa: PLR0913 - its options
    context: Any,
    *,
    out: str | None = None,
    tp: str | None = None,
    pp: str | None = None,
    executor: str | None = None,
    solo: bool = False,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
) -> int:
    """Write every file that would run on every host into a folder, for reading or by hand.

    Looks at the hosts for what the files depend on, and writes nothing there.

      {task:cluster.render} --tp 2 --recipe gpt-oss-120b --out rendered
    """
    from sparkfleet.cli.cluster.render import render_files  # noqa: PLC0415 - Fabric: not for --list

    return render_files(parse_options("cluster.render", locals()), out)


@command(iterable=REPEATED, help={"orphans": "also what an inventory had under another name"})
def down(  # noqa: PLR0913 - its options
    context: Any,
    *,
    orphans: bool = False,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    check: bool = False,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    lock_wait: str | None = None,
    output: str | None = None,
    junit: str | None = None,
    verbose: bool = False,
) -> int:
    """Stop what the cluster serves, on every host; only what carries its label, and verified.

    Stops all hosts of the inventory, also those that `cluster.up --tp N` left out. With --orphans
    also what carries our label there under the name of a cluster that the inventory does not have.
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    return run_playbook("cluster-down", parse_options("cluster.down", locals()))


@command(iterable=REPEATED)
def lock(
    context: Any,
    *,
    inventory: Any = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    lock_wait: str | None = None,
) -> int:
    """Hold the lock of the cluster until Ctrl-C, so that no run changes it meanwhile."""
    from sparkfleet.cli.cluster.lock import hold_lock  # noqa: PLC0415 - Fabric: not for --list

    return hold_lock(parse_options("cluster.lock", locals()))


@command(iterable=REPEATED, help={"force": "also when the holder is a process that runs here"})
def unlock(
    context: Any,
    *,
    force: bool = False,
    inventory: Any = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> int:
    """Free the lock of a run that is gone, say by a cut cable; shows who held it.

    A lock frees itself when its holder ends; a host whose cable was cut does not notice that.
    """
    from sparkfleet.cli.cluster.lock import unlock_cluster  # noqa: PLC0415 - Fabric: not for --list

    return unlock_cluster(parse_options("cluster.unlock", locals()), force=force)


@command(
    iterable=REPEATED,
    help={"watch": "again every two seconds, until Ctrl-C; with --output json a line each"},
)
def status(
    context: Any,
    *,
    watch: bool = False,
    output: str | None = None,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> int:
    """Show what runs on every host: roles, memory, GPU, Ray's nodes, the endpoint and its speed.

    A host that does not answer is shown as unknown, and the rest still answer.
    """
    from sparkfleet.cli.cluster.status import show_status  # noqa: PLC0415 - Fabric: not for --list

    return show_status(parse_options("cluster.status", locals()), watch=watch)


@command(
    iterable=REPEATED,
    help={
        "lines": "how many lines of each log; 40 if not given",
        "follow": "then every new line of every host, until Ctrl-C",
    },
)
def logs(
    context: Any,
    *,
    lines: str | None = None,
    follow: bool = False,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> int:
    """Show the end of every log of every host, and with --follow what is written from then on.

    {task:cluster.logs}
    {task:cluster.logs} --follow --limit spark-01
    """
    from sparkfleet.cli.cluster.logs import show_logs  # noqa: PLC0415 - Fabric: not for --list

    return show_logs(parse_options("cluster.logs", locals()), lines, follow=follow)
