"""What an engine says about its vLLM: its version, its options, the variables that it reads."""

from __future__ import annotations

from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.image import Probe, parse_probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm.releases import load_release_table


def inspect_installed_vllm(
    connection: Connection, settings: Settings, survey: Survey
) -> ObservedFacts:
    """Return what is known of the vLLM on one host; read-only.

    Of a release we have the lists. For any other engine of the host its source is read, in 0.2 s.
    Of an image that nobody has looked into nothing is known.
    """
    installed = summarize_probe(survey.probe)
    has_lists = installed.options or load_release_table("options").covers(installed.vllm)
    if read_engine_kind(settings) != NATIVE or not installed.vllm or has_lists:
        return installed
    python = (f"{survey.expand(settings.needed('engine_venv'))}/bin/python",)
    return summarize_probe(
        parse_probe(connection.run_program("deployment/probe", {}, python=python))
    )


def summarize_probe(probe: Probe | None) -> ObservedFacts:
    """Return what a look inside an engine has found."""
    if probe is None:
        return ObservedFacts()
    return ObservedFacts(
        vllm=probe.packages.get("vllm", ""),
        packages=probe.packages,
        options=frozenset(probe.options),
        variables=frozenset(probe.variables),
    )
