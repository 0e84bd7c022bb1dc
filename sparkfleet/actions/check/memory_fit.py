"""`memory_fit`: whether the model fits in the memory of every host, before anything is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.deploy.launch_state import LaunchState
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.stage.stage_weights import Staged, Stocks
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.memory import evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.fit.requirements import MemoryRequirements, estimate_requirements
from sparkfleet.fit.verdicts import build_fit_verdict
from sparkfleet.launch.preflight.available_memory import (
    compute_available_memory,
    list_gpu_memory_users,
)
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.verdicts import info
from sparkfleet.weights import layout
from sparkfleet.weights.shapes import fetch_host_shape


class MemoryFit(Action[NoArgs]):
    """Compare what the model takes with what every host has: refuses only what cannot fit.

    Reads the staged config.json and the headers of the tensors on the head. Where something cannot
    be told, it says so and goes on; what our own deployment holds counts as free. What already runs
    as wanted fits: nothing is read then.
    """

    name = "memory_fit"

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[ModelProfile | None]:
        """Ask the head, which has the same files as all others."""
        head = (run.cluster.head,) if run.recall(LaunchState).reason else ()
        answers = run.pool.map(lambda connection: self.inspect(run, connection), head)
        values = dict.fromkeys((host.name for host in hosts), None) | dict(answers.values)
        return Answers(values=values, errors=answers.errors)

    def inspect(self, run: RunContext, connection: Connection) -> ModelProfile:
        """Look at the model, and at a draft that is staged beside it."""
        start_options = _read_start_options(run)
        answer = fetch_host_shape(connection, run.recall(Staged).paths[connection.host.name])
        draft = _find_draft_folder(run, connection.host, start_options)
        return build_model_profile(
            answer, start_options, fetch_host_shape(connection, draft) if draft else None
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Judge every host by its own memory, and the recipe by what the checkpoint is."""
        model = inspected[run.cluster.head.name]
        if model is None:
            return {name: Plan(message="runs as wanted") for name in inspected}
        start_options = _read_start_options(run)
        requirement = estimate_requirements(model, start_options)
        plans = {
            name: _plan_memory_fit(run, name, requirement, start_options) for name in inspected
        }
        head = run.cluster.head.name
        verdicts = (*plans[head].verdicts, *recipe_rules.check_staged_rules(run, model))
        return {**plans, head: replace(plans[head], verdicts=verdicts)}


def _read_start_options(run: RunContext) -> ServeOptions:
    settings = run.settings(run.cluster.head)
    return parse_serve_options(settings.vllm_options, tp=run.options.tp, pp=run.options.pp)


def _find_draft_folder(run: RunContext, host: Host, start_options: ServeOptions) -> str | None:
    """Return where a draft model of the recipe's `weights_drafts` is staged on `host`."""
    if start_options.speculation is None or start_options.speculation.model is None:
        return None
    root = run.settings(host).text("weights_dir")
    for stock in run.recall(Stocks).stocks[1:]:
        if stock.manifest.name == start_options.speculation.model:
            return f"{root}/{layout.served_folder(stock.manifest)}"
    return None


def _plan_memory_fit(
    run: RunContext, name: str, requirement: MemoryRequirements, start_options: ServeOptions
) -> Plan:
    fleet = run.recall(FleetFacts)
    facts, survey = fleet.facts[name], fleet.surveys[name]
    available = compute_available_memory(facts, survey, run.settings(_find_fit_host(run, name)))
    if available is None:
        return Plan(verdicts=(_unknown_memory_verdict(name),))
    fit = evaluate_nodes(requirement, start_options, (available,))[name]
    fit_verdict = build_fit_verdict(fit, start_options, tuple(list_gpu_memory_users(facts, survey)))
    return Plan(verdicts=(fit_verdict,), message=fit.sentence)


def _find_fit_host(run: RunContext, name: str) -> Host:
    return next(host for host in run.cluster.hosts if host.name == name)


def _unknown_memory_verdict(name: str) -> Verdict:
    return info(
        "memory.fit",
        name,
        "memory",
        expected="MemTotal and MemAvailable",
        seen="nothing: cannot tell whether the model fits",
        source="/proc/meminfo",
    )
