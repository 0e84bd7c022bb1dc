"""Times listing an inventory of 2, 100 and 1000 hosts: sparkfleet and ``ansible-inventory --list``.

``python benchmarks/inventory.py [--rounds N]``. Both read the same files in fresh processes, in
turns; the fastest round counts. The targets: 4, 4 and 6 times as fast.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGETS = {2: 4.0, 100: 4.0, 1000: 6.0}
OURS = [sys.executable, "-m", "sparkfleet", "inventory.list", "--inventory"]
GROUPS = """\
all:
  vars:
    ansible_user: nvidia
    link_mtu: 9000
  children:
    head: {hosts: {spark0000: }}
    sparks:
      vars: {link_topology: switch, vllm_args: {max-model-len: 32768}}
      hosts:
"""
HOST = """\
        spark{number:04}:
          ansible_host: 10.0.{high}.{low}
          link_interfaces: [enp1s0f0np0, enP2p1s0f0np0]
          rack: {rack}
"""


def write(folder: Path, count: int) -> Path:
    """Write an inventory of `count` hosts and return its path."""
    hosts = (
        HOST.format(number=number, high=number // 250, low=number % 250 + 1, rack=number // 8)
        for number in range(count)
    )
    path = folder / f"hosts-{count}.yml"
    path.write_text(GROUPS + "".join(hosts))
    return path


def timed(command: list[str], path: Path) -> tuple[float, object]:
    """Run `command` and return its seconds and what it listed."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=True, cwd=path.parent)
    return time.perf_counter() - began, json.loads(done.stdout)


def measure(path: Path, rounds: int) -> tuple[float, float]:
    """Return the fastest of `rounds` runs of sparkfleet and of Ansible, seconds."""
    ours = [*OURS, str(path)]
    peer = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(path), "--list"]
    times = []
    for _ in range(rounds):
        mine, listed = timed(ours, path)
        theirs, expected = timed(peer, path)
        assert listed == expected
        times.append((mine, theirs))
    return min(mine for mine, _ in times), min(theirs for _, theirs in times)


def main() -> int:
    """Measure, print a row for each size, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    missed = 0
    print(f"{'hosts':>6} {'sparkfleet':>10} {'ansible':>8} {'ratio':>6} {'target':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for count, target in TARGETS.items():
            mine, theirs = measure(write(Path(folder), count), rounds)
            missed += theirs / mine < target
            print(
                f"{count:>6} {mine:>9.3f}s {theirs:>7.3f}s {theirs / mine:>5.1f}x {target:>5.0f}x"
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
