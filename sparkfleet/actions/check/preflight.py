"""`preflight`: everything about the hosts that can be known to be wrong before a byte is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.builtin.become import find_sudo_password
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.installed_vllm import inspect_installed_vllm
from sparkfleet.launch.preflight import page_cache
from sparkfleet.launch.preflight.preflight import check_engine_settings, check_hosts
from sparkfleet.model import Verdict
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightAnswer:
    """What one host told that its facts do not, where the settings make it worth asking.

    Of its vLLM, and whether its page cache may be emptied.
    """

    vllm: ObservedFacts
    drop: Verdict | None


def _check_drop_permission(run: RunContext, connection: Connection) -> Verdict:
    return page_cache.check_drop_caches(connection, find_sudo_password(run, connection.host.name))


class Preflight(Action[NoArgs]):
    """Judge the recipe by its rules, then the facts: engine there and equal, ports free."""

    name = "preflight"

    def inspect(self, run: RunContext, connection: Connection) -> PreflightAnswer:
        """Ask one host what the settings make worth asking."""
        settings = run.settings(connection.host)
        survey = run.recall(FleetFacts).surveys[connection.host.name]
        return PreflightAnswer(
            vllm=inspect_installed_vllm(connection, settings, survey),
            drop=_check_drop_permission(run, connection) if settings.value("drop_caches") else None,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Return every host's verdicts."""
        fleet = run.recall(FleetFacts)
        settings = {host.name: run.settings(host) for host in run.cluster.hosts}
        rules = recipe_rules.judge_recipe_rules(
            run, {name: answer.vllm for name, answer in inspected.items()}
        )
        for host_settings in settings.values():
            check_engine_settings(host_settings)
        verdicts = (
            *check_hosts(fleet.facts, fleet.surveys, settings, nodes=run.options.nodes),
            *rules,
            *(answer.drop for answer in inspected.values() if answer.drop),
        )
        return {
            name: Plan(verdicts=tuple(v for v in verdicts if v.host == name)) for name in inspected
        }
