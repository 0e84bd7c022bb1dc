"""Look at the gateway on its host, start, reload, steer and stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.launch.gateway.rendering import FILES, SCRIPT
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.onhost.shared.endpoint_url import build_local_url
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.values import (
    convert_flag,
    convert_integer,
    convert_list,
    convert_mapping,
    convert_string,
)
from sparkfleet.variables.gateway import GATEWAY

PROGRAM = "deployment/gateway"
ROLE = "gateway"
RECEIPT = "receipt.json"
SERVER_FIELDS = ("pxname", "svname", "status", "check_status", "last_chk", "scur", "stot")
START_LIMIT = 30.0  # seconds for HAProxy to start a worker; it takes less than one
MARGIN = 30.0  # seconds in addition to a limit
STOP_GRACE = 5.0  # seconds for HAProxy to end once its streams have


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendServer:
    """A server as HAProxy sees it: its `state` (UP, DOWN, MAINT, DRAIN) and why, and its load."""

    backend: str
    name: str
    state: str
    check: str
    requests: int  # that run now
    served: int  # since the worker was started

    @property
    def up(self) -> bool:
        """Whether it gets requests."""
        return self.state.startswith("UP")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLook:
    """The gateway on its host: what is installed, written and running.

    `version` is that of HAProxy, "" where it is not installed; `hash` is of the files that its
    worker was started with, "" where none answers. `recorded`: it was started, and not stopped.
    """

    version: str
    folder: str
    files: Mapping[str, str | None]
    recorded: bool
    runs: bool
    hash: str
    servers: tuple[BackendServer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendVerdict:
    """The answer of a backend that serves nothing, and whether its servers get requests."""

    backend: str
    reason: str
    servers: Mapping[str, bool]


def locate_gateway(settings: Settings) -> dict[str, str]:
    """Return the part of a request that locates the gateway's files on its host."""
    return {"cluster_dir": settings.cluster_dir, "cluster": GATEWAY}


def look_at_gateway(connection: Connection, settings: Settings) -> GatewayLook:
    """Return the state of the gateway; read-only."""
    request = {**locate_gateway(settings), "do": "look", "files": [*FILES, RECEIPT]}
    return connection.query(PROGRAM, request, _parse_look)


def write_gateway_files(
    connection: Connection, settings: Settings, contents: Mapping[str, str | None]
) -> None:
    """Put files in place once HAProxy has accepted them; null removes one. Raises CommandError."""
    request = {**locate_gateway(settings), "do": "write", "contents": dict(contents)}
    connection.run_program(PROGRAM, request)


def start_gateway(
    connection: Connection, settings: Settings, hash_: str, about: DeploymentRecord
) -> None:
    """Start HAProxy with the files on the host, and wait for its worker; raises HostError."""
    where = locate_gateway(settings)
    processes.start_process(connection, where, ROLE, SCRIPT, hash_=hash_, about=about)
    request = {**where, "do": "wait", "hash": hash_, "limit": START_LIMIT}
    connection.run_program(PROGRAM, request, timeout=START_LIMIT + MARGIN)


def reload_gateway(connection: Connection, settings: Settings, hash_: str) -> None:
    """Start a worker with the files on the host; streams of the former go on. Raises HostError."""
    request = {
        **locate_gateway(settings),
        "do": "reload",
        "hash": hash_,
        "limit": START_LIMIT,
    }
    connection.run_program(PROGRAM, request, timeout=START_LIMIT + MARGIN)


def stop_gateway(connection: Connection, settings: Settings, *, drain: float) -> bool:
    """Stop HAProxy; streams have `drain` s to end. Return whether all have."""
    where = locate_gateway(settings)
    request = {**where, "do": "finish", "limit": drain}
    ended = connection.query(
        PROGRAM, request, lambda answer: bool(answer["ended"]), timeout=drain + MARGIN
    )
    processes.stop_processes(connection, where, grace=STOP_GRACE)
    return ended


def set_verdicts(
    connection: Connection, settings: Settings, verdicts: Sequence[BackendVerdict]
) -> None:
    """Set in the running HAProxy which clusters get requests, and why the others do not."""
    content = [
        {"backend": each.backend, "reason": each.reason, "servers": dict(each.servers)}
        for each in verdicts
    ]
    request = {**locate_gateway(settings), "do": "verdicts", "verdicts": content}
    connection.run_program(PROGRAM, request)


def drain_servers(
    connection: Connection, settings: Settings, servers: Sequence[BackendServer], limit: float
) -> int:
    """Send servers no more requests, wait `limit` s for the rest; return how many are left."""
    pairs = [[each.backend, each.name] for each in servers]
    request = {**locate_gateway(settings), "do": "drain", "servers": pairs, "limit": limit}
    return connection.query(
        PROGRAM, request, lambda answer: int(answer["left"]), timeout=limit + MARGIN
    )


def list_gateway_models(connection: Connection, *, bind: str, port: int, key: str) -> list[str]:
    """Return the names that the gateway lists to a client on its own host; raises CommandError."""
    request = {"url": build_local_url(bind, port), "key": key}
    return connection.query(
        f"{PROGRAM}_models",
        request,
        lambda answer: list(map(convert_string, convert_list(answer["models"]))),
    )


def _parse_look(answer: Mapping[str, Any]) -> GatewayLook:
    return GatewayLook(
        version=convert_string(answer["version"]),
        folder=convert_string(answer["folder"]),
        files={
            name: None if text is None else convert_string(text)
            for name, text in convert_mapping(answer["files"]).items()
        },
        recorded=convert_flag(answer["recorded"], strict=True),
        runs=convert_flag(answer["runs"], strict=True),
        hash=convert_string(answer["hash"]),
        servers=tuple(map(_parse_server, convert_list(answer["servers"]))),
    )


def _parse_server(row: Mapping[str, Any]) -> BackendServer:
    texts = {name: convert_string(row[name]) for name in SERVER_FIELDS}
    return BackendServer(
        backend=texts["pxname"],
        name=texts["svname"],
        state=texts["status"],
        check=" ".join(filter(None, (texts["check_status"], texts["last_chk"]))),
        requests=convert_integer(texts["scur"] or 0, minimum=0),
        served=convert_integer(texts["stot"] or 0, minimum=0),
    )
