"""Log lines of a start that a recipe expects or forbids; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sparkfleet.recipes.metadata import LogLines

SHOWN = 300  # characters of a line


def check_log_lines(
    logs: Mapping[str, str], patterns: LogLines, reasons: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each problem with its reason; `logs` are texts by host and role.

    An expected text must be in one log: under Ray the head's log has lines of all ranks. `reasons`
    are the recipe's reasons, by name.
    """
    for text in patterns.forbid:
        for name, log in logs.items():
            line = next((line for line in log.splitlines() if text in line), None)
            if line is not None:
                message = f"the log of {name} contains {text!r}, which the recipe forbids"
                yield (
                    message,
                    "\n".join(
                        filter(None, [line.strip()[:SHOWN], _find_log_reason(text, reasons)])
                    ),
                )
    for text in patterns.expect:
        if not any(text in log for log in logs.values()):
            searched = ", ".join(logs) or "none"
            message = f"no log contains {text!r}, which the recipe expects (searched: {searched})"
            yield message, _find_log_reason(text, reasons)


def _find_log_reason(text: str, reasons: Mapping[str, str]) -> str:
    """Return the reason of an option or variable in the text, else that of `log`."""
    plain = text.lower()
    named = (reasons[name] for name in reasons if re.sub("[-_]", " ", name.lower()) in plain)
    return next(named, reasons.get("log", ""))
