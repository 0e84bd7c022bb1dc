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
        name="link_interfaces",
        kind=Kind.LIST,
        help="fabric netdevs of this host, one per rail; unset: those whose subnet every node has",
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
        name="nccl_env",
        kind=Kind.ENVIRONMENT,
        help="NCCL_* and related variables laid over the computed ones",
    ),
    Variable(
        name="nccl_ib_gid_index",
        kind=Kind.TEXT,
        help="auto (leave it to NCCL >= 2.21), unset, or the index on this host",
        default="auto",
    ),
    _port("ray_port", 6379, "port of Ray's head (GCS)"),
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
