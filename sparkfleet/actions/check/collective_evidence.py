"""The evidence of a collective: all that it depends on, and the receipt that covers it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.nccl_library import PRELOAD
from sparkfleet.launch.host.survey import Survey
from sparkfleet.links import receipt
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Host

NETWORK = ("NCCL_", "GLOO_", "UCX_", PRELOAD)  # variables that a collective depends on
COVERS = "engine, environment, hardware or addresses"


def hash_evidence(run: RunContext, hosts: tuple[Host, ...]) -> str:
    """Return a hash of the engine, the network variables and the links of all hosts."""
    environments = {
        host.name: _select_network_variables(run.launch.environments[host.name]) for host in hosts
    }
    engines = {host.name: _describe_engine(run.launch.surveys[host.name]) for host in hosts}
    links = receipt.hash_facts(run.fabric, run.facts, hosts)
    return receipt.hash_collective(links, engines, environments)


def explain_collective_expiry(
    receipts: Mapping[str, receipt.LinksReceipt | None],
    hash_: str,
    hosts: tuple[Host, ...],
    now: datetime,
) -> str:
    """Return why a collective has to be measured; empty while the receipts cover it."""
    return receipt.explain_expiry(
        receipts, hash_, hosts, now, noun="collective receipt", covers=COVERS
    )


def build_evidence(run: RunContext, hosts: tuple[Host, ...]) -> Evidence:
    """Return what the ranks of a collective need to know."""
    return Evidence(
        fabric=run.fabric,
        facts=run.facts,
        hosts={host.name: host for host in hosts},
        environments=run.launch.environments,
    )


def build_python_command(run: RunContext, host: str) -> tuple[str, ...]:
    """Return the command of the engine's Python; a library is preloaded by the loader only."""
    preload = run.launch.environments[host].get(PRELOAD)
    return run.launch.engines[host].idle_python({PRELOAD: preload} if preload else {})


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
