"""Times `cluster.up --tp 2` against its own rendered scripts, started by hand over OpenSSH.

``sudo python benchmarks/up.py [--rounds N]``. Boots a lab of two hosts with the real engine
(``invoke lab.engine``, ``lab.model``), so none may run; a round takes about four minutes on two
idle cores. A first start, not counted, stages the weights and measures the links. By hand means: in
the order of the playbook, Ray on the head, Ray on the worker, `ray status` until it shows both
nodes, the server, `/health` until it is 200, and the smoke prompt; nothing is checked. The target:
`cluster.up` adds less than a tenth.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.engine.kinds import CPU
from sparkfleet.lab.fleet import LabFleet, LabHost
from tests.commandline import chat, command_line

TARGET = 1.10
FOLDER = "vllm/.sparkfleet/default"
TICK = 0.5  # seconds, as `cluster.up` looks
PATIENCE = 300.0  # seconds


def timed(work: Callable[[], object]) -> float:
    """Return how long `work` took, seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run(lab: LabFleet, *words: str) -> None:
    """Run one of our own command lines to its end."""
    line = command_line(*words, "--inventory", str(lab.inventory))
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def ssh(lab: LabFleet, host: LabHost, script: str) -> str:
    """Run a script on a host with OpenSSH and return what it printed."""
    options = ("-i", str(lab.key), "-o", f"UserKnownHostsFile={lab.known_hosts}")
    done = subprocess.run(
        ["ssh", *options, f"nvidia@{host.address}", script],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def start(lab: LabFleet, host: LabHost, script: str) -> None:
    """Start a rendered script in the background."""
    log = f"{FOLDER}/logs/by-hand-{script}.log"
    ssh(lab, host, f"setsid bash {FOLDER}/{script} >{log} 2>&1 </dev/null &")


def wait(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            sys.exit("started by hand, it did not become ready; see the logs on the hosts")
        time.sleep(TICK)


def by_hand(lab: LabFleet) -> None:
    """Start what `cluster.up` rendered, and ask it the smoke prompt."""
    head, worker = lab.hosts
    ray = f"{CPU.venv_path()}/bin/ray status --address={head.rails[0].address}:6379"
    start(lab, head, "ray-head.sh")
    start(lab, worker, "ray-worker.sh")
    wait(lambda: ssh(lab, head, ray).count(" 1 node_") == 2)
    start(lab, head, "vllm-serve.sh")
    wait(lambda: healthy(head.address))
    if chat(head.address, "12*17") != "204":
        sys.exit("started by hand, it answers the smoke prompt wrongly")


def healthy(address: str) -> bool:
    """Return whether the endpoint says that it is ready."""
    try:
        with urllib.request.urlopen(f"http://{address}:8000/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def main() -> int:
    """Take both in turns, print seconds and ratio, and return 1 where that misses the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    install.install_engine(print)
    model.ensure_model(print)
    hand = []
    ours = []
    try:
        lab = fleet.start_fleet(2)
        run(lab, "cluster.up", "--tp", "2")
        run(lab, "cluster.down")
        for _ in range(rounds):
            hand.append(timed(lambda: by_hand(lab)))
            run(lab, "cluster.down")
            ours.append(timed(lambda: run(lab, "cluster.up", "--tp", "2")))
            run(lab, "cluster.down")
            print(f"by hand {hand[-1]:6.1f} s   cluster.up {ours[-1]:6.1f} s", flush=True)
    finally:
        fleet.remove_fleet()
    ratio = statistics.median(ours) / statistics.median(hand)
    print(f"ratio {ratio:.3f}, at most {TARGET}")
    return 1 if ratio > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
