"""The end of a boot: a shutdown, or a machine that went down; with texts as the tools print."""

from __future__ import annotations

import pytest

from sparkfleet.facts.last_shutdown import parse_last_shutdown

AT = 1796000000.25
WORK = f"{AT - 40:.6f} spark-01 kernel: audit: type=1400\n{AT:.6f} spark-01 CRON[901]: session\n"
CLEAN = (
    f"{AT - 1:.6f} spark-01 systemd-shutdown[1]: Syncing filesystems and block devices.\n"
    f"{AT:.6f} spark-01 systemd-journald[412]: Journal stopped\n"
)
BOOT = "reboot   system boot  6.14.0-1015-nvid Sun Nov 29 00:12:04 2026   still running\n"
DOWN = "shutdown system down  6.14.0-1015-nvid Sun Nov 29 00:11:01 2026 - 00:12:04  (00:01)\n"
END = "\nwtmp begins Sat Nov  1 10:00:00 2026\n"


@pytest.mark.parametrize(
    ("journal", "wtmp", "clean"),
    [
        (CLEAN, "", True),
        ("", BOOT + DOWN + END, True),
        (WORK, BOOT + DOWN + END, True),
        (WORK, BOOT + BOOT + END, False),
        (WORK, "", False),
        ("", BOOT + BOOT + END, False),
        ("", BOOT + END, None),
        ("", "", None),
        ("-- No entries --\n", "last: cannot open", None),
    ],
)
def test_a_shutdown_differs_from_a_machine_that_went_off(
    journal: str, wtmp: str, *, clean: bool | None
) -> None:
    assert parse_last_shutdown(journal, wtmp).clean is clean


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("systemd-logind[700]: Power key pressed short.", "the power button was pressed"),
        (
            "kernel: thermal thermal_zone0: acpitz: critical temperature reached",
            "its kernel reported a critical temperature",
        ),
        ("kernel: Kernel panic - not syncing: Fatal exception", "its kernel panicked"),
        ("kernel: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off", "its GPU reported an error"),
        ("kernel: audit: type=1400", ""),
    ],
)
def test_the_end_of_the_journal_has_the_cause(line: str, cause: str) -> None:
    found = parse_last_shutdown(f"{AT} spark-01 {line}\n", "")
    assert (found.at, found.cause) == (AT, cause)
    assert str(found).startswith("it went down at ")
    assert str(found).endswith(f": {cause}" if cause else str(found)[-8:])


def test_what_is_not_known_is_not_said() -> None:
    assert str(parse_last_shutdown("", "")) == ""
