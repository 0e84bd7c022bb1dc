"""Engine of a host: native, docker or podman."""

from __future__ import annotations

from typing import Any

from sparkfleet.recipes.settings import Settings

NATIVE = "native"


def read_engine_kind(settings: Settings) -> str:
    """Return native, docker or podman."""
    return choose_engine_kind(settings.text("engine"), settings.text("engine_venv"))


def choose_engine_kind(engine: Any, venv: Any) -> str:
    """Return the engine as set; unset, a Python environment means native."""
    return str(engine or (NATIVE if venv else "docker"))
