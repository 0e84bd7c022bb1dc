"""Answers of `systemctl` of systemd 252: what a machine with it and a lab host both say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.commandline import Done

NAME = "t.service"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{NAME}"
DENIED = "Interactive authentication required."
SEE = f"See system logs and 'systemctl status {NAME}' for details."
JOB = (
    f"Job for {NAME} failed because the control process exited with error code.\n"
    f'See "systemctl status {NAME}" and "journalctl -xeu {NAME}" for details.'
)
UNIT = """\
[Service]
Type=exec
ExecStart={program} 1000
Restart=always
RestartSec=100
[Install]
WantedBy=multi-user.target
"""
Run = Callable[[str, str], Done]  # of a user, a script

# whether root types it, the words, the exit status, and what is printed
UNKNOWN: Sequence[tuple[bool, str, int, str]] = (
    (True, "start", 5, f"Failed to start {NAME}: Unit {NAME} not found."),
    (True, "restart", 5, f"Failed to restart {NAME}: Unit {NAME} not found."),
    (True, "stop", 5, f"Failed to stop {NAME}: Unit {NAME} not loaded."),
    (True, "enable --now", 1, f"Failed to enable unit: Unit file {NAME} does not exist."),
    (True, "disable --now", 1, f"Failed to disable unit: Unit file {NAME} does not exist."),
    (True, "is-active", 3, "inactive"),
    (False, "is-active", 3, "inactive"),
    (False, "start", 1, f"Failed to start {NAME}: {DENIED}\n{SEE}"),
    (False, "stop", 1, f"Failed to stop {NAME}: {DENIED}\n{SEE}"),
    (False, "enable --now", 1, f"Failed to enable unit: {DENIED}"),
    (False, "disable --now", 1, f"Failed to disable unit: {DENIED}"),
)
KNOWN: Sequence[tuple[bool, str, int, str]] = (
    (True, "enable --now", 0, f"Created symlink {WANTED} → /etc/systemd/system/{NAME}."),
    (True, "enable --now", 0, ""),
    (False, "is-active", 0, "active"),
    (False, "restart", 1, f"Failed to restart {NAME}: {DENIED}\n{SEE}"),
    (True, "restart", 0, ""),
    (True, "stop", 0, ""),
    (True, "stop", 0, ""),
    (True, "is-active", 3, "inactive"),
    (True, "start", 0, ""),
    (True, "disable --now", 0, f'Removed "{WANTED}".'),
    (True, "is-active", 3, "inactive"),
    (True, "disable --now", 0, ""),
)
NOT_EXECUTABLE: Sequence[tuple[bool, str, int, str]] = (
    (True, "enable", 0, f"Created symlink {WANTED} → /etc/systemd/system/{NAME}."),
    (True, "restart", 1, JOB),
    (True, "is-active", 3, "activating"),
    (True, "stop", 0, ""),
    (True, "is-active", 3, "inactive"),
    (True, "disable", 0, f'Removed "{WANTED}".'),
)
PROGRAMS = (
    (None, UNKNOWN),
    ("/bin/sleep", KNOWN),
    ("/no/such/program", NOT_EXECUTABLE),
)


def check_answers(run: Run, user: str) -> None:
    """Run all commands as root and as an unprivileged user, and compare the output."""
    for program, rows in PROGRAMS:
        if program is not None:
            text = UNIT.format(program=program)
            write = f"cat >/etc/systemd/system/{NAME} <<'.'\n{text}.\nsystemctl daemon-reload"
            assert run("root", write).code == 0
        for is_root, words, code, output in rows:
            done = run("root" if is_root else user, f"systemctl {words} {NAME}")
            seen = (done.code, done.output.strip())
            assert seen == (code, output), f"{words}: {seen}"
    clear = f"rm /etc/systemd/system/{NAME} && systemctl daemon-reload"
    assert run("root", clear).code == 0
