"""The commands that start Ray and vLLM on a host; pure."""

from __future__ import annotations

from sparkfleet.launch import declared
from sparkfleet.launch.executor import Executor
from sparkfleet.launch.node import Group, Node
from sparkfleet.recipes.settings import Settings


def served_name(settings: Settings) -> str:
    """Return the model name that clients send."""
    return settings.text("vllm_served_name") or settings.needed("vllm_model")


def ray_port(head: Node) -> int:
    """Return the port of Ray's head."""
    return head.settings.integer("ray_port")


def ray_command(node: Node, head: Node) -> tuple[str, ...]:
    """Return the command that starts Ray on `node` and stays until it ends.

    A Spark has one GPU, so Ray is told so: it then also works where Ray cannot count GPUs.
    """
    settings = node.settings
    place = (
        ("--head", f"--port={ray_port(head)}", *_dashboard(settings))
        if node is head
        else (f"--address={head.address}:{ray_port(head)}",)
    )
    return (
        node.engine.program("ray"),
        "start",
        *place,
        "--block",
        f"--node-ip-address={node.address}",
        f"--node-manager-port={settings.integer('ray_node_manager_port')}",
        f"--object-manager-port={settings.integer('ray_object_manager_port')}",
        f"--min-worker-port={settings.integer('ray_worker_port_min')}",
        f"--max-worker-port={settings.integer('ray_worker_port_max')}",
        f"--num-cpus={settings.integer('ray_cpus')}",
        "--num-gpus=1",
        f"--object-store-memory={settings.size('ray_object_store_memory')}",
        "--disable-usage-stats",
    )


def _dashboard(settings: Settings) -> tuple[str, ...]:
    """Return whether Ray shows its dashboard, and then only to the head itself: it has no login."""
    if not settings.value("ray_dashboard"):
        return ("--include-dashboard=false",)
    port = settings.integer("ray_dashboard_port")
    return ("--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}")


def serve_command(node: Node, head: Node, group: Group) -> tuple[str, ...]:
    """Return the command that serves the model from the head, or is one rank of it elsewhere.

    The user's options are the head's for all ranks: what differs between them never starts.
    """
    inside = node.engine.inside
    if node.engine.own_program:
        return node.engine.own_program
    return (
        node.engine.program("vllm"),
        "serve",
        inside(node.model),
        f"--served-model-name={served_name(head.settings)}",
        *(_endpoint(head.settings) if node is head else ("--headless",)),
        *_group(node, head, group),
        *declared.words(head.settings, inside(node.weights), inside(node.model), node.drafts),
    )


def _endpoint(settings: Settings) -> tuple[str, ...]:
    return ("--host=0.0.0.0", f"--port={settings.integer('vllm_port')}")


def _group(node: Node, head: Node, group: Group) -> tuple[str, ...]:
    words: tuple[str, ...] = (f"--tensor-parallel-size={group.tp}",)
    if group.pp > 1:
        words += (f"--pipeline-parallel-size={group.pp}",)
    words += (f"--distributed-executor-backend={group.executor}",)
    if group.executor is not Executor.MP:
        return words
    return (
        *words,
        f"--nnodes={group.nodes}",
        f"--node-rank={node.rank}",
        f"--master-addr={head.address}",
        f"--master-port={head.settings.integer('vllm_master_port')}",
    )
