"""Engine of a host: native, docker or podman."""

from __future__ import annotations

from sparkfleet.recipes.settings import Settings

NATIVE = "native"


def read_engine_kind(settings: Settings) -> str:
    """Return native, docker or podman; unset, a Python environment means native."""
    return settings.text("engine") or (NATIVE if settings.text("engine_venv") else "docker")
