"""`prepare_collective`: start the programs of the collective while weights are staged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.check.links_gate import read_receipts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.nccl_library import PRELOAD, build_preload_variables
from sparkfleet.links import receipt
from sparkfleet.links.bandwidth.prepared_ranks import PreparedRank, close_ranks, prepare_rank
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers


class PrepareCollective(Action[NoArgs]):
    """Start each host's engine Python for `collective`, since importing torch takes seconds.

    Only where `collective` is sure to measure: nothing runs, and no receipt is current. The
    container of an image mounts files that are staged first, so `collective` itself starts its
    Python.
    """

    name = "prepare_collective"
    requires = ("facts", "surveys")
    updates = ("collective",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[PreparedRank | None]:
        """Start the programs and return without waiting for them."""
        if run.options.check or not _will_measure(run, hosts):
            return Answers(values={host.name: None for host in hosts}, errors={})
        pythons = {host.name: _build_python_command(run, host) for host in hosts}
        return run.pool.map(
            lambda connection: prepare_rank(connection, pythons[connection.host.name]), hosts
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Hand the programs to `collective`, unless a host has none."""
        ranks = {name: rank for name, rank in inspected.items() if rank is not None}
        if len(ranks) < len(inspected):
            close_ranks(ranks)
            return Planned(plans=dict.fromkeys(inspected, Plan(skip=True)))
        message = "importing torch while the next tasks run"
        return Planned(
            plans=dict.fromkeys(inspected, Plan(message=message)),
            provided=RunState(collective=ranks),
        )


def _will_measure(run: RunContext, hosts: tuple[Host, ...]) -> bool:
    receipts = read_receipts(run, hosts, receipt.COLLECTIVE_FILE)
    covered = next((known.facts for known in receipts.values() if known), "")
    return bool(receipt.explain_expiry(receipts, covered, hosts, run.now.date)) and all(
        _is_idle(run, host) for host in hosts
    )


def _is_idle(run: RunContext, host: Host) -> bool:
    """Return whether a host has an environment with torch, and nothing runs."""
    survey = run.surveys[host.name]
    native = read_engine_kind(run.settings(host)) == NATIVE and bool(survey.engine)
    busy = bool(survey.running_summary) or bool(run.facts[host.name].gpu_processes)
    return native and "torch" in (survey.engine or {}) and not busy


def _build_python_command(run: RunContext, host: Host) -> tuple[str, ...]:
    """Return the command that `collective` will build of the rendered deployment."""
    settings = run.settings(host)
    survey = run.surveys[host.name]
    engine = create_engine(
        settings, survey, run.facts[host.name], cluster=run.cluster.name, group=False
    )
    preload = build_preload_variables(settings, survey.expand)
    library = next((entry.value for entry in preload if entry.name == PRELOAD), None)
    return engine.idle_python({PRELOAD: library} if library else {})
