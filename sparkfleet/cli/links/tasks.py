"""`links.*`: the fabric that joins the Sparks: its cables, checks and measured rates."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.links.options import (
    AddressApplyOptions,
    AddressPlanOptions,
    ChangeOptions,
    LinkBenchOptions,
    LinkMapOptions,
)
from sparkfleet.cli.options import (
    BECOME,
    CHECK,
    DEGRADED,
    DIFF,
    FORKS,
    HOSTS,
    OUTPUT,
    RECIPE,
    VERBOSE,
    Options,
)


@command("links.show", HOSTS, RECIPE, FORKS, OUTPUT)
def show(options: LinkMapOptions) -> int:
    """Show the cable map: rails, addresses and who is at the other end; read-only.

    {task:links.show}
    {task:links.show} --svg cables.svg
    """
    from sparkfleet.cli.links.show import show_map

    return show_map(options)


@command("links.verify", HOSTS, RECIPE, FORKS, DEGRADED, VERBOSE, OUTPUT)
def verify(options: Options) -> int:
    """Check every link as `cluster.up` does before a start; exits with 2 if one is refused.

    Reads the facts of all hosts, then has them connect to and ping each other. docs/links.md
    explains each verdict.
    """
    from sparkfleet.cli.links.verify import verify_links

    return verify_links(options)


@command("links.bench", HOSTS, RECIPE, FORKS, VERBOSE, OUTPUT)
def bench(options: LinkBenchOptions) -> int:
    """Measure bandwidth and latency between every pair, and a collective over all of them.

    Saturates the links for some seconds, so not while the cluster serves. Every node keeps the
    numbers in links.json, so that `cluster.up` need not measure. Exits with 2 if a link is refused.

      {task:links.bench}
      {task:links.bench} --seconds 5 --svg rates.svg
      {task:links.bench} --no-collective
    """
    from sparkfleet.cli.links.bench import bench_links

    return bench_links(options)


@command("links.plan", HOSTS, FORKS, BECOME, OUTPUT)
def plan(options: AddressPlanOptions) -> int:
    """Show the addresses that the cabling needs, and the files to write; changes nothing.

    Each host pings all nodes on the wire of each rail, so a new pair needs no address. One subnet a
    rail and MTU 9000; an address that fits stays. Reads files of netplan and NetworkManager as
    root. Exits with 2 if the plan is refused, as for a subnet that a host uses for anything else.

      {task:links.plan}
      {task:links.plan} --subnet 10.100.0.0/24 --ask-become-pass
    """
    from sparkfleet.cli.links.plan import plan_links

    return plan_links(options)


@command("links.apply", HOSTS, FORKS, BECOME, CHECK, DIFF, VERBOSE, OUTPUT)
def apply(options: AddressApplyOptions) -> int:
    """Show the plan of links.plan, ask, and apply it; a host whose links fail reverts on its own.

    The change is tried first: it is kept only when each host answers at the address by which it is
    managed, and each peer on each rail with full-size frames. Otherwise, and where a host is lost,
    a timer on the host restores what was before. The network by which the hosts are reached is
    never changed. If a cluster is serving, it is named, and --yes also needs --while-serving. A
    second run changes nothing. Exits with 2 if the change was refused or not kept.

      {task:links.apply} --check
      {task:links.apply} --ask-become-pass
      {task:links.apply} --yes --revert-after 300
    """
    from sparkfleet.cli.links.apply import apply_links

    return apply_links(options)


@command("links.revert", HOSTS, FORKS, BECOME, CHECK)
def revert(options: ChangeOptions) -> int:
    """Restore files, addresses and MTUs from before the first links.apply; asks first.

    {task:links.revert} --check
    {task:links.revert} --yes
    """
    from sparkfleet.cli.links.restore import revert_links

    return revert_links(options)


@command("links.repair", HOSTS, FORKS, BECOME, CHECK)
def repair(options: ChangeOptions) -> int:
    """Repair GIDs that are missing or moved, by adding the address of their rail again.

    The index of a GID depends on the history of its interface; a missing one shows as ibv_modify_qp
    failing with "No data available". Asks first; the links go down for a moment, so not while the
    cluster serves.

      {task:links.repair} --check
      {task:links.repair} --yes
    """
    from sparkfleet.cli.links.restore import repair_links

    return repair_links(options)
