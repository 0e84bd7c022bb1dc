"""What an engine says about its vLLM: its version, its options, the variables that it reads."""

from __future__ import annotations

from sparkfleet.launch.engines import NATIVE, kind
from sparkfleet.launch.images.image import Probe, parse_probe
from sparkfleet.launch.survey import Survey
from sparkfleet.recipes.rules import Known
from sparkfleet.recipes.rules.releases import table
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link


def ask_known(link: Link, settings: Settings, survey: Survey) -> Known:
    """Return what is known of the vLLM on one host; read-only.

    Of a release we have the lists. For any other engine of the host its source is read, in 0.2 s.
    Of an image that nobody has looked into nothing is known.
    """
    found = known_of(survey.probe)
    has_lists = found.options or table("options").covers(found.vllm)
    if kind(settings) != NATIVE or not found.vllm or has_lists:
        return found
    python = (f"{survey.expand(settings.needed('engine_venv'))}/bin/python",)
    return known_of(parse_probe(link.ask("probe", {}, python=python)))


def known_of(probe: Probe | None) -> Known:
    """Return what a look inside an engine has found."""
    if probe is None:
        return Known()
    return Known(
        vllm=probe.packages.get("vllm", ""),
        packages=probe.packages,
        options=frozenset(probe.options),
        variables=frozenset(probe.variables),
    )
