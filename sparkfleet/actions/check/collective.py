"""`collective`: run a collective over all ranks in the engine that will serve, before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import Action, Plan, arg
from sparkfleet.actions.check.collective_evidence import (
    build_evidence,
    build_python_command,
    explain_collective_expiry,
    hash_evidence,
)
from sparkfleet.actions.check.links_gate import read_receipts
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import processes
from sparkfleet.links import receipt
from sparkfleet.links.bandwidth.collective import (
    BRIEF_LOAD,
    OPERATIONS,
    Collective,
    build_collective_requests,
    find_measurements,
    run_collectives,
)
from sparkfleet.links.bandwidth.collective_verdicts import judge_answers, judge_collective
from sparkfleet.links.bandwidth.perftest import select_bus_bandwidth
from sparkfleet.links.bandwidth.prepared_ranks import ask_ranks, close_ranks
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.verdicts import downgrade_refusals, info


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveProof:
    """Results on one host; `receipt` is the text of a new receipt, or empty."""

    verdicts: tuple[Verdict, ...] = ()
    message: str = ""
    receipt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveArgs:
    """The part of the measurement to do."""

    step: Literal["all", "begin", "end"] = arg(
        "begin: have the programs of prepare_collective measure while Ray starts; end: judge their "
        "results; all: measure and wait, as begin does where nothing was prepared",
        default="all",
    )


class CheckCollective(Action[CollectiveArgs]):
    """Run all_gather and all_reduce over all ranks, a few seconds, in the engine that will serve.

    A link can carry its full rate while NCCL does not. Measured if something starts, the GPUs are
    idle, and the receipt on the nodes does not cover this engine and these links any more.
    """

    name = "collective"
    requires = ("facts", "surveys", "launch")
    requires_in_group = ("fabric",)
    uses = ("cable_gbps", "collective")
    after = ("prepare_collective", "gpu_clock")
    args_type = CollectiveArgs
    order = ("step", ("begin", "end"))

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[CollectiveProof]:
        """Run the collective if it has to be measured."""
        step = self.args.step
        asked = any(rank.asked for rank in (run.state.collective or {}).values())
        if not run.launch.reason or (step == "end" and not asked):
            proofs = {host.name: CollectiveProof() for host in hosts}
        elif step == "begin" and _ask_prepared_ranks(run, hosts):
            begun = CollectiveProof(message="measured while the ranks start")
            return Answers(values={host.name: begun for host in hosts}, errors={})
        else:
            proofs = _prove_collective(run, hosts)
        close_ranks(run.state.collective or {})  # also unused: their memory is the model's
        return Answers(values=proofs, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Pass or fail each host; plan to write the receipt of new measurements."""
        passes = bool(run.options.allow_degraded)
        return {name: _plan_collective(proof, passes=passes) for name, proof in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write the receipt."""
        processes.write_files(
            connection, locate_files(run, connection.host), {receipt.COLLECTIVE_FILE: plan.work}
        )
        return plan


def _plan_collective(proof: CollectiveProof, *, passes: bool) -> Plan:
    return Plan(
        verdicts=downgrade_refusals(proof.verdicts) if passes else proof.verdicts,
        message=proof.message,
        skip=not (proof.verdicts or proof.message),
        work=proof.receipt or None,
    )


def _prove_collective(run: RunContext, hosts: tuple[Host, ...]) -> dict[str, CollectiveProof]:
    receipts = read_receipts(run, hosts, receipt.COLLECTIVE_FILE)
    hash_ = hash_evidence(run, hosts)
    expiry = explain_collective_expiry(receipts, hash_, hosts, run.now.date)
    if not expiry:
        dates = (known.at for known in receipts.values() if known)
        message = f"measured {min(dates):%Y-%m-%d %H:%M}"
        return {host.name: CollectiveProof(message=message) for host in hosts}
    if why := _explain_unmeasurable(run, hosts):
        return {
            host.name: CollectiveProof(
                verdicts=(_build_unmeasured_verdict(host, f"{expiry}; {why}"),)
            )
            for host in hosts
        }
    return _measure_collective(run, build_evidence(run, hosts), hash_)


def _ask_prepared_ranks(run: RunContext, hosts: tuple[Host, ...]) -> bool:
    """Let the prepared programs measure, without waiting; return whether they do."""
    prepared = run.state.collective
    receipts = read_receipts(run, hosts, receipt.COLLECTIVE_FILE)
    expiry = explain_collective_expiry(receipts, hash_evidence(run, hosts), hosts, run.now.date)
    if not prepared or not expiry or _explain_unmeasurable(run, hosts):
        return False
    pythons = {host.name: build_python_command(run, host.name) for host in hosts}
    requests = build_collective_requests(build_evidence(run, hosts), BRIEF_LOAD)
    return ask_ranks(prepared, pythons, requests)


def _explain_unmeasurable(run: RunContext, hosts: tuple[Host, ...]) -> str:
    """Return why no collective can run now; empty if one can."""
    if run.options.check:
        return "--check moves no data"
    for host in hosts:
        if run.launch.engines[host.name].own_program:
            return "the image serves with its own program"
        for process in run.facts[host.name].gpu_processes:
            return f"the GPU of {host.name} is in use by {process.name} (PID {process.pid})"
    if any(survey.running_summary for survey in run.surveys.values()):
        return "the running deployment would distort the measurement"
    return ""


def _build_unmeasured_verdict(host: Host, why: str) -> Verdict:
    return info(
        "link.collective",
        host.name,
        ", ".join(OPERATIONS),
        expected="a collective over all ranks in the engine that will serve",
        seen=f"no measurement, so only the rates of the links count: {why}",
        source=receipt.COLLECTIVE_FILE,
    )


def _measure_collective(
    run: RunContext, evidence: Evidence, hash_: str
) -> dict[str, CollectiveProof]:
    pythons = {host: build_python_command(run, host) for host in evidence.hosts}
    prepared = run.state.collective or {}
    answers = run_collectives(run.pool, evidence, pythons, BRIEF_LOAD, prepared=prepared)
    verdicts = tuple(judge_answers(evidence, answers))
    measured = find_measurements(answers, run.cluster.head.name)
    if measured is not None:
        verdicts += (judge_collective(evidence, measured, run.state.cable_gbps),)
    text = receipt.format_receipt(
        hash_,
        run.cluster.hosts,
        verdicts,
        at=run.now.date,
        collective=measured,
        degraded=run.options.allow_degraded,
    )
    return {
        host: CollectiveProof(
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == host),
            message=_summarize_collective(measured),
            receipt=text if measured else "",
        )
        for host in evidence.hosts
    }


def _summarize_collective(measured: Collective | None) -> str:
    if measured is None:
        return ""
    rates = ", ".join(
        f"{operation} {select_bus_bandwidth(rows):.3g} GB/s"
        for operation, rows in measured.rows.items()
    )
    by = f"NCCL {measured.nccl}" if measured.nccl else f"{measured.backend} on {measured.device}"
    return f"{rates} by {by}"
