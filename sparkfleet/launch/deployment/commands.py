"""The commands that start Ray and vLLM on a host; pure."""

from __future__ import annotations

from sparkfleet.launch import staged_paths
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode, ParallelConfig
from sparkfleet.recipes.settings import Settings


def find_served_name(settings: Settings) -> str:
    """Return the model name that clients send."""
    return settings.text("vllm_served_name") or settings.needed("vllm_model")


def find_aliases(settings: Settings) -> tuple[str, ...]:
    """Return the names that `gateway` of the inventory gives the model besides its own."""
    aliases = settings.mapping("gateway").get("aliases") or {}
    served = find_served_name(settings)
    return tuple(sorted(alias for alias, name in aliases.items() if name == served))


def _build_name_options(settings: Settings) -> tuple[str, ...]:
    """Return the option with the names of the model: vLLM refuses requests for any other."""
    name = find_served_name(settings)
    aliases = find_aliases(settings)
    if not aliases:
        return (f"--served-model-name={name}",)
    return ("--served-model-name", name, *aliases)


def read_ray_port(head: DeploymentNode) -> int:
    """Return the port of Ray's head."""
    return head.settings.integer("ray_port")


def build_ray_command(node: DeploymentNode, head: DeploymentNode) -> tuple[str, ...]:
    """Return the command that starts Ray on `node` and runs as long as Ray does.

    It passes the one GPU of a Spark, so it also works where Ray cannot count GPUs.
    """
    settings = node.settings
    options = (
        ("--head", f"--port={read_ray_port(head)}", *_build_dashboard_options(settings))
        if node is head
        else (f"--address={head.address}:{read_ray_port(head)}",)
    )
    return (
        node.engine.program("ray"),
        "start",
        *options,
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


def _build_dashboard_options(settings: Settings) -> tuple[str, ...]:
    """Return the dashboard options; it listens on loopback only, since it has no login."""
    if not settings.value("ray_dashboard"):
        return ("--include-dashboard=false",)
    port = settings.integer("ray_dashboard_port")
    return ("--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}")


def build_serve_command(
    node: DeploymentNode, head: DeploymentNode, group: ParallelConfig
) -> tuple[str, ...]:
    """Return the command that serves the model on the head, or runs one rank on another host.

    All ranks get the user's options of the head: ranks with different options never start.
    """
    inside = node.engine.inside
    if node.engine.own_program:
        return node.engine.own_program
    return (
        node.engine.program("vllm"),
        "serve",
        inside(node.model),
        *_build_name_options(head.settings),
        *(_build_endpoint_options(head.settings) if node is head else ("--headless",)),
        *_build_parallel_options(node, head, group),
        *staged_paths.build_user_arguments(
            head.settings, inside(node.weights), inside(node.model), node.drafts
        ),
    )


def _build_endpoint_options(settings: Settings) -> tuple[str, ...]:
    return (f"--host={settings.text('vllm_host')}", f"--port={settings.integer('vllm_port')}")


def _build_parallel_options(
    node: DeploymentNode, head: DeploymentNode, group: ParallelConfig
) -> tuple[str, ...]:
    options: tuple[str, ...] = (f"--tensor-parallel-size={group.tp}",)
    if group.pp > 1:
        options += (f"--pipeline-parallel-size={group.pp}",)
    options += (f"--distributed-executor-backend={_find_copy_executor(group)}",)
    if group.dp > 1:
        return (*options, *_build_copy_options(node, head, group))
    if group.executor is not Executor.MP:
        return options
    return (
        *options,
        f"--nnodes={group.nodes}",
        f"--node-rank={node.rank}",
        f"--master-addr={head.address}",
        f"--master-port={head.settings.integer('vllm_master_port')}",
    )


def _find_copy_executor(group: ParallelConfig) -> Executor:
    """Return what joins the ranks of one copy; a copy on one host without Ray has only one."""
    alone = group.executor is Executor.MP and group.copy_nodes == 1
    return Executor.UNI if alone else group.executor


def _build_copy_options(
    node: DeploymentNode, head: DeploymentNode, group: ParallelConfig
) -> tuple[str, ...]:
    """Return the options of vLLM's data parallelism with its internal load balancing.

    With Ray one command starts all copies; with mp each host starts its own, and the copy of the
    head answers for all (docs/serving/data_parallel_deployment.md of vLLM, 0.18 to 0.33). One API
    server is enough for the copies of a few Sparks, and vLLM would start one for each copy.
    """
    options: tuple[str, ...] = (
        f"--data-parallel-size={group.dp}",
        f"--data-parallel-address={head.address}",
    )
    if group.executor is Executor.RAY:
        options += ("--data-parallel-backend=ray",)
    else:
        port = head.settings.integer("vllm_dp_port")
        options += (f"--data-parallel-rpc-port={port}",)
    if group.copy_nodes == 1:  # of copies with several hosts vLLM finds it out
        options += ("--data-parallel-size-local=1",)
    if node is head:
        return (*options, "--api-server-count=1")
    return (*options, f"--data-parallel-start-rank={node.rank}")


def find_pack_strategy(group: ParallelConfig) -> str:
    """Return how vLLM places copies in Ray, "" for its default: a copy on one node."""
    return "span" if group.dp > 1 and group.copy_nodes > 1 else ""
