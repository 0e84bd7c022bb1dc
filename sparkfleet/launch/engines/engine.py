"""What every engine answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkfleet.links import EnvVar


class Engine(Protocol):
    """How the programs of one host's ranks are run there."""

    @property
    def environment(self) -> tuple[EnvVar, ...]:
        """Variables that the ranks need because of the engine."""

    @property
    def own_program(self) -> tuple[str, ...]:
        """What serves in the place of `vllm serve`, and is told what by its environment."""

    @property
    def context(self) -> Mapping[str, object]:
        """What the templates must know of it."""

    @property
    def files(self) -> Mapping[str, str]:
        """More files of the deployment, by their path in its folder."""

    def inside(self, path: str) -> str:
        """Return where the programs find what is at `path` of the host."""

    def program(self, name: str) -> str:
        """Return the word that starts `ray`, `vllm` or `python3`."""

    def wrap(self, role: str, argv: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words that a role's script execs to run `words`, with more variables set."""

    def python(self, role: str) -> tuple[str, ...]:
        """Return the words by which the engine's Python runs beside a role that runs."""
