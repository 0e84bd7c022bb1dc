"""Whether vLLM waits for a place that Ray will never have; pure (case C02).

The join gate has seen every node with its GPU, so what is not there after a minute never comes.
vLLM itself waits half an hour (ray_utils.py of 0.32), and says after 10, 30, 70 seconds for what.
"""

from __future__ import annotations

import re

from sparkfleet.launch.deployment.deployment import Deployment

PATIENCE = 60  # s
HINT = "each rank's VLLM_HOST_IP must be the address that Ray has of its host: see its nccl.env"
_WAITS = re.compile(r"Waiting for creating a placement group of specs for (?P<s>\d+) seconds\.")
_NODE = re.compile(r"'node:(?P<address>[^']+)'")


def check_placement_group(deployment: Deployment, line: str) -> str:
    """Return what is wrong with a line of the head's log, "" if nothing is."""
    waiting = _WAITS.search(line)
    if waiting is None or int(waiting["s"]) < PATIENCE:
        return ""
    addresses = ", ".join(deployment.addresses)
    for node in _NODE.finditer(line):
        if node["address"] not in deployment.addresses:
            return (
                f"vLLM waits for a GPU at {node['address']}, which is no Ray node; Ray has "
                f"{addresses}"
            )
    return f"Ray has {addresses}, and gives vLLM no GPU on one of them for {waiting['s']} s"
