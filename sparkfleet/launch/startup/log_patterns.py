"""What a recipe wants of the logs of a start, and what it must not see there; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sparkfleet.recipes.metadata import LogLines

SHOWN = 300  # characters of a line


def check_log_lines(
    logs: Mapping[str, str], patterns: LogLines, reasons: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the reason; `logs` are texts by the host and role they are of.

    An expected text must be in one of them: under Ray the head's log tells of all ranks. `why` are
    the recipe's reasons, by name.
    """
    for text in patterns.forbid:
        for name, log in logs.items():
            line = next((line for line in log.splitlines() if text in line), None)
            if line is not None:
                message = f"the log of {name} has {text!r}, which the recipe forbids"
                yield (
                    message,
                    "\n".join(
                        filter(None, [line.strip()[:SHOWN], _find_log_reason(text, reasons)])
                    ),
                )
    for text in patterns.expect:
        if not any(text in log for log in logs.values()):
            searched = ", ".join(logs) or "none"
            message = f"no log has {text!r}, which the recipe expects (searched: {searched})"
            yield message, _find_log_reason(text, reasons)


def _find_log_reason(text: str, reasons: Mapping[str, str]) -> str:
    """Return the reason of an option or variable that the text names, else that of `log`."""
    plain = text.lower()
    named = (reasons[name] for name in reasons if re.sub("[-_]", " ", name.lower()) in plain)
    return next(named, reasons.get("log", ""))
