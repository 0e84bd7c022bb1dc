"""No container: vLLM and Ray from a Python environment of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.links import EnvVar


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeEngine:
    """The environment at `venv`, an absolute path.

    `modules` is a folder of the host for the code that models bring; "" leaves it in HF_HOME.
    """

    venv: str
    modules: str = ""

    @property
    def environment(self) -> tuple[EnvVar, ...]:
        """Where a model's code goes; the caches are where programs have them in the user's home."""
        if not self.modules:
            return ()
        why = "HF_HOME is one store for all hosts, who would write over each other's"
        return (EnvVar(name="HF_MODULES_CACHE", value=self.modules, why=why),)

    @property
    def own_program(self) -> tuple[str, ...]:
        """None: it is always `vllm serve`."""
        return ()

    @property
    def context(self) -> Mapping[str, object]:
        """What the templates must know: where the environment is."""
        return {"venv": self.venv, "cache": "", "mods": {}, "inside": ""}

    @property
    def files(self) -> Mapping[str, str]:
        """None beside those of every engine."""
        return {}

    def inside(self, path: str) -> str:
        """Return `path`: the programs see the host's files."""
        return path

    def program(self, name: str) -> str:
        """Return a program of the environment."""
        return f"{self.venv}/bin/{name}"

    def wrap(
        self,
        role: str,  # noqa: ARG002 - a process needs no name
        argv: Sequence[str],
        variables: Mapping[str, str],  # noqa: ARG002 - the script exports them
    ) -> tuple[str, ...]:
        """Return `words`."""
        return tuple(argv)

    def python(self, role: str) -> tuple[str, ...]:  # noqa: ARG002 - it needs no role to run
        """Return the environment's Python."""
        return (self.program("python"),)
