"""The documents' commands, typed with each shipped inventory against hosts that answer.

Only addresses, login and engine are the lab's, in a second inventory; all else is what is shipped.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.inventory.loading import load_inventory
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import run_command
from tests.standin import engine
from tests.unit.cli.test_documented_commands import COMMANDS, ROOT

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
CABLES = {"solo": "crossed", "pair": "crossed", "ring3": "ring", "switch4": "switch"}
READING = ("hosts.facts", "hosts.check", "hosts.prepare", "links.", "cluster.status")
STARTING = ("cluster.up", "cluster.drift")
# Of other files, models and images than a lab has, or without an end; links.apply asks
LEFT_OUT = ("inventory", "engine_image", "--watch", "--yes", "links.apply", ".svg")


def _count_hosts(words: list[str]) -> int:
    sizes = [words[at + 1] for at, word in enumerate(words) if word in ("--tp", "--pp", "--dp")]
    count = 1
    for size in sizes:
        count *= int(size)
    return count if "--solo" not in words else 1


def _drop_recipe(words: list[str]) -> list[str]:
    """Return a command line without its recipe: the lab serves the stand-in."""
    if "--recipe" not in words:
        return words
    at = words.index("--recipe")
    return [*words[:at], *words[at + 2 :]]


def _list_lines(hosts: int) -> list[list[str]]:
    """Return the command lines for so many hosts; those that would start something only check."""
    lines = []
    for line in COMMANDS:
        words = _drop_recipe(shlex.split(line))
        if any(part in line for part in LEFT_OUT) or _count_hosts(words) > hosts:
            continue
        if words[0].startswith(STARTING) and "--check" not in words:
            lines.append([*words, "--check"])
        elif words[0].startswith((*READING, *STARTING)):
            lines.append(words)
    fabric = ("links.",) if hosts == 1 else ()
    return [words for words in lines if not words[0].startswith(fabric)]


def _write_lab_inventory(lab: LabFleet, names: list[str], folder: Path) -> Path:
    """Write what the lab's hosts differ in: address, login and engine."""
    content: dict[str, Any] = yaml.safe_load(engine.inventory(lab, folder).read_text())
    values = {
        name: value
        for name, value in content["sparks"]["vars"].items()
        if not name.startswith("link_topology")
    }
    hosts = {
        name: {"ansible_host": host.address} for name, host in zip(names, lab.hosts, strict=False)
    }
    path = folder / "lab.yml"
    path.write_text(yaml.safe_dump({"sparks": {"hosts": hosts, "vars": values}}))
    return path


@pytest.mark.parametrize(
    ("name", "every"),
    [
        pytest.param("pair", False, id="pair-each-task-once"),
        pytest.param("pair", True, id="pair", marks=pytest.mark.thorough),
        pytest.param("solo", True, id="solo", marks=pytest.mark.thorough),
        pytest.param("ring3", True, id="ring3", marks=pytest.mark.thorough),
        pytest.param("switch4", True, id="switch4", marks=pytest.mark.thorough),
    ],
)
def test_the_documented_commands_work_with_a_shipped_inventory(
    name: str, tmp_path: Path, *, every: bool
) -> None:
    shipped = ROOT / f"inventories/{name}.yml"
    names = list(load_inventory([str(shipped)]).groups["sparks"].hosts)
    lab = fleet.start_fleet(max(len(names), 2), cables=CABLES[name])
    try:
        engine.install(*(host.name for host in lab.hosts))
        more = _write_lab_inventory(lab, names, tmp_path)
        lines = _list_lines(len(names))
        assert [words[0] for words in lines].count("cluster.up")
        if not every:
            lines = list({words[0]: words for words in lines}.values())
        failed = {}
        for words in lines:
            done = run_command(*words, "-i", str(shipped), "-i", str(more), cwd=tmp_path)
            if done.returncode:
                failed[shlex.join(words)] = done.stdout + done.stderr
        assert not failed, json.dumps(failed, indent=1)
    finally:
        fleet.remove_fleet()
