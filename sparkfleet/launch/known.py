"""What an engine says about its vLLM: its version, its options, the variables that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.launch.engines import NATIVE, kind
from sparkfleet.launch.images.image import Probe, parse_probe
from sparkfleet.launch.survey import Survey
from sparkfleet.recipes.rules import Known
from sparkfleet.recipes.rules.releases import table
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link

PACKAGES = ("transformers", "flashinfer-python", "torch", "ray")


def ask_known(link: Link, settings: Settings, survey: Survey) -> Known:
    """Return what is known of the vLLM on one host; read-only.

    Of a release we have the lists. For any other the engine's own source is read, in 0.2 s. Of an
    image that nobody has looked into nothing is known.
    """
    if kind(settings) != NATIVE:
        probe = survey.image.probe if survey.image else None
        return known_of(probe)
    engine = survey.engine or {}
    version = str(engine.get("vllm") or "")
    if not version or table("options").covers(version):
        return Known(vllm=version, packages=_packages(engine))
    python = (f"{survey.expand(settings.needed('engine_venv'))}/bin/python",)
    return known_of(parse_probe(link.ask("probe", {}, python=python)))


def known_of(probe: Probe | None) -> Known:
    """Return what a look inside an image has found."""
    if probe is None:
        return Known()
    return Known(
        vllm=probe.packages.get("vllm", ""),
        packages=_packages(probe.packages),
        options=frozenset(probe.options),
        variables=frozenset(probe.variables),
    )


def _packages(found: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: str(found[name]) for name in PACKAGES if found.get(name)}
