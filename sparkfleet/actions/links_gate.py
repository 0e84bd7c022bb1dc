"""`links_gate`: no tensor parallelism over a link that was not proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.links import Samples, receipt
from sparkfleet.links.verdicts import allowed, info
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What one host's part of the gate gave; `receipt` is the text of a new one, or empty."""

    verdicts: tuple[Verdict, ...]
    receipt: str = ""


class LinksGate(Action[NoArgs]):
    """Prove every fabric link of the cluster, or refuse with the cause and the fix.

    Rates are measured when the receipts on the nodes do not tell them any more, and nothing of the
    cluster runs. `--allow-degraded "why"` turns refusals into warnings; the receipt keeps the
    reason.
    """

    name = "links_gate"

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Proof]:
        """Judge the facts of all hosts together, what they reach of each other, and the rates."""
        facts = scene.recall(Fleet).facts
        fabric = links.fabric(facts, hosts)
        verdicts = links.prove(scene.pool, fabric, facts, hosts)
        hash_ = receipt.fingerprint(fabric, facts, hosts)
        lapse = _lapse(scene, hosts, hash_)
        text = ""
        if lapse and (why := _unmeasurable(scene, verdicts)):
            verdicts += tuple(_unmeasured(host, f"{lapse}; {why}") for host in hosts)
        elif lapse:
            samples = links.sample(scene.pool, fabric, hosts)
            verdicts += links.judge_rates(samples, hosts)
            text = _receipt(scene, hash_, verdicts, samples)
        own = {host.name: tuple(v for v in verdicts if v.host == host.name) for host in hosts}
        proofs = {name: Proof(verdicts=found, receipt=text) for name, found in own.items()}
        return Answers(values=proofs, errors={})

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Refuse, or let pass, each host; keep the receipt of what was measured."""
        passes = bool(scene.options.allow_degraded)
        return {name: _plan(proof, passes=passes) for name, proof in seen.items()}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Write the receipt."""
        processes.write_files(link, place(scene, link.host), {receipt.FILE: plan.work})
        return plan

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Let later tasks use the fabric, if it passed: nothing else starts over a link."""
        if not any(verdict.refuses for plan in plans.values() for verdict in plan.verdicts):
            facts = scene.recall(Fleet).facts
            scene.remember(links.fabric(facts, scene.cluster.hosts))


def _lapse(scene: Scene, hosts: tuple[Host, ...], hash_: str) -> str:
    """Return why the receipts on the hosts do not hold; empty while they do."""
    facts = scene.recall(Fleet).facts
    receipts = {}
    for host in hosts:
        path = receipt.path(scene.settings(host).cluster_dir, scene.cluster.name)
        receipts[host.name] = receipt.read(facts[host.name].read(path).text)
    return receipt.lapse(receipts, hash_, hosts, datetime.now(UTC))


def _unmeasurable(scene: Scene, verdicts: tuple[Verdict, ...]) -> str:
    """Return why rates cannot be told in this run; empty if they can."""
    if scene.options.check:
        return "--check moves no data"
    if any(verdict.refuses for verdict in verdicts) and not scene.options.allow_degraded:
        return "what refuses comes first"
    if any(survey.running for survey in scene.recall(Fleet).surveys.values()):
        return "the cluster runs and would be measured with it"
    return ""


def _unmeasured(host: Host, why: str) -> Verdict:
    return info(
        "link.receipt",
        host.name,
        "rates",
        expected="a receipt of the rates on every node",
        seen=f"not measured: {why}",
        source=receipt.FILE,
        fix="links.bench measures them",
    )


def _receipt(scene: Scene, hash_: str, verdicts: tuple[Verdict, ...], samples: Samples) -> str:
    return receipt.write(
        hash_, scene.cluster.hosts, verdicts, samples, degraded=scene.options.allow_degraded
    )


def _plan(proof: Proof, *, passes: bool) -> Plan:
    return Plan(
        verdicts=allowed(proof.verdicts) if passes else proof.verdicts,
        message=_message(proof.verdicts),
        work=proof.receipt or None,
    )


def _message(verdicts: tuple[Verdict, ...]) -> str:
    bad = sum(verdict.refuses for verdict in verdicts)
    if bad:
        return f"{bad} of {len(verdicts)} checks refuse"
    fast = (x for x in verdicts if x.check == "link.bandwidth" and x.severity is Severity.OK)
    return "; ".join([f"{len(verdicts)} checks passed", *(verdict.seen for verdict in fast)])
