"""The commands of a newcomer on a terminal, from hosts as they come from the box to an answer.

`test_first_hour.py` tests it; `python -m tests.e2e.record_first_hour` records it for README.md.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST

CHECKOUT = Path(__file__).parents[2]
PROMPT = "ready> "
WIDTH = 100  # columns
# SSH reads the home of the user's account: the shell gets an empty one, without keys.
SHELL = """
mount -t tmpfs -o mode=0700 tmpfs ~/.ssh
sparkfleet() { "$PYTHON" -m sparkfleet "$@"; }
export -f sparkfleet
exec env PS1="$PROMPT" bash --norc --noprofile -i
"""


class Terminal:
    """A shell on a pseudo-terminal that a person types into."""

    def __init__(self, folder: Path, *, patience: float = LONGEST) -> None:
        self._patience = patience  # seconds, for one answer
        self._terminal, end = pty.openpty()
        self.output = ""
        self.events: list[tuple[float, str]] = []  # seconds since the start, and what was shown
        self._began = time.monotonic()
        (Path("~/.ssh").expanduser()).mkdir(mode=0o700, exist_ok=True)
        self._shell = subprocess.Popen(
            ["unshare", "--mount", "bash", "-ec", SHELL],
            stdin=end,
            stdout=end,
            stderr=end,
            cwd=folder,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHON": sys.executable,
                "PYTHONPATH": str(CHECKOUT),
                "XDG_STATE_HOME": str(folder / "state"),
                "PROMPT": PROMPT,
                "TERM": "dumb",
                "COLUMNS": str(WIDTH),
                "LINES": "30",  # a dumb terminal without both has 80 columns
            },
        )
        os.close(end)
        self.wait_for(PROMPT)

    def wait_for(self, mark: str) -> str:
        """Return what is shown up to `mark`, once it is there."""
        start = len(self.output)
        deadline = time.monotonic() + self._patience
        while mark not in self.output[start:]:
            wait = deadline - time.monotonic()
            assert select.select([self._terminal], [], [], max(wait, 0))[0], self.output[start:]
            try:
                text = os.read(self._terminal, 65536).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"the shell ended: {self.output[start:]}") from error
            self.output += text
            self.events.append((time.monotonic() - self._began, text))
        return self.output[start:]

    def type_line(self, text: str, until: str = PROMPT) -> str:
        """Type a line and return what is shown up to `until`."""
        os.write(self._terminal, f"{text}\n".encode())
        return self.wait_for(until)

    def close(self) -> None:
        os.close(self._terminal)  # as a window that is closed
        self._shell.wait()


def read_password(lab: LabFleet) -> str:
    """Return the password of the hosts of a bare lab."""
    assert lab.password is not None
    return lab.password.read_text().strip()


def authorize_new_key(
    lab: LabFleet, terminal: Terminal, until: str, mistakes: Sequence[str] = ("wrong",)
) -> None:
    """Accept the last host key, make a new key, and copy it, with wrong passwords first."""
    terminal.type_line("y", until="passphrase): ")
    terminal.type_line("", until="again: ")
    terminal.type_line("", until="password: ")
    for wrong in mistakes:
        terminal.type_line(wrong, until="password: ")  # ssh asks again
    terminal.type_line(read_password(lab), until=until)


def write_lab_variables(lab: LabFleet, path: Path) -> None:
    """Write what a lab host differs in: its engine is a folder, its memory this machine's."""
    names = ("engine", "guard_", "link_memlock", "link_expected_gbps", "weights_source")
    lines = [line.strip() for line in lab.inventory.read_text().splitlines()]
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in lines if line.startswith(names)))


def make_project(lab: LabFleet, terminal: Terminal, mistakes: Sequence[str] = ("wrong",)) -> None:
    """Type `init` and its answers."""
    first, second = (f"nvidia@{host.address}" for host in lab.hosts)
    terminal.type_line("sparkfleet init", until="the head: ")
    terminal.type_line(first, until="no more): ")
    terminal.type_line(second, until="no more): ")
    terminal.type_line("", until="]: ")
    terminal.type_line("lab-tiny", until="[y/N] ")  # the host key of the first
    terminal.type_line("y", until="[y/N] ")  # and of the second
    authorize_new_key(lab, terminal, until="password: ", mistakes=mistakes)  # of the second
    terminal.type_line(read_password(lab), until="[y/N] ")  # the files
    assert "wrote inventories/local.yml" in terminal.type_line("y")
