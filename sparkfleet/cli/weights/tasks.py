"""`weights.*`: the models in `~/vllm` on every node, complete and proven."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options

REPEATED = ["inventory", "limit", "set"]


@command(iterable=REPEATED)
def stage(  # noqa: PLR0913 - the options that choose a cluster and a recipe
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
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
    """Bring the recipe's model, drafts and files to every node, and prove each by hash.

    One node has or downloads them, the others take them from it over the fabric while they still
    arrive. A run with everything in place sends 0 bytes. It is playbooks/weights-stage.yml.

      {task:weights.stage}
      {task:weights.stage} --set weights_strategy=push
    """
    from sparkfleet.cli.run_playbook import run_playbook  # noqa: PLC0415 - Jinja, Fabric: not for --list

    return run_playbook("weights-stage", parse_options("weights.stage", locals()))


@command(iterable=REPEATED, help={"full": "hash every file again, also those known unchanged"})
def verify(
    context: Any,
    *,
    full: bool = False,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Prove that every node has every file of the recipe; exit 2 where one has not. Read-only."""
    from sparkfleet.cli.weights.inspect import show_verdicts  # noqa: PLC0415 - Fabric: not for --list

    return show_verdicts(parse_options("weights.verify", locals()), full=full)


@command(iterable=REPEATED)
def plan(
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Show what each node lacks, from where it would come, and what is in the way. Read-only.

    A model that the Hub would refuse is told here: no token, or a licence that was not accepted.
    """
    from sparkfleet.cli.weights.inspect import show_plans  # noqa: PLC0415 - Fabric: not for --list

    return show_plans(parse_options("weights.plan", locals()))


@command(name="list", iterable=REPEATED)
def listing(
    context: Any,
    *,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Show the models on every node, with their sizes and whose they are."""
    from sparkfleet.cli.weights.list import show_models  # noqa: PLC0415 - Fabric: not for --list

    return show_models(parse_options("weights.list", locals()))


@command(
    iterable=REPEATED,
    positional=["name"],
    help={"name": "a model as weights.list shows it", "yes": "remove it; else it is only shown"},
)
def prune(
    context: Any,
    name: str,
    *,
    yes: bool = False,
    inventory: Any = None,
    cluster: str | None = None,
    limit: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> int:
    """Remove a model from every node: only files that a run of ours brought, never what serves."""
    from sparkfleet.cli.weights.list import prune_model  # noqa: PLC0415 - Fabric: not for --list

    return prune_model(parse_options("weights.prune", locals()), name, yes=yes)
