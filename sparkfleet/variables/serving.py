"""Variables of Ray and vLLM."""

from __future__ import annotations

from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.variables.variable import Kind, Variable, build_port_variable

ROWS = (
    build_port_variable("ray_port", 6379, "port of Ray's head (GCS)"),
    build_port_variable("ray_node_manager_port", 6380, "port of each raylet"),
    build_port_variable("ray_object_manager_port", 6381, "port of each node's object manager"),
    build_port_variable("ray_worker_port_min", 20000, "first port of Ray's worker processes"),
    build_port_variable("ray_worker_port_max", 20099, "last port of Ray's worker processes"),
    Variable(
        name="ray_cpus",
        kind=Kind.INTEGER,
        help="CPUs of a node in Ray; 2 keeps it from prestarting one worker per core",
        default=2,
        minimum=1,
    ),
    Variable(
        name="ray_object_store_memory",
        kind=Kind.SIZE,
        help="Ray's object store on each node",
        default="1GiB",
        minimum=78643200,
    ),
    Variable(
        name="ray_dashboard",
        kind=Kind.FLAG,
        help="run Ray's dashboard, on the head's loopback address",
        default=False,
    ),
    build_port_variable("ray_dashboard_port", 8265, "port of Ray's dashboard on the head"),
    Variable(
        name="ray_join_timeout",
        kind=Kind.DURATION,
        help="how long all workers may take to join the head",
        default="2m",
    ),
    Variable(name="vllm_recipe", kind=Kind.TEXT, help="recipe to serve by default"),
    Variable(name="vllm_model", kind=Kind.TEXT, help="Hub id, or a folder under weights_dir"),
    Variable(name="vllm_served_name", kind=Kind.TEXT, help="model name that clients send"),
    Variable(
        name="vllm_host",
        kind=Kind.TEXT,
        help="IPv4 address of the head on which the endpoint listens; 0.0.0.0 is all of them",
        default=ALL_INTERFACES,
    ),
    build_port_variable("vllm_port", 8000, "port of the endpoint on the head"),
    Variable(
        name="vllm_executor",
        kind=Kind.TEXT,
        help="executor for several hosts: ray, mp (vLLM's own), or auto (mp where all have it)",
        default="ray",
        choices=("ray", "mp", "auto"),
    ),
    build_port_variable("vllm_master_port", 29501, "rendezvous port on the head (mp)"),
    build_port_variable("vllm_dp_port", 29550, "port on the head for the copies of --dp (mp)"),
    Variable(
        name="vllm_join_timeout",
        kind=Kind.DURATION,
        help="how long after the first rank the last one may connect to the head (mp)",
        default="5m",
    ),
    Variable(
        name="vllm_min_version",
        kind=Kind.TEXT,
        help="oldest vLLM version that supports the model, as in `vllm --version`",
    ),
    Variable(
        name="vllm_min_transformers",
        kind=Kind.TEXT,
        help="oldest transformers version that supports the model",
    ),
    Variable(
        name="vllm_args",
        kind=Kind.MAPPING,
        help="options of `vllm serve` without the dashes: value, list, true, false, null, a "
        "mapping for JSON, {repeat: [...]} for an option given several times",
        lines=True,
    ),
    Variable(
        name="vllm_raw_args",
        kind=Kind.LIST,
        help="more arguments of `vllm serve`, after all others; only names of staged files change",
        lines=True,
    ),
    Variable(
        name="vllm_env",
        kind=Kind.ENVIRONMENT,
        help="environment of every rank; {from_file: PATH} reads a secret from a local file",
        lines=True,
    ),
    Variable(
        name="vllm_accept",
        kind=Kind.LIST,
        help="rules of recipes.validate, by name, whose findings do not stop a start",
    ),
    Variable(
        name="vllm_memory_reserve",
        kind=Kind.SIZE,
        help="memory of this host to keep for other services",
        minimum=0,
    ),
    Variable(
        name="vllm_smoke_tokens",
        kind=Kind.INTEGER,
        help="longest answer to a smoke prompt, tokens; a reasoning model thinks first",
        default=500,
        minimum=1,
    ),
    Variable(
        name="vllm_ready_timeout",
        kind=Kind.DURATION,
        help="how long a start may take until /health answers; minutes are normal",
        default="30m",
    ),
)
