"""Every variable that is ours: type, default, meaning; one table, read by checks, help and docs.

A name in one of our families (`link_*`, `nccl_*`, `ray_*`, `vllm_*`, `weights_*`, `engine*`,
`cluster*`) that is not in the table is an error with a suggestion; any other name is the user's
and passes through.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any

FAMILIES = re.compile(r"^(link|nccl|ray|vllm|weights|engine|cluster)(_|$)")


class Kind(enum.StrEnum):
    """What a variable holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    LIST = "list of text"
    ENVIRONMENT = "mapping of text to text, number or null (null: unset)"
    MAPPING = "mapping"
    SIZE = "size in bytes, or text like 10GiB"
    DURATION = "seconds, or text like 90s, 20m, 1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A row of the table; `default` None means that the value is computed or not needed."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False


def _port(name: str, default: int, help: str) -> Variable:  # noqa: A002 - as in Variable
    return Variable(
        name=name, kind=Kind.INTEGER, default=default, help=help, minimum=1, maximum=65535
    )


def _table(*rows: Variable) -> dict[str, Variable]:
    return {row.name: row for row in rows}


VARIABLES = _table(
    Variable(
        name="cluster_name",
        kind=Kind.TEXT,
        help="names the folder on each node, the lock and the receipt",
        default="default",
    ),
    Variable(
        name="clusters",
        kind=Kind.MAPPING,
        help="several clusters by name: hosts, head, vars, host_vars (docs/inventory.md)",
    ),
    Variable(
        name="cluster_rank_vars",
        kind=Kind.LIST,
        help="variables by node rank, a list of mappings; the first is for the head",
    ),
    Variable(
        name="cluster_kernel",
        kind=Kind.TEXT,
        help="kernel release that every node must run, as `uname -r` tells it; a glob",
    ),
    Variable(
        name="cluster_driver",
        kind=Kind.TEXT,
        help="NVIDIA driver that every node must run, as nvidia-smi tells it; a glob",
    ),
    Variable(
        name="link_interfaces",
        kind=Kind.LIST,
        help="fabric netdevs of this host, one per rail; unset: those whose subnet every node has",
    ),
    Variable(
        name="link_addresses",
        kind=Kind.MAPPING,
        help="address with prefix that each fabric netdev of this host must have",
    ),
    Variable(
        name="link_rails",
        kind=Kind.INTEGER,
        help="rails that this host uses on purpose; fewer than it has cabled is then no warning",
        minimum=1,
        maximum=4,
    ),
    Variable(
        name="link_cables",
        kind=Kind.MAPPING,
        help="far end, HOST:INTERFACE, of the cable in each fabric netdev of this host",
    ),
    Variable(
        name="link_firmware",
        kind=Kind.TEXT,
        help="ConnectX-7 firmware that every node must have; a glob",
    ),
    Variable(
        name="link_mtu",
        kind=Kind.INTEGER,
        help="MTU that every fabric interface must have, bytes",
        minimum=1280,
        maximum=9216,
    ),
    Variable(
        name="link_speed",
        kind=Kind.INTEGER,
        help="link rate that every fabric port must report, Mb/s",
        default=200000,
        minimum=1000,
    ),
    Variable(
        name="link_topology",
        kind=Kind.TEXT,
        help="how the nodes are cabled",
        choices=("direct", "switch", "ring"),
    ),
    Variable(
        name="link_control_interface",
        kind=Kind.TEXT,
        help="netdev on which the nodes of a ring meet; unset: the one wired subnet they all share",
    ),
    Variable(
        name="nccl_env",
        kind=Kind.ENVIRONMENT,
        help="NCCL_* and related variables laid over the computed ones",
    ),
    Variable(
        name="nccl_ib_hca",
        kind=Kind.TEXT,
        help="HCAs of this host in NCCL's form (=name:port,... or ^name); unset: of its netdevs",
    ),
    Variable(
        name="nccl_ib_gid_index",
        kind=Kind.TEXT,
        help="auto (leave it to NCCL >= 2.21), unset, or the index on this host",
        default="auto",
    ),
    _port("ray_port", 6379, "port of Ray's head (GCS)"),
    _port("ray_node_manager_port", 6380, "port of each raylet"),
    _port("ray_object_manager_port", 6381, "port of each node's object manager"),
    _port("ray_worker_port_min", 20000, "first port of Ray's worker processes"),
    _port("ray_worker_port_max", 20099, "last port of Ray's worker processes"),
    Variable(
        name="ray_cpus",
        kind=Kind.INTEGER,
        help="CPUs that Ray may count on a node; 2 keeps it from prestarting one worker a core",
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
        name="ray_join_timeout",
        kind=Kind.DURATION,
        help="how long all workers may take to join the head",
        default="2m",
    ),
    Variable(name="vllm_recipe", kind=Kind.TEXT, help="recipe to serve when none is asked for"),
    Variable(name="vllm_model", kind=Kind.TEXT, help="hub id, or a folder under weights_dir"),
    Variable(name="vllm_served_name", kind=Kind.TEXT, help="model name that clients send"),
    _port("vllm_port", 8000, "port of the endpoint on the head"),
    Variable(
        name="vllm_args",
        kind=Kind.MAPPING,
        help="options of `vllm serve` without the dashes: value, list, true, false or null",
    ),
    Variable(
        name="vllm_env",
        kind=Kind.ENVIRONMENT,
        help="environment of every rank",
    ),
    Variable(
        name="vllm_memory_reserve",
        kind=Kind.SIZE,
        help="memory of this host that is kept for its other services",
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
    Variable(
        name="weights_dir",
        kind=Kind.TEXT,
        help="where models live on this host, HF_HOME; ~ is expanded there",
        default="~/vllm",
    ),
    Variable(
        name="weights_source",
        kind=Kind.TEXT,
        help="folder on the control machine to push the model from, instead of the hub",
    ),
    Variable(
        name="weights_strategy",
        kind=Kind.TEXT,
        help="fanout (one node gets the model, the others from it over the fabric), each (every "
        "node downloads), push (from the control machine to each), shared (one store that all "
        "mount: only verified), present (only verified)",
        default="fanout",
        choices=("fanout", "each", "push", "shared", "present"),
    ),
    Variable(
        name="weights_revision",
        kind=Kind.TEXT,
        help="branch, tag or commit of the model on the Hub; a commit pins it for good",
        default="main",
    ),
    Variable(
        name="weights_allow",
        kind=Kind.LIST,
        help="patterns of the model's files that are wanted, such as *.safetensors; unset: all",
    ),
    Variable(
        name="weights_ignore",
        kind=Kind.LIST,
        help="patterns of the model's files that are not wanted, such as original/*",
    ),
    Variable(
        name="weights_drafts",
        kind=Kind.LIST,
        help="draft or speculator models to stage too: ORG/NAME@COMMIT, or a folder here",
    ),
    Variable(
        name="weights_files",
        kind=Kind.LIST,
        help="files to stage right below weights_dir (parser plugins, chat templates, patches): a "
        "path here, or ORG/NAME@COMMIT:FILE",
    ),
    Variable(
        name="weights_offline",
        kind=Kind.FLAG,
        help="never ask the Hub: only what is here or on a node counts",
        default=False,
    ),
    Variable(
        name="engine",
        kind=Kind.TEXT,
        help="what runs vLLM and Ray",
        default="native",
        choices=("native",),
    ),
    Variable(
        name="engine_venv",
        kind=Kind.TEXT,
        help="Python environment with vLLM and Ray on this host (engine: native)",
    ),
)


def default(name: str) -> Any:
    """Return the default of variable `name`; KeyError for a name that is not in the table."""
    return VARIABLES[name].default
