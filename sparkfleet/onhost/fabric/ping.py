"""Run ping and read its summary."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any


def run_ping(source: str, address: str, *options: str, count: int) -> dict[str, Any]:
    """Run ping from a netdev or an own address; what was sent is None where it could not run.

    `last` is the highest sequence number that was answered. With a deadline, ping ends when `count`
    packets were answered (`complete`): those that it sent after `last` are still under way.
    """
    path = shutil.which("ping")
    if path is None:
        why = "no such program"
        return {"sent": None, "received": 0, "last": 0, "complete": False, "why": why}
    done = subprocess.run(
        (path, "-n", "-I", source, *options, "-c", str(count), address),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=dict(os.environ, LC_ALL="C"),
        check=False,
    )
    output = done.stdout.decode("ascii", "replace")
    sent = re.search(r"(\d+) packets transmitted, (\d+) (?:packets )?received", output)
    errors = done.stderr.decode("ascii", "replace").strip().splitlines()
    received = int(sent[2]) if sent else 0
    return {
        "sent": int(sent[1]) if sent else None,
        "received": received,
        "complete": received >= count,
        "last": max(map(int, re.findall(r"icmp_seq=(\d+) ttl=", output)), default=0),
        "why": errors[-1] if errors else "",
    }
