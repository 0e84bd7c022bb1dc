"""`weights.*`: the models in `~/vllm` on every node, complete and verified."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.options import CHECK, HOSTS, LOCK, OUTPUT, RECIPE, RUN, Options
from sparkfleet.cli.weights.options import PruneOptions, VerifyOptions


@command("weights.stage", RUN, RECIPE, CHECK, LOCK)
def stage(options: Options) -> int:
    """Copy the recipe's model, drafts and files to every node, and verify each by hash.

    One node has or downloads the files; the others copy them over the fabric as they arrive. A
    run with everything in place sends 0 bytes. Runs playbooks/weights-stage.yml.

      {task:weights.stage}
      {task:weights.stage} --set weights_strategy=push
    """
    from sparkfleet.cli.playbook.run_playbook import run_playbook

    return run_playbook("weights-stage", options)


@command("weights.verify", HOSTS, RECIPE, OUTPUT)
def verify(options: VerifyOptions) -> int:
    """Check that every node has every file of the recipe; exits with 2 if not. Read-only."""
    from sparkfleet.cli.weights.verify import show_verdicts

    return show_verdicts(options)


@command("weights.plan", HOSTS, RECIPE, OUTPUT)
def plan(options: Options) -> int:
    """Show what each node lacks, where it would come from, and what is in the way. Read-only.

    Also shows a model that the Hub would refuse: no token, or a licence that was not accepted.
    """
    from sparkfleet.cli.weights.plan import show_plans

    return show_plans(options)


@command("weights.list", HOSTS, OUTPUT)
def show_list(options: Options) -> int:
    """Show the models on every node, with their sizes and whether sparkfleet staged them."""
    from sparkfleet.cli.weights.list import show_models

    return show_models(options)


@command("weights.prune", HOSTS)
def prune(options: PruneOptions) -> int:
    """Remove a model from every node: only files staged by sparkfleet, never a served model."""
    from sparkfleet.cli.weights.prune import prune_model

    return prune_model(options)
