"""The failures of tests/reports: what public reports show, one block for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "reports"
_HEAD = re.compile(r"@ (?P<family>[\w.-]+) (?P<source>\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicReport:
    """A failure that a public report shows: the id of its signature, where it is, its lines."""

    family: str
    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.family} {self.source}"


@cache
def read_reports() -> tuple[PublicReport, ...]:
    """Return all reports, in the order of their files."""
    found: list[PublicReport] = []
    for path in sorted(FOLDER.glob("*.txt")):
        head: re.Match[str] | None = None
        lines: list[str] = []
        for line in [*path.read_text(encoding="utf-8").split("\n"), "@ end end"]:
            match = _HEAD.fullmatch(line)
            if match is None:
                lines.append(line)
                continue
            if head is not None:
                text = "\n".join(lines).strip("\n")
                report = PublicReport(family=head["family"], source=head["source"], text=text)
                found.append(report)
            head, lines = match, []
    return tuple(found)
