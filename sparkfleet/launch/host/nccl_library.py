"""Use the host's own NCCL instead of the engine's on all ranks.

The NCCL build in an engine has hung pairs of hosts under load where the same version of DGX OS did
not (vllm-project/vllm#42354). torch links its NCCL, which a preload replaces; vLLM opens the
library that VLLM_NCCL_SO_PATH names, which an image may set. So both variables are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.links import EnvVar
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.verdicts import build_verdict

PRELOAD = "LD_PRELOAD"
NAME = "nccl_library"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLibrary:
    """The SHA-256 of a host's `nccl_library`, or "" and the reason why it cannot be read."""

    digest: str
    why: str = ""


def inspect_nccl_library(connection: Connection, settings: Settings) -> NcclLibrary | None:
    """Read the library on one host; None if `nccl_library` is unset."""
    path = settings.text(NAME)
    if not path:
        return None
    return connection.query(
        "host/digest",
        {"path": path},
        lambda answer: NcclLibrary(digest=str(answer["digest"]), why=str(answer["why"])),
    )


def build_preload_variables(settings: Settings, locate: Callable[[str], str]) -> Iterator[EnvVar]:
    """Yield the variables that make every rank use it, none if `nccl_library` is unset.

    `locate` returns a path of the host as the ranks see it.
    """
    if not settings.text(NAME):
        return
    path = locate(settings.text(NAME))
    why = f"{NAME}, set at {settings.origin(NAME)}"
    yield EnvVar(name=PRELOAD, value=path, why=f"{why}, for torch")
    yield EnvVar(name="VLLM_NCCL_SO_PATH", value=path, why=f"{why}, for vLLM itself")


def check_nccl_libraries(
    libraries: Mapping[str, NcclLibrary], settings: Mapping[str, Settings]
) -> Iterator[Verdict]:
    """Yield verdicts on the libraries of all hosts: present, as declared, and the same build."""
    if not libraries:
        return
    nothing = NcclLibrary(digest="", why=f"{NAME} is not set on this host")
    digests = {name: library.digest for name, library in libraries.items() if library.digest}
    reference, first = next(iter(digests.items()), ("", ""))
    for name, host_settings in settings.items():
        declared = host_settings.text(f"{NAME}_sha256").lower()
        digest = digests.get(name)
        if digest is None:
            why = libraries.get(name, nothing).why.lower()
            yield _nccl_library_verdict(
                host_settings, expected="a file, as on the other hosts", actual=why
            )
        elif declared and digest != declared:
            yield _nccl_library_verdict(host_settings, expected=f"sha256 {declared}", actual=digest)
        elif digest != first:
            yield _nccl_library_verdict(
                host_settings, expected=f"sha256 {first}, as on {reference}", actual=digest
            )
        else:
            yield _nccl_library_verdict(
                host_settings, expected="the same build on all hosts", actual=first, good=True
            )


def _nccl_library_verdict(
    settings: Settings, *, expected: str, actual: str, good: bool = False
) -> Verdict:
    fix = "install the same NCCL package on every host: dpkg -l 'libnccl*'"
    return build_verdict(
        Severity.OK if good else Severity.ERROR,
        "engine.nccl_library",
        settings.host.name,
        settings.text(NAME) or NAME,
        expected=expected,
        seen=actual,
        source=str(settings.origin(NAME)),
        fix="" if good else fix,
    )
