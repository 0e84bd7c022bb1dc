"""Native engine: vLLM and Ray from a Python environment of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.links import EnvVar


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeEngine:
    """The environment at `venv`, an absolute path.

    `modules` is a folder of the host for Python code of models; "" leaves it in HF_HOME.
    """

    venv: str
    modules: str = ""

    @property
    def environment(self) -> tuple[EnvVar, ...]:
        """The folder for Python code of models; other caches stay at their defaults."""
        if not self.modules:
            return ()
        why = "HF_HOME is shared by all hosts; module cache stays local"
        return (EnvVar(name="HF_MODULES_CACHE", value=self.modules, why=why),)

    @property
    def own_program(self) -> tuple[str, ...]:
        """Always empty: the native engine runs `vllm serve`."""
        return ()

    @property
    def context(self) -> Mapping[str, object]:
        """Template variables: the path of the environment."""
        return {"venv": self.venv, "cache": "", "mods": {}, "inside": ""}

    @property
    def files(self) -> Mapping[str, str]:
        """No additional files."""
        return {}

    def inside(self, path: str) -> str:
        """Return `path`: programs see the host's files."""
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
        """Return `argv` unchanged."""
        return tuple(argv)

    def python(self, role: str) -> tuple[str, ...]:  # noqa: ARG002 - it needs no role to run
        """Return the environment's Python."""
        return (self.program("python"),)

    def idle_python(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the environment's Python with `variables`."""
        given = [f"{name}={value}" for name, value in variables.items()]
        return (*(["env", *given] if given else ()), self.program("python"))
