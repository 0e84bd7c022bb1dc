"""Checks of a host that need no recipe: login, driver, disk; pure."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts import HostFacts
from sparkfleet.model import Verdict
from sparkfleet.quantities import format_size
from sparkfleet.verdicts import ok


def check_machine(facts: HostFacts) -> Iterator[Verdict]:
    """Yield the login, the driver and the free disk space of a host."""
    system = facts.system
    disk = facts.disk
    login = f"user {system.user}, Python {system.python}"
    yield _passed_verdict(facts, "login", ("SSH", "a login with Python 3.8 or later"), login)
    if facts.driver:
        driver = f"{facts.driver}, kernel {system.kernel}"
        yield _passed_verdict(facts, "driver", ("NVIDIA driver", "a loaded driver"), driver)
    if disk:
        space = f"{format_size(disk.available)} of {format_size(disk.total)} free, at {disk.folder}"
        yield _passed_verdict(
            facts, "disk", ("weights_dir", "a disk with space for weights"), space
        )


def _passed_verdict(facts: HostFacts, name: str, what: tuple[str, str], value: str) -> Verdict:
    subject, expected = what
    return ok(f"host.{name}", facts.host, subject, expected=expected, seen=value)
