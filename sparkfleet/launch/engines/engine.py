"""Interface of all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkfleet.links import EnvVar


class Engine(Protocol):
    """Runs the programs of the ranks on one host."""

    @property
    def environment(self) -> tuple[EnvVar, ...]:
        """Variables that the ranks need because of the engine."""

    @property
    def own_program(self) -> tuple[str, ...]:
        """Program that serves in place of `vllm serve`, configured by its environment."""

    @property
    def context(self) -> Mapping[str, object]:
        """Template variables of the engine."""

    @property
    def files(self) -> Mapping[str, str]:
        """Additional files of the deployment, by path in its folder."""

    def inside(self, path: str) -> str:
        """Return the path at which programs see host path `path`."""

    def program(self, name: str) -> str:
        """Return the path or name that starts `ray`, `vllm` or `python3`."""

    def wrap(self, role: str, argv: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command that a role's script execs to run `argv` with more variables."""

    def python(self, role: str) -> tuple[str, ...]:
        """Return the command that runs the engine's Python next to a running role."""

    def idle_python(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command that runs the engine's Python with `variables` while no role runs."""
