"""The memory of a host, looked at and given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import Command, quote
from sparkfleet.errors import CommandError
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import show_memory
from sparkfleet.remote.link import Link
from sparkfleet.remote.sudo import Sudo, ask, run

PATIENCE = 6.0  # s; a driver frees what an ended process held within one
DROPPING = 180.0  # s; `sync` writes out what is dirty first
DROP = {"do": "drop"}
EMPTY = ("sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches")  # seed 5, section 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What came back after ranks ended, bytes: `held` by those on the GPU, `available` now."""

    held: int
    back: int
    available: int
    whole: bool
    waited: float

    def __str__(self) -> str:
        came = f"{show_memory(max(self.back, 0))} came back in {self.waited:.0f} s"
        return f"{show_memory(self.available)} available, {came}"


def look(link: Link) -> dict[str, Any]:
    """Return what is available now, and who holds what on the GPU, for `settle`."""
    return link.ask("memory", {"do": "look"})


def settle(link: Link, before: dict[str, Any]) -> Returned:
    """Wait, for a bounded time, until the memory of what ended since `before` is back."""
    request = {"do": "settle", "before": before, "patience": PATIENCE}
    answer = link.ask("memory", request)
    return Returned(
        held=answer["held"],
        back=answer["back"],
        available=answer["available"],
        whole=answer["whole"],
        waited=answer["waited"],
    )


def judge(host: str, returned: Returned) -> Verdict:
    """Return whether the memory is really back."""
    return Verdict(
        check="host.memory_back",
        severity=Severity.OK if returned.whole else Severity.WARNING,
        host=host,
        subject="memory",
        expected=f"the {show_memory(returned.held)} that the ranks held on the GPU",
        seen=str(returned),
        source="/proc/meminfo, nvidia-smi",
        fix="" if returned.whole else "who holds it? nvidia-smi; if nobody does, reboot that host",
    )


def may_drop(link: Link, password: str = "") -> Verdict:
    """Return whether the user of a host may empty its page cache, by `password` if it takes one."""
    result = link.run(Command(argv=("sudo", "-n", "-l", *EMPTY)))
    seen = "allowed" if result.returncode == 0 else result.stderr.strip() or "not allowed"
    if password and result.returncode:
        seen = _may_with(link, password)
    allowed = seen.startswith("allowed")
    ways = "hosts.prepare --tags caches; cluster.up --ask-become-pass; or drop_caches: false"
    return Verdict(
        check="host.drop_caches",
        severity=Severity.OK if allowed else Severity.ERROR,
        host=link.host.name,
        subject="drop_caches",
        expected=f"sudo without a password for: {quote(EMPTY)}",
        seen=seen,
        source="sudo -n -l",
        fix="" if allowed else ways,
    )


def _may_with(link: Link, password: str) -> str:
    try:
        run(link, Command(argv=("true",)), Sudo(user="root", password=password))
    except CommandError as error:
        return error.message
    return "allowed with the password"


def drop(link: Link, password: str = "") -> tuple[int, int]:
    """Empty the page cache of a host and return MemFree before and after, bytes.

    Its user may have a rule for that alone, so `password` is for a host where that does not do.
    Raises CommandError where its user may not.
    """
    try:
        answer = link.ask("memory", DROP, timeout=DROPPING)
    except CommandError as error:
        if password:
            sudo = Sudo(user="root", password=password)
            answer = ask(link, "memory", DROP, sudo=sudo, timeout=DROPPING)
            return answer["before"], answer["after"]
        raise CommandError(
            error.message,
            host=link.host.name,
            hint="--ask-become-pass, hosts.prepare --tags caches, or drop_caches: false",
        ) from error
    return answer["before"], answer["after"]
