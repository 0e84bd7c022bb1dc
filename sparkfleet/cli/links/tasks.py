"""`links.*`: the fabric that joins the Sparks: its cables, checks and measured rates."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.links.options import LinkBenchOptions, LinkMapOptions
from sparkfleet.cli.options import DEGRADED, FORKS, HOSTS, OUTPUT, RECIPE, VERBOSE, Options


@command("links.show", HOSTS, RECIPE, FORKS, OUTPUT)
def show(options: LinkMapOptions) -> int:
    """Show the cable map: rails, addresses and who is at the other end; read-only.

    {task:links.show}
    {task:links.show} --svg cables.svg
    """
    from sparkfleet.cli.links.show import show_map  # noqa: PLC0415 - Fabric: not for --list

    return show_map(options)


@command("links.verify", HOSTS, RECIPE, FORKS, DEGRADED, VERBOSE, OUTPUT)
def verify(options: Options) -> int:
    """Check every link as `cluster.up` does before a start; exits with 2 if one is refused.

    Reads the facts of all hosts, then lets them call and ping each other. docs/links.md explains
    each verdict.
    """
    from sparkfleet.cli.links.show import verify_links  # noqa: PLC0415 - Fabric: not for --list

    return verify_links(options)


@command("links.bench", HOSTS, RECIPE, FORKS, VERBOSE, OUTPUT)
def bench(options: LinkBenchOptions) -> int:
    """Measure bandwidth and latency between every pair, and a collective over all of them.

    Takes the links for some seconds: not while the cluster serves. Every node keeps the numbers in
    links.json, so that `cluster.up` need not measure. Exits with 2 if a link is refused.

      {task:links.bench}
      {task:links.bench} --seconds 5 --svg rates.svg
      {task:links.bench} --no-collective
    """
    from sparkfleet.cli.links.bench import bench_links  # noqa: PLC0415 - Fabric: not for --list

    return bench_links(options)
