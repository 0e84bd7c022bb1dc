"""The rules of recipes.validate, with what the hosts tell about their vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import RecipeError
from sparkfleet.fit.model import ModelProfile
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.rules import ObservedFacts, RuleResult, apply_rules, build_rule_context


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAdvice:
    """What the rules advise, to be told before a start."""

    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEngines:
    """What is known of the vLLM on every host, by name."""

    by_host: Mapping[str, ObservedFacts]


def judge_recipe_rules(
    run: RunContext, engines: Mapping[str, ObservedFacts]
) -> tuple[Verdict, ...]:
    """Return what the rules find, and remember their advice; raises RecipeError if they refuse.

    Of a host after the head only what is not the same there.
    """
    run.remember(HostEngines(by_host=engines))
    findings: dict[RuleResult, str] = {}
    for host in run.cluster.hosts:
        for finding in _judge_host_rules(run, host, engines[host.name]):
            findings.setdefault(finding, host.name)
    refusals = [finding.problem for finding in findings if finding.severity is Severity.ERROR]
    if refusals:
        raise RecipeError.of(refusals)
    advice = (finding for finding in findings if finding.severity is Severity.INFO)
    run.remember(
        RuleAdvice(
            texts=tuple(f"{finding.problem.message}; {finding.reason}" for finding in advice)
        )
    )
    return tuple(finding.verdict(name) for finding, name in findings.items())


def check_learned_rules(run: RunContext, host: Host, engine: ObservedFacts) -> tuple[Verdict, ...]:
    """Return what the rules find only now that an image was looked into."""
    return _added_verdicts(run, host, ObservedFacts(), engine)


def check_staged_rules(run: RunContext, model: ModelProfile) -> tuple[Verdict, ...]:
    """Return what the rules find on the head only now that its config.json was read."""
    engines, head, shape = run.found(HostEngines), run.cluster.head, model.shape
    if engines is None or shape is None:
        return ()
    before = engines.by_host[head.name]
    method = str(shape.quantization.get("quant_method") or "").lower()
    now = replace(before, format=method, architecture=shape.name or "", code=shape.code)
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
    return apply_rules(build_rule_context(run.recipe, settings, facts=engine, tp=run.options.tp))
