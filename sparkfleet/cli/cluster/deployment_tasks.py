"""`cluster.switch` and `cluster.drift`: another deployment, and how this one differs."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options

REPEATED = ["inventory", "limit", "set"]


@command(iterable=REPEATED, positional=["recipe"], help={"recipe": "what to serve instead"})
def switch(  # noqa: PLR0913 - the options of the main job
    context: Any,
    recipe: str,
    *,
    tp: str | None = None,
    pp: str | None = None,
    executor: str | None = None,
    solo: bool = False,
    inventory: Any = None,
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
    """Serve another recipe: stage and check it while the old one serves, then swap.

    If the new one fails, the old one comes back. Compiled kernels are kept. It is cluster.up with
    that recipe; without --tp, --pp or --solo it takes every Spark of the cluster.

      {task:cluster.switch} qwen3.6-27b-nvfp4
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    options = dict(locals())
    _default_to_whole_cluster(options)
    return run_playbook("cluster-up", parse_options("cluster.switch", options))


@command(iterable=REPEATED)
def drift(  # noqa: PLR0913 - its options
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
    diff: bool = False,
    set: Any = None,  # noqa: A002 - the option's name
    forks: str | None = None,
    output: str | None = None,
    junit: str | None = None,
    verbose: bool = False,
) -> int:
    """Tell each difference between what runs and what the inventory renders to; writes nothing.

    Exit code 2 if there is any. Give it the options that `cluster.up` was given; without --tp, --pp
    or --solo it takes every Spark of the cluster. --diff shows the differences of files.
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    options = {**locals(), "check": True, "allow_degraded": "cluster.drift only looks"}
    _default_to_whole_cluster(options)
    return run_playbook("cluster-drift", parse_options("cluster.drift", options))


def _default_to_whole_cluster(options: dict[str, Any]) -> None:
    """Let the whole cluster count where no size was given."""
    if not any(options[name] for name in ("tp", "pp", "solo")):
        del options["tp"]
