"""Times 10 no-op commands on every host: `playbook.run` and ``ansible-playbook``, in turns.

``python benchmarks/commands.py [--inventory FILE] [--rounds N]``; without an inventory it takes the
lab's, which must be up (``invoke lab.up --hosts 2``, and 32). Both run the same playbook file in
fresh processes and open their connections anew. Ansible has pipelining, ControlPersist, as many
forks as there are hosts, a fixed interpreter, and gathers no facts. The targets are those of the
issue: 10x on 2 hosts, 12x on 32.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkfleet.inventory import load_inventory
from sparkfleet.lab.paths import INVENTORY

COMMANDS = 10
TARGETS = {2: 10.0, 32: 12.0}
CONFIG = """
[defaults]
forks = {forks}
interpreter_python = /usr/bin/python3
host_key_checking = True
[ssh_connection]
pipelining = True
ssh_args = -o ControlMaster=auto -o ControlPersist=60s
control_path_dir = {folder}/control
"""


def playbook(folder: Path) -> Path:
    """Write the playbook and return its path."""
    tasks = "".join(
        f"    - name: number {number}\n      command: 'true'\n" for number in range(COMMANDS)
    )
    path = folder / "commands.yml"
    path.write_text(f"- hosts: sparks\n  gather_facts: false\n  tasks:\n{tasks}")
    return path


def timed(words: Sequence[str], environment: Mapping[str, str], hosts: int) -> float:
    """Run a command line and return its seconds; every command must have run on every host."""
    began = time.perf_counter()
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    ran = re.findall(rf"ok={COMMANDS}\s+changed={COMMANDS}\s", done.stdout)
    if done.returncode or len(ran) != hosts:
        sys.exit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return took


def measure(inventory: Path, hosts: int, rounds: int) -> tuple[float, float]:
    """Return the median seconds of `rounds` runs of sparkfleet and of Ansible."""
    mine = []
    theirs = []
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(playbook(folder))
        (folder / "ansible.cfg").write_text(CONFIG.format(folder=folder, forks=hosts))
        ours = [str(programs / "sparkfleet"), "playbook.run", path, "--inventory", str(inventory)]
        peer = [str(programs / "ansible-playbook"), "-i", str(inventory), path]
        for _ in range(rounds):
            mine.append(timed(ours, {"XDG_STATE_HOME": name}, hosts))
            shutil.rmtree(folder / "control", ignore_errors=True)  # the next run connects anew
            theirs.append(timed(peer, {"ANSIBLE_CONFIG": str(folder / "ansible.cfg")}, hosts))
    return statistics.median(mine), statistics.median(theirs)


def main() -> int:
    """Print the times and their ratio, and return 1 if it misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inventory", type=Path, default=INVENTORY)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.inventory.exists():
        sys.exit(f"there is no {options.inventory}: invoke lab.up --hosts 2")
    hosts = len(load_inventory([str(options.inventory)]).hosts)
    mine, theirs = measure(options.inventory, hosts, options.rounds)
    ratio = theirs / mine
    target = TARGETS.get(hosts)
    judged = f" (target {target:.0f}x: {'met' if ratio >= target else 'MISSED'})" if target else ""
    print(
        f"{COMMANDS} commands on {hosts} hosts: sparkfleet {mine:.2f} s, ansible-playbook "
        f"{theirs:.2f} s, {ratio:.1f}x{judged}"
    )
    return int(target is not None and ratio < target)


if __name__ == "__main__":
    sys.exit(main())
