"""From hosts as they come from the box to an answer: three commands on a terminal."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, chat
from tests.e2e.newcomer import (
    Terminal,
    authorize_new_key,
    make_project,
    read_password,
    write_lab_variables,
)

pytestmark = [pytest.mark.fleet, pytest.mark.e2e, pytest.mark.timeout(LONGEST)]


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


@pytest.mark.thorough
def test_three_commands_lead_from_the_box_to_an_answer(
    lab: LabFleet, terminal: Terminal, tmp_path: Path
) -> None:
    make_project(lab, terminal)
    inventory = (tmp_path / "inventories/local.yml").read_text()
    assert all(host.address in inventory for host in lab.hosts)

    terminal.type_line("sparkfleet links.apply", until="[y/N] ")
    shown = terminal.type_line("y")
    assert "each peer answers on each rail with full-size frames" in shown

    write_lab_variables(lab, tmp_path / "inventories/group_vars/sparks.yml")
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
    authorize_new_key(lab, terminal, until="[y/N] ")  # and of the machine on its cable
    terminal.type_line("y", until="password: ")
    shown = terminal.type_line(read_password(lab), until="[y/N] ")  # the files
    assert f"it is {second.address}: a GB10 with the same host key" in shown
    assert "another machine is on this cable" not in shown
    terminal.type_line("y")
    inventory = (tmp_path / "inventories/local.yml").read_text()
    assert f'ansible_host: "{second.address}"' in inventory
    assert "spark2:enp1s0f0np0" in inventory
