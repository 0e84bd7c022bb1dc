"""Whether vLLM waits for a place that Ray will never have; pure (case C02).

The join gate has seen every node with its GPU, so what is not there after a minute never comes.
vLLM itself waits half an hour (ray_utils.py of 0.32), and says after 10, 30, 70 seconds for what.
"""

from __future__ import annotations

import re

from sparkfleet.launch.deployment import Deployment

PATIENCE = 60  # s
HINT = "each rank's VLLM_HOST_IP must be the address that Ray has of its host: see its nccl.env"
_WAITS = re.compile(r"Waiting for creating a placement group of specs for (?P<s>\d+) seconds\.")
_NODE = re.compile(r"'node:(?P<address>[^']+)'")


def complaint(deployment: Deployment, line: str) -> str:
    """Return what is wrong with a line of the head's log, "" if nothing is."""
    waits = _WAITS.search(line)
    if waits is None or int(waits["s"]) < PATIENCE:
        return ""
    known = ", ".join(deployment.addresses)
    for node in _NODE.finditer(line):
        if node["address"] not in deployment.addresses:
            return (
                f"vLLM waits for a GPU at {node['address']}, which is no Ray node; Ray has {known}"
            )
    return f"Ray has {known}, and gives vLLM no GPU on one of them for {waits['s']} s"
