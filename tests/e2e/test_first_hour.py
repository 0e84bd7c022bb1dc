"""From hosts as they come from the box to an answer: three commands on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, chat

pytestmark = [pytest.mark.fleet, pytest.mark.e2e, pytest.mark.timeout(LONGEST)]

CHECKOUT = Path(__file__).parents[2]
PROMPT = "ready> "
# SSH reads the home of the user's account: the shell gets an empty one, without keys.
SHELL = """
mount -t tmpfs -o mode=0700 tmpfs ~/.ssh
sparkfleet() { "$PYTHON" -m sparkfleet "$@"; }
export -f sparkfleet
exec env PS1="$PROMPT" bash --norc --noprofile -i
"""


class Terminal:
    """A shell on a pseudo-terminal that a person types into."""

    def __init__(self, folder: Path) -> None:
        self._terminal, end = pty.openpty()
        self.output = ""
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
                "COLUMNS": "100",
            },
        )
        os.close(end)
        self.wait_for(PROMPT)

    def wait_for(self, mark: str) -> str:
        """Return what is shown up to `mark`, once it is there."""
        start = len(self.output)
        deadline = time.monotonic() + LONGEST
        while mark not in self.output[start:]:
            wait = deadline - time.monotonic()
            assert select.select([self._terminal], [], [], max(wait, 0))[0], self.output[start:]
            try:
                self.output += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:
                pytest.fail(f"the shell ended: {self.output[start:]}")
        return self.output[start:]

    def type_line(self, text: str, until: str = PROMPT) -> str:
        """Type a line and return what is shown up to `until`."""
        os.write(self._terminal, f"{text}\n".encode())
        return self.wait_for(until)

    def close(self) -> None:
        os.close(self._terminal)  # as a window that is closed
        self._shell.wait()


@pytest.fixture
def lab() -> Iterator[LabFleet]:
    install.install_engine(print)
    model.ensure_model(print)
    fleet.remove_fleet()
    yield fleet.start_fleet(2, bare=True, password=True)
    fleet.remove_fleet()


@pytest.fixture
def terminal(lab: LabFleet, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def test_three_commands_lead_from_the_box_to_an_answer(
    lab: LabFleet, terminal: Terminal, tmp_path: Path
) -> None:
    _make_project(lab, terminal)
    inventory = (tmp_path / "inventories/local.yml").read_text()
    assert all(host.address in inventory for host in lab.hosts)

    terminal.type_line("sparkfleet links.apply", until="[y/N] ")
    shown = terminal.type_line("y")
    assert "each peer answers on each rail with full-size frames" in shown

    _write_lab_variables(lab, tmp_path / "inventories/group_vars/sparks.yml")
    shown = terminal.type_line("sparkfleet cluster.up --tp 2")
    assert "ok: [spark1] => 12*17 -> 204" in shown, shown
    key = (tmp_path / "api-key").read_text().strip()
    assert "204" in chat(lab.hosts[0].address, "12*17", key=key)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        chat(lab.hosts[0].address, "12*17", key="wrong")


def test_a_spark_on_the_cable_is_found_and_proven(
    lab: LabFleet, terminal: Terminal, tmp_path: Path
) -> None:
    first, second = lab.hosts
    terminal.type_line("sparkfleet init --discover --recipe lab-tiny", until="the head: ")
    terminal.type_line(f"nvidia@{first.address}", until="no more): ")
    terminal.type_line("", until="[y/N] ")  # the host key of the first
    _authorize_new_key(lab, terminal, until="[y/N] ")  # and of the machine on its cable
    terminal.type_line("y", until="password: ")
    shown = terminal.type_line(_read_password(lab), until="[y/N] ")  # the files
    assert f"it is {second.address}: a GB10 with the same host key" in shown
    assert "another machine is on this cable" not in shown
    terminal.type_line("y")
    inventory = (tmp_path / "inventories/local.yml").read_text()
    assert f'ansible_host: "{second.address}"' in inventory
    assert "spark2:enp1s0f0np0" in inventory


def _read_password(lab: LabFleet) -> str:
    assert lab.password is not None
    return lab.password.read_text().strip()


def _authorize_new_key(lab: LabFleet, terminal: Terminal, until: str) -> None:
    """Accept the last host key, make a new key, and copy it, with a wrong password first."""
    terminal.type_line("y", until="passphrase): ")
    terminal.type_line("", until="again: ")
    terminal.type_line("", until="password: ")
    terminal.type_line("wrong", until="password: ")  # ssh asks again
    terminal.type_line(_read_password(lab), until=until)


def _write_lab_variables(lab: LabFleet, path: Path) -> None:
    """Write what a lab host differs in: its engine is a folder, its memory this machine's."""
    names = ("engine", "guard_", "link_memlock", "link_expected_gbps", "weights_source")
    lines = [line.strip() for line in lab.inventory.read_text().splitlines()]
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in lines if line.startswith(names)))


def _make_project(lab: LabFleet, terminal: Terminal) -> None:
    """Type `init` and its answers."""
    first, second = (f"nvidia@{host.address}" for host in lab.hosts)
    terminal.type_line("sparkfleet init", until="the head: ")
    terminal.type_line(first, until="no more): ")
    terminal.type_line(second, until="no more): ")
    terminal.type_line("", until="]: ")
    terminal.type_line("lab-tiny", until="[y/N] ")  # the host key of the first
    terminal.type_line("y", until="[y/N] ")  # and of the second
    _authorize_new_key(lab, terminal, until="password: ")  # of the second
    terminal.type_line(_read_password(lab), until="[y/N] ")  # the files
    assert "wrote inventories/local.yml" in terminal.type_line("y")
