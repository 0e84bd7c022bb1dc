"""`memory_fit`: check that the model fits in every host's memory, before anything is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.check.further_models import find_draft_folder, read_adapter_configs
from sparkfleet.actions.check.other_clusters import read_other_needs
from sparkfleet.actions.run_context import RunContext
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.memory import evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.requirements import MemoryRequirements, estimate_requirements
from sparkfleet.fit.verdicts import build_fit_verdict, build_unknown_memory_verdict
from sparkfleet.launch.preflight.available_memory import (
    compute_available_memory,
    list_gpu_memory_users,
)
from sparkfleet.launch.preflight.running_clusters import ClusterNeed, check_shared_memory
from sparkfleet.model import EMPTY, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.weights.shapes import fetch_host_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class FitInspection:
    """The staged model, None if it need not start, and what other clusters run on its hosts.

    `adapters` are the texts of their configs by the paths that --lora-modules has.
    """

    model: ModelProfile | None = None
    adapters: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    others: tuple[ClusterNeed, ...] = ()


NOTHING_READ = FitInspection()


class MemoryFit(Action[NoArgs]):
    """Compare the model's memory needs with every host's memory; fail only if it cannot fit.

    Reads the staged config.json and tensor headers on the head. If the need cannot be estimated,
    says so and continues; memory of the cluster's own deployment counts as free. Other clusters of
    the inventory that run there count with all that they were started with. Reads nothing if the
    deployment already runs.
    """

    name = "memory_fit"
    requires = ("facts", "surveys", "weights", "launch")
    uses = ("observed",)
    inspects = True

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[FitInspection]:
        """Inspect the head, which has the same files as all others."""
        values = dict.fromkeys((host.name for host in hosts), NOTHING_READ)
        if not run.launch.reason:
            return Answers(values=values, errors={})
        others = read_other_needs(run)
        answers = run.pool.map(
            lambda connection: replace(self.inspect(run, connection), others=others),
            (run.cluster.head,),
        )
        return Answers(values={**values, **answers.values}, errors=answers.errors)

    def inspect(self, run: RunContext, connection: Connection) -> FitInspection:
        """Read the model, and a draft that is staged with it."""
        start_options = recipe_rules.read_start_options(run)
        answer = fetch_host_shape(connection, run.weights.paths[connection.host.name])
        draft = find_draft_folder(run, connection.host, start_options)
        draft_answer = fetch_host_shape(connection, draft) if draft else None
        return FitInspection(
            model=build_model_profile(answer, start_options, draft_answer),
            adapters=read_adapter_configs(run, connection, answer["files"]),
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Check every host's own memory, and the recipe's rules for the checkpoint."""
        seen: FitInspection = inspected[run.cluster.head.name]
        model = seen.model
        if model is None:
            return {name: Plan(message="already running as configured") for name in inspected}
        start_options = recipe_rules.read_start_options(run)
        requirement = estimate_requirements(model, start_options)
        plans = {
            name: _plan_memory_fit(run, name, requirement, start_options, others=seen.others)
            for name in inspected
        }
        head = run.cluster.head.name
        verdicts = (
            *plans[head].verdicts,
            *recipe_rules.check_staged_rules(run, model, seen.adapters),
        )
        return {**plans, head: replace(plans[head], verdicts=verdicts)}


def _plan_memory_fit(
    run: RunContext,
    name: str,
    requirement: MemoryRequirements,
    start_options: ServeOptions,
    *,
    others: Sequence[ClusterNeed],
) -> Plan:
    """Return the verdicts on one host: on this start, and on all clusters together."""
    facts = run.facts[name]
    survey = run.surveys[name]
    room = compute_available_memory(facts, survey, run.settings(run.cluster.find_host(name)))
    if room is None:
        return Plan(verdicts=(build_unknown_memory_verdict(name),))
    fit = evaluate_nodes(requirement, start_options, (room,))[name]
    users = tuple(list_gpu_memory_users(facts, survey))
    shared = check_shared_memory(run.cluster.name, room, fit.claim, others)
    return Plan(
        verdicts=(build_fit_verdict(fit, start_options, users), *shared), message=fit.sentence
    )
