"""Options of `weights.*`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.options import Options, flag, option


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(Options):
    """Options of `weights.verify`."""

    full: bool = flag("hash every file again, also those known to be unchanged")


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions(Options):
    """Options of `weights.prune`."""

    name: str = option(
        "a model as weights.list shows it", default="", positional=True, value="MODEL"
    )
    yes: bool = flag("remove the model; without --yes, its files are only shown")
