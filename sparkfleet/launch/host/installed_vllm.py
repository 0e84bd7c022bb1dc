"""The vLLM of an engine: its version, its options, and the variables that it reads."""

from __future__ import annotations

from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.image import Probe, parse_probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm.option_types import load_option_types
from sparkfleet.vllm.releases import parse_version


def inspect_installed_vllm(
    connection: Connection, settings: Settings, survey: Survey
) -> ObservedFacts:
    """Return the facts about vLLM on one host; read-only.

    The source of a native engine is read, in less than a second, but for the release of which all
    tables exist. An image that has not been inspected has no facts.
    """
    installed = summarize_probe(survey.probe)
    listed = str(parse_version(installed.vllm)) == load_option_types().release
    has_lists = installed.options or listed
    if read_engine_kind(settings) != NATIVE or not installed.vllm or has_lists:
        return installed
    python = (f"{survey.expand(settings.needed('engine_venv'))}/bin/python",)
    return summarize_probe(connection.query("deployment/probe", {}, parse_probe, python=python))


def summarize_probe(probe: Probe | None) -> ObservedFacts:
    """Return the facts in the result of inspecting an engine."""
    if probe is None:
        return ObservedFacts()
    return ObservedFacts(
        vllm=probe.packages.get("vllm", ""),
        packages=probe.packages,
        options=frozenset(probe.options),
        types=probe.types,
        values=probe.values,
        variables=frozenset(probe.variables),
    )
