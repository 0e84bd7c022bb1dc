"""The inventory and known_hosts of a fleet, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkfleet.lab.paths import KEY, KNOWN_HOSTS, USER
from sparkfleet.lab.plan import FleetPlan, HostPlan

HEAD = """\
# The lab: simulated Sparks on this machine. `lab.up` writes this file for the fleet that
# it boots; inventories/lab.yml is its form for two hosts. Ansible reads it too.
sparks:
  hosts:
"""
HOST = """\
    {name}:
      ansible_host: {address}
"""
RAILS = """\
      link_interfaces: [{rails}]
"""
VARS = """\
  vars:
    ansible_user: {user}
    ansible_ssh_private_key_file: {key}
    ansible_ssh_common_args: -o UserKnownHostsFile={known_hosts}
    engine: native               # vLLM and Ray from a Python environment, no container
    link_expected_gbps: 4        # what two busy cores move, whatever the links say they are
    guard_loading: 256MiB        # all simulated hosts share this machine's memory
    guard_serving: 192MiB
    link_memlock: 0              # no memory is registered with simulated devices
    engine_venv: {venv}
    weights_source: {model}
    vllm_recipe: lab-tiny
"""
GPU_VARS = """\
    nccl_env:
      NCCL_NET: Socket           # the RDMA devices are stand-ins, through which nothing can be sent
      NCCL_IB_DISABLE: 1         # the same
      NCCL_NVLS_ENABLE: 0        # no NVLink multicast: no two Sparks have it
    weights_dir: ~/vllm
"""


def format_lab_inventory(plan: FleetPlan, venv: Path, model: Path) -> str:
    """Return the Ansible inventory of a fleet whose engine is in `venv` and serves `model`."""
    hosts = "".join(_format_inventory_host(host) for host in plan.hosts)
    values = {
        "user": USER,
        "key": KEY,
        "known_hosts": KNOWN_HOSTS,
        "venv": venv,
        "model": model,
    }
    return HEAD + hosts + VARS.format_map(values) + (GPU_VARS if plan.gpus else "")


def format_known_hosts(plan: FleetPlan, keys: Mapping[str, str]) -> str:
    """Return known_hosts, from the public host key of each host by name."""
    lines = []
    for host in plan.hosts:
        kind, data, *_ = keys[host.name].split()
        lines.append(f"{host.address},{host.name} {kind} {data}\n")
    return "".join(lines)


def _format_inventory_host(host: HostPlan) -> str:
    text = HOST.format(name=host.name, address=host.address)
    rails = ", ".join(port.netdev for port in host.rails if port.address)
    return text + (RAILS.format(rails=rails) if rails else "")
