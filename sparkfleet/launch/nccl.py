"""The host's own NCCL in the place of the engine's, on all ranks (case C28).

A build that the engine bundles has wedged pairs under load where the same version of DGX OS did not
(vllm#42354). torch links its NCCL, which a preload replaces; vLLM opens one by itself, which
VLLM_NCCL_SO_PATH names, and where an image has set that a preload alone changes nothing (failure
82). So both are set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.links import EnvVar
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link

NAME = "nccl_library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What one host has at its `nccl_library`: the SHA-256, or "" and why there is none."""

    digest: str
    why: str = ""


def look(link: Link, settings: Settings) -> Library | None:
    """Read the library on one host; None where none is asked for."""
    path = settings.text(NAME)
    if not path:
        return None
    answer = link.ask("digest", {"path": path})
    return Library(digest=answer["digest"], why=answer["why"])


def variables(settings: Settings, path: str) -> Iterator[EnvVar]:
    """Yield what makes every rank take it; `path` is where the ranks see it."""
    why = f"{NAME}, set at {settings.origin(NAME)}"
    yield EnvVar(name="LD_PRELOAD", value=path, why=f"{why}, for torch")
    yield EnvVar(name="VLLM_NCCL_SO_PATH", value=path, why=f"{why}, for vLLM itself")


def judge(found: Mapping[str, Library], settings: Mapping[str, Settings]) -> Iterator[Verdict]:
    """Yield verdicts on the libraries of all hosts: there, as declared, and one build on all."""
    if not found:
        return
    nothing = Library(digest="", why=f"{NAME} is not set on this host")
    digests = {name: one.digest for name, one in found.items() if one.digest}
    other, first = next(iter(digests.items()), ("", ""))
    for name, own in settings.items():
        declared = own.text(f"{NAME}_sha256").lower()
        digest = digests.get(name)
        if digest is None:
            why = found.get(name, nothing).why.lower()
            yield _verdict(own, expected="a file, as on the other hosts", seen=why)
        elif declared and digest != declared:
            yield _verdict(own, expected=f"sha256 {declared}", seen=digest)
        elif digest != first:
            yield _verdict(own, expected=f"sha256 {first}, as on {other}", seen=digest)
        else:
            yield _verdict(own, expected="one build on all hosts", seen=first, good=True)


def _verdict(settings: Settings, *, expected: str, seen: str, good: bool = False) -> Verdict:
    fix = "install the same package of NCCL on every host: dpkg -l 'libnccl*'"
    return Verdict(
        check="engine.nccl_library",
        severity=Severity.OK if good else Severity.ERROR,
        host=settings.host.name,
        subject=settings.text(NAME) or NAME,
        expected=expected,
        seen=seen,
        source=str(settings.origin(NAME)),
        fix="" if good else fix,
    )
