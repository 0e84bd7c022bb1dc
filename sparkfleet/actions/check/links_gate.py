"""`links_gate`: allow tensor parallelism only over verified links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.command_name import name_command
from sparkfleet.launch.host import processes
from sparkfleet.links import Samples, receipt
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.plurals import format_plural
from sparkfleet.verdicts import downgrade_refusals, info


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksProof:
    """Results of the gate on one host; `receipt` is the text of a new receipt, or empty.

    `cable_gbps` is what the slowest cable carried, now or when the valid receipt was written, Gb/s.
    """

    verdicts: tuple[Verdict, ...]
    receipt: str = ""
    cable_gbps: float | None = None


class LinksGate(Action[NoArgs]):
    """Verify every fabric link of the cluster, or fail with the cause and the fix.

    Rates are measured if the receipts on the nodes are no longer valid and the cluster is not
    running. `--allow-degraded "why"` turns failures into warnings; the receipt keeps the reason.
    """

    name = "links_gate"
    requires = ("facts", "surveys")
    uses = ("clocks",)
    after = ("recover",)  # rates are measured on idle GPUs
    provides = ("fabric",)
    updates = ("cable_gbps",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[LinksProof]:
        """Check the facts of all hosts together, their reachability, and the rates."""
        facts = run.facts
        fabric = links.select_fabric(facts, hosts)
        verdicts = links.run_gate(run.pool, fabric, facts, hosts, copies=run.options.dp)
        hash_ = receipt.hash_facts(fabric, facts, hosts)
        receipts = read_receipts(run, hosts)
        expiry = receipt.explain_expiry(receipts, hash_, hosts, run.now.date)
        text = ""
        cable_gbps = None
        if expiry and (why := _explain_unmeasurable(run, verdicts)):
            verdicts += tuple(_unmeasured_verdict(host, f"{expiry}; {why}") for host in hosts)
        elif expiry:
            for clock in (run.state.clocks or {}).values():
                clock.wait()  # the load of a GPU takes bandwidth of the memory
            samples = links.sample_rates(run.pool, fabric, hosts)
            verdicts += links.judge_rates(samples, hosts)
            text = _format_receipt(run, hash_, verdicts, samples)
            cable_gbps = receipt.find_cable_rate(
                (rate.gbps, rate.why) for rate in samples.rates if rate.whole
            )
        elif (first := receipts[hosts[0].name]) is not None:
            cable_gbps = first.cable_gbps
        by_host = {host.name: tuple(v for v in verdicts if v.host == host.name) for host in hosts}
        proofs = {
            name: LinksProof(verdicts=host_verdicts, receipt=text, cable_gbps=cable_gbps)
            for name, host_verdicts in by_host.items()
        }
        return Answers(values=proofs, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Pass or fail each host; plan to write the receipt of new measurements."""
        passes = bool(run.options.allow_degraded)
        return {name: _plan_links(proof, passes=passes) for name, proof in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write the receipt."""
        processes.write_files(
            connection, locate_files(run, connection.host), {receipt.FILE: plan.work}
        )
        return plan

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Provide the fabric to later tasks, if it passed."""
        if any(verdict.refuses for plan in plans.values() for verdict in plan.verdicts):
            return NOTHING
        cable_gbps = next((plan.data.get("cable_gbps") for plan in plans.values()), None)
        return RunState(
            fabric=links.select_fabric(run.facts, run.cluster.hosts), cable_gbps=cable_gbps
        )


def find_measured_rate(run: RunContext, fabric: links.Fabric | None) -> float | None:
    """Return what the slowest cable carried, in Gb/s, by this run's gate or a valid receipt."""
    if run.state.cable_gbps or fabric is None:
        return run.state.cable_gbps
    hosts = run.cluster.hosts
    receipts = read_receipts(run, hosts)
    hash_ = receipt.hash_facts(fabric, run.facts, hosts)
    expiry = receipt.explain_expiry(receipts, hash_, hosts, run.now.date)
    first = receipts[hosts[0].name]
    return None if expiry or first is None else first.cable_gbps


def read_receipts(
    run: RunContext, hosts: tuple[Host, ...], file: str = receipt.FILE
) -> dict[str, receipt.LinksReceipt | None]:
    """Return the receipts that came with the facts, by host; None where none is valid."""
    receipts = {}
    for host in hosts:
        path = receipt.build_receipt_path(run.settings(host).cluster_dir, run.cluster.name, file)
        receipts[host.name] = receipt.parse_receipt(run.facts[host.name].read(path).text)
    return receipts


def _explain_unmeasurable(run: RunContext, verdicts: tuple[Verdict, ...]) -> str:
    """Return why rates cannot be measured in this run; empty if they can."""
    if run.options.check:
        return "--check moves no data"
    if any(verdict.refuses for verdict in verdicts) and not run.options.allow_degraded:
        return "fix the failed checks first"
    if any(survey.running_summary for survey in run.surveys.values()):
        return "the running deployment would distort the measurement"
    return ""


def _unmeasured_verdict(host: Host, why: str) -> Verdict:
    return info(
        "link.receipt",
        host.name,
        "rates",
        expected="a valid receipt of the rates on every node",
        seen=f"rates not measured: {why}",
        source=receipt.FILE,
        fix=f"measure them: {name_command('links.bench')}",
    )


def _format_receipt(
    run: RunContext, hash_: str, verdicts: tuple[Verdict, ...], samples: Samples
) -> str:
    return receipt.format_receipt(
        hash_,
        run.cluster.hosts,
        verdicts,
        samples,
        at=run.now.date,
        degraded=run.options.allow_degraded,
    )


def _plan_links(proof: LinksProof, *, passes: bool) -> Plan:
    return Plan(
        verdicts=downgrade_refusals(proof.verdicts) if passes else proof.verdicts,
        message=_summarize_checks(proof.verdicts),
        work=proof.receipt or None,
        data={"cable_gbps": proof.cable_gbps},
    )


def _summarize_checks(verdicts: tuple[Verdict, ...]) -> str:
    bad = sum(verdict.refuses for verdict in verdicts)
    if bad:
        return f"{bad} of {len(verdicts)} checks failed"
    fast = (
        rate for rate in verdicts if rate.check == "link.bandwidth" and rate.severity is Severity.OK
    )
    return "; ".join(
        [f"{format_plural(len(verdicts), 'check')} passed", *(verdict.seen for verdict in fast)]
    )
