"""Detect a placement group that Ray can never provide; pure.

The join gate has seen every node with its GPU, so a group still pending after a minute never
becomes ready. vLLM itself waits half an hour (ray_utils.py of 0.32), and logs the requested nodes
after 10, 30 and 70 seconds (eugr/spark-vllm-docker#227).
"""

from __future__ import annotations

import re

from sparkfleet.launch.deployment.deployment import Deployment

PATIENCE = 60  # seconds
HINT = "VLLM_HOST_IP in each host's nccl.env must be its node address in Ray"
_WAITS = re.compile(r"Waiting for creating a placement group of specs for (?P<s>\d{1,9}) seconds\.")
_NODE = re.compile(r"'node:(?P<address>[^']+)'")


def check_placement_group(deployment: Deployment, line: str) -> str:
    """Return the problem in a line of the head's log, "" if there is none."""
    waiting = _WAITS.search(line)
    if waiting is None or int(waiting["s"]) < PATIENCE:
        return ""
    addresses = ", ".join(deployment.addresses)
    for node in _NODE.finditer(line):
        if node["address"] not in deployment.addresses:
            return (
                f"vLLM waits for a GPU on {node['address']}, which is not a Ray node; Ray nodes: "
                f"{addresses}"
            )
    return f"placement group pending for {waiting['s']} s: no free GPU on Ray nodes {addresses}"
