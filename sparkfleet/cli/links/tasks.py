"""`links.*`: the fabric that joins the Sparks: what it is, whether it holds, how fast it is."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options

REPEATED = ["inventory", "limit", "set"]


@command(iterable=REPEATED, help={"svg": "write a drawing of the cables to this file"})
def show(  # noqa: PLR0913 - the options of a task
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    svg: str | None = None,
    output: str | None = None,
) -> int:
    """Show the cable map: rails, addresses and who is at the other end; read-only.

    {task:links.show}
    {task:links.show} --svg cables.svg
    """
    from sparkfleet.cli.links.show import show_map  # noqa: PLC0415 - Fabric: not for --list

    return show_map(parse_options("links.show", locals()), svg)


@command(iterable=REPEATED)
def verify(  # noqa: PLR0913 - the options of a task
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    allow_degraded: str | None = None,
    verbose: bool = False,
    output: str | None = None,
) -> int:
    """Prove every link as `cluster.up` does before a start; ends with 2 if one is refused.

    Reads the facts of all hosts, then lets them call and ping each other. docs/links.md explains
    each verdict.
    """
    from sparkfleet.cli.links.show import verify_links  # noqa: PLC0415 - Fabric: not for --list

    return verify_links(parse_options("links.verify", locals()))


@command(
    iterable=REPEATED,
    help={
        "seconds": "how long each way is measured",
        "collective": "also time all_gather and all_reduce in the engine's environment",
        "svg": "write a plot of the rates to this file",
    },
)
def bench(  # noqa: PLR0913 - the options of a task
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    seconds: str | None = None,
    collective: bool = True,
    svg: str | None = None,
    output: str | None = None,
    verbose: bool = False,
) -> int:
    """Measure bandwidth and latency between every pair, and a collective over all of them.

    Takes the links for some seconds: not while the cluster serves. Every node keeps the numbers in
    links.json, so that `cluster.up` need not measure. Ends with 2 if a link is refused.

      {task:links.bench}
      {task:links.bench} --seconds 5 --svg rates.svg
      {task:links.bench} --no-collective
    """
    from sparkfleet.cli.links.bench import bench_links  # noqa: PLC0415 - Fabric: not for --list

    options = parse_options("links.bench", locals())
    return bench_links(options, seconds=seconds, collective=collective, svg=svg)
