"""`preflight`: check recipe and hosts before any data is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.builtin.become import find_sudo_password
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.launch.host.installed_vllm import inspect_installed_vllm
from sparkfleet.launch.preflight import page_cache
from sparkfleet.launch.preflight.preflight import check_engine_settings, check_hosts
from sparkfleet.model import Verdict
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightAnswer:
    """The installed vLLM of one host, and whether its page cache may be emptied."""

    vllm: ObservedFacts
    drop: Verdict | None


def _check_drop_permission(run: RunContext, connection: Connection) -> Verdict:
    return page_cache.check_drop_caches(connection, find_sudo_password(run, connection.host.name))


class Preflight(Action[NoArgs]):
    """Check the recipe's rules, then the facts: engine present and identical, ports free."""

    name = "preflight"
    needs_recipe = True
    requires = ("facts", "surveys")
    after = ("recover",)  # which frees the ports and the memory of an interrupted run
    provides = ("observed", "advice")
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> PreflightAnswer:
        """Read from one host what its settings require."""
        settings = run.settings(connection.host)
        survey = run.surveys[connection.host.name]
        return PreflightAnswer(
            vllm=inspect_installed_vllm(connection, settings, survey),
            drop=_check_drop_permission(run, connection) if settings.value("drop_caches") else None,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Return every host's verdicts, and the advice of the rules."""
        settings = {host.name: run.settings(host) for host in run.cluster.hosts}
        observed = {name: answer.vllm for name, answer in inspected.items()}
        rules = recipe_rules.judge_recipe_rules(run, observed)
        for host_settings in settings.values():
            check_engine_settings(host_settings)
        verdicts = (
            *check_hosts(
                run.facts,
                run.surveys,
                settings,
                nodes=run.options.nodes,
                copies=run.options.dp,
            ),
            *rules.verdicts,
            *(answer.drop for answer in inspected.values() if answer.drop),
        )
        return Planned(
            plans={
                name: Plan(verdicts=tuple(verdict for verdict in verdicts if verdict.host == name))
                for name in inspected
            },
            provided=RunState(observed=observed, advice=rules.advice),
        )
