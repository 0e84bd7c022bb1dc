"""The end of the boot before this one, as the journal and wtmp of this host have it.

https://man7.org/linux/man-pages/man1/journalctl.1.html, https://man7.org/linux/man-pages/man1/last.1.html
"""

from __future__ import annotations

from sparkfleet.onhost.shared.vitals import run_tool

JOURNAL = ("journalctl", "-b", "-1", "-n", "60", "-o", "short-unix", "--no-pager", "-q")
WTMP = ("last", "-Fxn2", "shutdown", "reboot")


def read_last_boot(patience: float) -> dict[str, str]:
    """Return the end of that boot's ``journal``, and ``wtmp``; "" where a tool lists none."""
    return {
        "journal": run_tool(*JOURNAL, patience=patience).text or "",
        "wtmp": run_tool(*WTMP, patience=patience).text or "",
    }
