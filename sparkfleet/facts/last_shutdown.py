"""The end of the boot before the present one: a shutdown, or a machine that went down; pure.

A clean end has a ``shutdown`` before the ``reboot`` in wtmp, and the journal's last lines are
systemd's. A machine that powers off from heat or for lack of power writes nothing at all:
https://access.redhat.com/articles/2642741,
https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/issues/31
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

LINE = re.compile(r"(\d+(?:\.\d+)?) \S+ (.+)")  # journalctl -o short-unix
CLEAN = re.compile(
    r"systemd-shutdown\[\d+\]: |systemd-journald\[\d+\]: Journal stopped"
    r"|systemd\[1\]: Reached target .*(?:Power.?Off|Reboot|Shutdown|Halt)"
)
CAUSES: Mapping[str, re.Pattern[str]] = {
    "the power button was pressed": re.compile(r"Power key pressed"),
    "its kernel reported a critical temperature": re.compile(r"critical temperature reached"),
    "its kernel panicked": re.compile(r"Kernel panic"),
    "its GPU reported an error": re.compile(r"NVRM: Xid.*"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LastShutdown:
    """The end of a boot: `clean` for a shutdown, None where nothing shows it.

    `at` is when its journal ends, in s since 1970, None if unknown; `cause` is "" if none is known.
    """

    clean: bool | None
    at: float | None = None
    cause: str = ""

    def __str__(self) -> str:
        if self.clean is None:
            return ""
        when = ""
        if self.at:
            when = time.strftime(" at %Y-%m-%d %H:%M:%S", time.localtime(self.at))
        cause = f": {self.cause}" if self.cause else ""
        return f"it was shut down{when}{cause}" if self.clean else f"it went down{when}{cause}"


def parse_last_shutdown(journal: str, wtmp: str) -> LastShutdown:
    """Return the end of the last boot, from the texts of `read_last_boot` on the host."""
    lines = [match for match in map(LINE.match, journal.splitlines()) if match]
    earlier = _list_records(wtmp)[1:]
    clean = None
    if lines or earlier:
        clean = any(CLEAN.search(line[2]) for line in lines) or earlier[:1] == ["shutdown"]
    found = (
        cause for cause, pattern in CAUSES.items() if any(pattern.search(line[2]) for line in lines)
    )
    return LastShutdown(
        clean=clean, at=float(lines[-1][1]) if lines else None, cause=next(found, "")
    )


def _list_records(wtmp: str) -> list[str]:
    """Return what was recorded, the newest first: ``reboot`` or ``shutdown``."""
    words = (line.split(" ", 1)[0] for line in wtmp.splitlines())
    return [word for word in words if word in ("reboot", "shutdown")]
