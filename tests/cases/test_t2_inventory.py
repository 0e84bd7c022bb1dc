"""T2: an inventory that other projects share, of a public report."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.model import Inventory

HOSTS = "sparks: {hosts: {spark-01: {ansible_host: 192.168.1.20}}}\n"
K3S = """\
k3s_master: "192.168.1.10"
cluster_cidr: "10.42.0.0/16"
service_cidr: "10.43.0.0/16"
cluster_dns: "10.43.0.10"
"""


def _load(folder: Path, text: str) -> Inventory:
    (folder / "hosts.yml").write_text(HOSTS)
    (folder / "group_vars").mkdir()
    (folder / "group_vars/sparks.yml").write_text(text)
    return inventory.load_inventory([str(folder / "hosts.yml")])


def test_t2_13_variables_of_k3s_ansible_are_accepted(tmp_path: Path) -> None:
    loaded = _load(tmp_path, K3S)
    assert loaded.hosts["spark-01"].get("cluster_cidr") == "10.42.0.0/16"


@pytest.mark.parametrize(
    "text",
    [
        "gpustack_token: x\nray_head_node: spark-01\nvllm_version: 0.29.0\n",  # GPUStack, Ray
        "nccl_tests_dir: /opt/nccl-tests\nengine_version: 2\nweights_url: https://example.com\n",
        "cluster_domain: cluster.local\ncluster_context: k3s\ncluster_size: 2\n",
        "guard_interval: 5\nlink_local: true\n",
    ],
)
def test_t2_13_variables_of_other_projects_are_accepted(tmp_path: Path, text: str) -> None:
    assert _load(tmp_path, text).hosts


@pytest.mark.parametrize("text", ["cluster_dri: /srv\n", "vllm_prot: 8000\n", "link_mut: 9000\n"])
def test_t2_13_a_misspelt_name_is_still_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InventoryError, match="unknown variable"):
        _load(tmp_path, text)
