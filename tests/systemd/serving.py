"""Puts on the machine what serves: sparkfleet as a head gets it, and the stand-in engine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import yaml

from sparkfleet.launch.watching.installation_archive import pack_bundle
from tests.standin import engine
from tests.systemd.machine import SystemdMachine

PYTHON = Path("/usr/bin/python3")  # of the system, which every user may run
APP = "opt/sparkfleet"
FLEET = "opt/fleet"
INVENTORY = f"/{FLEET}/inventory.yml"
CLUSTER = "desk"
SERVICE = f"sparkfleet-watch-{CLUSTER}.service"
DRIVER = "driver=$(</sys/module/nvidia/version)"  # of the lab's nvidia-smi
PROGRAMS = Path(__file__).parents[2] / "sparkfleet/lab/host/programs"
COMMAND = f'#!/bin/sh\nPYTHONPATH=/{APP} exec {PYTHON} -m sparkfleet "$@"\n'
HOST = "here"


def install(machine: SystemdMachine) -> None:
    """Put sparkfleet, the engine and an inventory of this one host on a machine that is off."""
    archive = io.BytesIO(pack_bundle(compiled=True).archive)
    with tarfile.open(fileobj=archive) as bundle:
        bundle.extractall(machine.disk / APP, filter="data")
    smi = (PROGRAMS / "nvidia-smi").read_text().replace(DRIVER, "driver=580.142")
    commands = {"usr/local/bin/sparkfleet": COMMAND, "usr/local/bin/nvidia-smi": smi}
    machine.install(commands, mode=0o755)
    engine.on = lambda host, path: machine.live / path.relative_to("/")  # noqa: ARG005 - its name
    engine.install(HOST)
    for link in (machine.disk / "opt/standin/bin").glob("python*"):
        link.unlink()
        link.symlink_to(PYTHON)
    variables = {
        "cluster_name": CLUSTER,
        "weights_source": f"/{FLEET}/standin",
        "engine_venv": str(engine.ROOT),
        "vllm_recipe": f"/{FLEET}/recipe.yml",
        "guard": False,
        "engine_clock_check": False,
    }
    content = {"sparks": {"hosts": {HOST: {"ansible_connection": "local"}}, "vars": variables}}
    engine._model(machine.disk / FLEET / "standin")
    machine.install(
        {
            f"{FLEET}/inventory.yml": yaml.safe_dump(content, sort_keys=False),
            f"{FLEET}/recipe.yml": engine.RECIPE.read_text(),
            "opt/standin/pyvenv.cfg": f"home = {PYTHON.parent}\n",
        }
    )
