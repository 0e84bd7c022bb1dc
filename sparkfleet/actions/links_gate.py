"""`links_gate`: no tensor parallelism over a link that was not proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.remote.pool import Answers


class LinksGate(Action[NoArgs]):
    """Prove every fabric link of the cluster, or refuse with the cause and the fix.

    `--allow-degraded "why"` turns refusals into warnings; the receipt keeps the reason.
    """

    name = "links_gate"

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[tuple[Verdict, ...]]:
        """Judge the facts of all hosts together, then what they can reach of each other."""
        fleet = scene.recall(Fleet)
        fabric = links.fabric(fleet.facts, hosts)
        scene.remember(fabric)
        verdicts = links.check(fabric, fleet.facts, hosts)
        if not any(verdict.refuses for verdict in verdicts):
            verdicts += links.probe(scene.pool, fabric, hosts)
        own = {host.name: tuple(v for v in verdicts if v.host == host.name) for host in hosts}
        return Answers(values=own, errors={})

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Refuse, or let pass, each host."""
        allowed = bool(scene.options.allow_degraded)
        return {name: _plan(verdicts, allowed=allowed) for name, verdicts in seen.items()}


def _plan(verdicts: tuple[Verdict, ...], *, allowed: bool) -> Plan:
    bad = sum(verdict.refuses for verdict in verdicts)
    text = f"{bad} of {len(verdicts)} checks refuse" if bad else f"{len(verdicts)} checks passed"
    if allowed:
        verdicts = tuple(_allowed(verdict) for verdict in verdicts)
    return Plan(verdicts=verdicts, message=text)


def _allowed(verdict: Verdict) -> Verdict:
    return replace(verdict, severity=Severity.WARNING) if verdict.refuses else verdict
