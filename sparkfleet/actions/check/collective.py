"""`collective`: run a collective over all ranks in the engine that will serve, before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.check.links_gate import read_receipts
from sparkfleet.actions.deploy.launch_state import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.nccl_library import PRELOAD
from sparkfleet.launch.host.survey import Survey
from sparkfleet.links import receipt
from sparkfleet.links.bandwidth.collective import (
    BRIEF_LOAD,
    OPERATIONS,
    Collective,
    find_measurements,
    run_collectives,
)
from sparkfleet.links.bandwidth.collective_verdicts import judge_answers, judge_collective
from sparkfleet.links.bandwidth.perftest import select_bus_bandwidth
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.verdicts import downgrade_refusals, info

NETWORK = ("NCCL_", "GLOO_", "UCX_", PRELOAD)  # variables that a collective depends on
COVERS = "engine, environment, hardware or addresses"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveProof:
    """Results on one host; `receipt` is the text of a new receipt, or empty."""

    verdicts: tuple[Verdict, ...] = ()
    message: str = ""
    receipt: str = ""


class CheckCollective(Action[NoArgs]):
    """Run all_gather and all_reduce over all ranks, a few seconds, in the engine that will serve.

    A link can carry its full rate while NCCL does not. Measured if something starts, the GPUs are
    idle, and the receipt on the nodes does not cover this engine and these links any more.
    """

    name = "collective"
    requires = ("facts", "surveys", "launch")
    requires_in_group = ("fabric",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[CollectiveProof]:
        """Run the collective if it has to be measured."""
        if not run.launch.reason:
            proofs = {host.name: CollectiveProof() for host in hosts}
        else:
            proofs = _prove_collective(run, hosts)
        for rank in (run.state.collective or {}).values():
            rank.close()  # also where nothing was measured: its memory is the model's
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
    environments = {
        host.name: _select_network_variables(run.launch.environments[host.name]) for host in hosts
    }
    engines = {host.name: _describe_engine(run.launch.surveys[host.name]) for host in hosts}
    hash_ = receipt.hash_collective(
        receipt.hash_facts(run.fabric, run.facts, hosts), engines, environments
    )
    receipts = read_receipts(run, hosts, receipt.COLLECTIVE_FILE)
    lapse = receipt.explain_expiry(
        receipts, hash_, hosts, datetime.now(UTC), noun="collective receipt", covers=COVERS
    )
    if not lapse:
        dates = (known.at for known in receipts.values() if known)
        message = f"measured {min(dates):%Y-%m-%d %H:%M}"
        return {host.name: CollectiveProof(message=message) for host in hosts}
    if why := _explain_unmeasurable(run, hosts):
        return {
            host.name: CollectiveProof(
                verdicts=(_build_unmeasured_verdict(host, f"{lapse}; {why}"),)
            )
            for host in hosts
        }
    evidence = Evidence(
        fabric=run.fabric,
        facts=run.facts,
        hosts={host.name: host for host in hosts},
        environments=run.launch.environments,
    )
    return _measure_collective(run, evidence, hash_)


def _select_network_variables(
    environment: Mapping[str, str | None],
) -> Mapping[str, str | None]:
    return {name: value for name, value in environment.items() if name.startswith(NETWORK)}


def _describe_engine(survey: Survey) -> str:
    """Return a text that changes when the engine does."""
    if survey.image is not None:
        return survey.image.key
    packages = survey.probe.packages if survey.probe else {}
    return f"{sorted(packages.items())} {survey.nccl}"


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
        seen=f"not measured, the rates of the links decide: {why}",
        source=receipt.COLLECTIVE_FILE,
    )


def _measure_collective(
    run: RunContext, evidence: Evidence, hash_: str
) -> dict[str, CollectiveProof]:
    pythons = {host: _build_python_command(run, host) for host in evidence.hosts}
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


def _build_python_command(run: RunContext, host: str) -> tuple[str, ...]:
    """Return the command of the engine's Python; a library is preloaded by the loader only."""
    preload = run.launch.environments[host].get(PRELOAD)
    return run.launch.engines[host].idle_python({PRELOAD: preload} if preload else {})


def _summarize_collective(measured: Collective | None) -> str:
    if measured is None:
        return ""
    rates = ", ".join(
        f"{operation} {select_bus_bandwidth(rows):.3g} GB/s"
        for operation, rows in measured.rows.items()
    )
    by = f"NCCL {measured.nccl}" if measured.nccl else f"{measured.backend} on {measured.device}"
    return f"{rates} by {by}"
