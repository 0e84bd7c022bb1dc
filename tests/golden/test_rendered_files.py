"""Every file of every rank of every shipped inventory, as it is to be, with its reasons.

The expected files lie in ``tests/golden/files/<inventory>/<host>/``. After a wanted change, write
them anew with ``SPARKFLEET_WRITE_GOLDEN=1`` and read the difference.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkfleet import links
from sparkfleet.facts import HostFacts
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.launch.deployment.deployment import Deployment, hash_deployment, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe
from tests import gb10

HERE = Path(__file__).parent
INVENTORIES = HERE.parents[1] / "inventories"
SHIPPED = sorted(path.stem for path in INVENTORIES.glob("*.yml"))
MP = "pair-mp"  # the pair again, joined by vLLM itself
WRITE = bool(os.environ.get("SPARKFLEET_WRITE_GOLDEN"))


def _cluster(name: str) -> Cluster:
    chosen = choose_cluster(load_inventory([str(INVENTORIES / f"{name.removesuffix('-mp')}.yml")]))
    recipe = load_recipe("lab-tiny")
    return Cluster(
        name=chosen.name, hosts=tuple(overlay_recipe(host, recipe) for host in chosen.hosts)
    )


def _facts(chosen: Cluster) -> Mapping[str, HostFacts]:
    """Return what healthy machines with this inventory's interfaces would say about themselves."""
    if chosen.head.get("link_topology") == "ring":
        sparks = gb10.ring(len(chosen.hosts))
    else:
        sparks = tuple(
            gb10.Spark(f"spark-{rank}", _addresses(rank, host))
            for rank, host in enumerate(chosen.hosts, 1)
        )
    for host, spark in zip(chosen.hosts, sparks, strict=True):
        spark.name = host.name
    return {spark.name: spark.facts() for spark in sparks}


def _addresses(number: int, host: Host) -> dict[str, str]:
    port = 1 if (host.get("link_topology"), number) == ("direct", 1) else 0  # the pair is crossed
    cage = [f"{name}f{port}np{port}" for name in ("enp1s0", "enP2p1s0")]
    netdevs = host.get("link_interfaces") or (cage if host.get("link_topology") else [])
    return {netdev: f"192.168.{100 + at}.{number}/24" for at, netdev in enumerate(netdevs)}


def _deployment(name: str) -> Deployment:
    chosen = _cluster(name)
    size = len(chosen.hosts)
    executor = Executor.MP if name == MP else Executor.RAY
    fabric = links.select_fabric(_facts(chosen), chosen.hosts) if size > 1 else None
    nodes = [
        DeploymentNode(
            settings=Settings(host=host),
            rank=rank,
            address=str(fabric.address(host.name)) if fabric else None,
            engine=NativeEngine(venv="/home/nvidia/vllm-env"),
            folder="/home/nvidia/vllm/.sparkfleet/default",
            weights="/home/nvidia/vllm",
            model="/home/nvidia/vllm/tiny-spark",
            environment=build_rank_environment(
                Settings(host=host),
                links.compute_rank_env(fabric, host) if fabric else (),
                cluster=chosen.name,
                hf_home="/home/nvidia/vllm",
                executor=executor,
            ),
        )
        for rank, host in enumerate(chosen.hosts)
    ]
    return render_deployment(
        chosen.name, nodes, tp=size, pp=1, contents=["commit"], executor=executor
    )


def _rows() -> list[tuple[str, str, str]]:
    return [
        (name, host, file)
        for name in (*SHIPPED, MP)
        for host, files in _deployment(name).files.items()
        for file in files
    ]


@pytest.mark.parametrize(("name", "host", "file"), _rows())
def test_a_rendered_file_is_as_it_is_to_be(name: str, host: str, file: str) -> None:
    path = HERE / "files" / name / host / file
    text = _deployment(name).files[host][file]
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_no_expected_file_is_left_over() -> None:
    wanted = {HERE / "files" / name / host / file for name, host, file in _rows()}
    assert {path for path in (HERE / "files").rglob("*") if path.is_file()} == wanted


def test_rendered_scripts_pass_shellcheck() -> None:
    scripts = [str(path) for path in (HERE / "files").rglob("*.sh")]
    scripts += [str(path) for path in (HERE / "files").rglob("*.env")]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_a_changed_comment_is_the_same_deployment() -> None:
    files = _deployment("pair").files
    moved = {
        host: {
            name: text.replace("lab-tiny.yml:14:", "lab-tiny.yml:99:") for name, text in own.items()
        }
        for host, own in files.items()
    }
    assert moved != files
    assert hash_deployment(moved, ["x"]) == hash_deployment(files, ["x"])
    other = {**files, "spark2": {"nccl.env": files["spark2"]["nccl.env"].replace("=IB", "=Socket")}}
    assert hash_deployment(other, ["x"]) != hash_deployment(files, ["x"])


def test_the_same_input_makes_the_same_hash() -> None:
    assert _deployment("pair").hash == _deployment("pair").hash
    assert _deployment("pair").hash != _deployment("switch4").hash
