"""The collective of `links.bench`: it runs in the Python of each host's engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.cli.links.session import FabricSession
from sparkfleet.command_name import name_command
from sparkfleet.errors import InventoryError
from sparkfleet.facts import HostFacts
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth.collective import (
    OPERATIONS,
    Collective,
    find_measurements,
    run_collectives,
)
from sparkfleet.links.bandwidth.collective_verdicts import judge_answers, judge_collective
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Cluster, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.verdicts import info


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePython:
    """The command that runs the engine's Python on a host, or why there is none."""

    command: tuple[str, ...] = ()
    missing: Verdict | None = None


def measure_collective(
    session: FabricSession, samples: Samples
) -> tuple[Collective | None, tuple[Verdict, ...]]:
    """Return the rates of a collective over all ranks, and the verdicts on them.

    None where it did not run; the verdicts then say why.
    """
    pythons = _find_engine_pythons(session.pool, session.cluster, session.facts)
    if lacking := tuple(python.missing for python in pythons.values() if python.missing):
        return None, lacking
    entries = {host.name: host for host in session.hosts}
    evidence = Evidence(fabric=session.fabric, facts=session.facts, hosts=entries)
    commands = {name: python.command for name, python in pythons.items()}
    answers = run_collectives(session.pool, evidence, commands)
    verdicts = tuple(judge_answers(evidence, answers))
    measured = find_measurements(answers, session.cluster.head.name)
    if measured is None:
        return None, verdicts
    cable_gbps = receipt.find_cable_rate(
        (rate.gbps, rate.why) for rate in samples.rates if rate.whole
    )
    return measured, (*verdicts, judge_collective(evidence, measured, cable_gbps))


def _find_engine_pythons(
    pool: ConnectionPool, cluster: Cluster, facts: Mapping[str, HostFacts]
) -> Mapping[str, EnginePython]:
    """Return the engine's Python of each host, from the inventory; one round trip."""
    surveys = pool.map(
        lambda connection: survey_host(connection, Settings(host=connection.host), cluster.name),
        cluster.hosts,
        repeatable=True,
    ).all()
    return {
        host.name: _find_engine_python(
            Settings(host=host), surveys[host.name], facts[host.name], cluster.name
        )
        for host in cluster.hosts
    }


def _find_engine_python(
    settings: Settings, survey: Survey, facts: HostFacts, cluster: str
) -> EnginePython:
    host = settings.host.name
    if read_engine_kind(settings) != NATIVE and survey.image is None:
        seen = "neither engine_image nor engine_venv set"
        fix = "set one of them"
        if name := settings.text("engine_image"):
            seen = f"{name} not found on the host"
            fix = f"to get it: {name_command('cluster.up')}"
        return EnginePython(missing=_report_missing_engine(host, seen, fix))
    try:
        engine = create_engine(settings, survey, facts, cluster=cluster, group=False)
    except InventoryError as error:
        return EnginePython(
            missing=_report_missing_engine(host, error.message, error.hint or "set engine_venv")
        )
    return EnginePython(command=engine.idle_python({}))


def _report_missing_engine(host: str, seen: str, fix: str) -> Verdict:
    return info(
        "link.collective",
        host,
        OPERATIONS[0],
        expected="an engine whose torch runs it",
        seen=seen,
        source="inventory",
        fix=f"{fix}; or skip the collective: --no-collective",
    )
