"""Apply the rules of recipes.validate, and read options, with the vLLM that the hosts have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import RecipeError
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.launch.preflight.checkpoint_facts import (
    add_checkpoint_facts,
    add_file_facts,
)
from sparkfleet.model import EMPTY, Host, Severity, Verdict
from sparkfleet.recipes.rules import ObservedFacts, RuleResult, apply_rules, build_rule_context


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """Verdicts of the rules, and their advice for before a start."""

    verdicts: tuple[Verdict, ...]
    advice: tuple[str, ...]


def judge_recipe_rules(run: RunContext, observed: Mapping[str, ObservedFacts]) -> RuleReport:
    """Apply the rules for every host's vLLM; raises RecipeError with all rules that fail.

    A verdict that several hosts share is reported for the first of them.
    """
    findings: dict[RuleResult, str] = {}
    for host in run.cluster.hosts:
        for finding in _judge_host_rules(run, host, observed[host.name]):
            findings.setdefault(finding, host.name)
    refusals = [finding.problem for finding in findings if finding.severity is Severity.ERROR]
    if refusals:
        raise RecipeError.of(refusals)
    advice = (finding for finding in findings if finding.severity is Severity.INFO)
    return RuleReport(
        verdicts=tuple(finding.verdict(name) for finding, name in findings.items()),
        advice=tuple(f"{finding.problem.message}; {finding.reason}" for finding in advice),
    )


def read_start_options(run: RunContext) -> ServeOptions:
    """Return the head's options, with the vLLM that was found there or that its image names."""
    head = run.cluster.head
    settings = run.settings(head)
    observed = (run.state.observed or {}).get(head.name)
    return parse_serve_options(
        settings.vllm_options,
        tp=run.options.tp,
        pp=run.options.pp,
        environment=settings.mapping("vllm_env"),
        vllm=build_rule_context(run.recipe, settings, facts=observed).version,
    )


def check_learned_rules(run: RunContext, host: Host, engine: ObservedFacts) -> tuple[Verdict, ...]:
    """Return the verdicts that an inspected image adds."""
    return _added_verdicts(run, host, ObservedFacts(), engine)


def check_staged_rules(
    run: RunContext, model: ModelProfile, adapters: Mapping[str, str] = EMPTY
) -> tuple[Verdict, ...]:
    """Return the verdicts that the head's config.json, file names and adapters add."""
    observed = run.state.observed
    head = run.cluster.head
    if observed is None:
        return ()
    before = observed[head.name]
    models = run.state.weights.models if run.state.weights else ()
    files = frozenset(file.path for file in models[0].manifest.files) if models else None
    now = add_file_facts(before, files, adapters)
    if model.shape is not None:
        now = add_checkpoint_facts(now, model.shape, model.draft_shape)
    return _added_verdicts(run, head, before, now)


def _added_verdicts(
    run: RunContext, host: Host, before: ObservedFacts, now: ObservedFacts
) -> tuple[Verdict, ...]:
    earlier = set(_judge_host_rules(run, host, before))
    return tuple(
        finding.verdict(host.name)
        for finding in _judge_host_rules(run, host, now)
        if finding not in earlier
    )


def _judge_host_rules(run: RunContext, host: Host, engine: ObservedFacts) -> Iterator[RuleResult]:
    settings = run.settings(host)
    sizes = run.options
    return apply_rules(
        build_rule_context(
            run.recipe, settings, facts=engine, tp=sizes.tp, pp=sizes.pp, dp=sizes.dp
        )
    )
