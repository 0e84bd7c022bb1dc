"""Start, stop and read the processes of a deployment on one host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sparkfleet.errors import CommandError, LaunchError, UnreachableError
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report import output_streams
from sparkfleet.report.visible import clean_log_text
from sparkfleet.safe_paths import check_relative_path
from sparkfleet.values import convert_mapping, convert_string
from sparkfleet.vllm.milestones import ANSI

STOP_GRACE = 20.0  # seconds for a rank to exit by itself; vLLM and Ray need about one
SETTLE = 0.5  # seconds that a script must run for its start to count, unless it calls exec
CONTAINER_START = 90.0  # seconds for an engine to report a running container
TAIL_LINES = 5  # last lines of a log next to a message
LAST_LINES = 15  # last lines of a log that is the message
TEXT_LINES = 100_000  # lines of a file that is read whole
LOG_LINES = 20000  # lines of a log that are saved
NO_RECORD = DeploymentRecord()


def write_files(
    connection: Connection, location: Mapping[str, str], contents: Mapping[str, str | None]
) -> None:
    """Write files to the cluster's folder on the host, each whole; null removes one."""
    request = {**location, "do": "write", "contents": dict(contents)}

    def write() -> None:
        connection.run_program("deployment/processes", request)

    connection.repeat_after_loss(write)


def read_file(connection: Connection, location: Mapping[str, str], name: str) -> str | None:
    """Return the text of a file in the cluster's folder, without its last newline, or None."""
    path = f"{location['cluster_dir']}/{location['cluster']}/{name}"
    logs = connection.query("deployment/log", {"paths": [path], "lines": LOG_LINES}, _parse_logs)
    return next(iter(logs.values()), None)


def start_process(
    connection: Connection,
    location: Mapping[str, str],
    role: str,
    script: str,
    *,
    hash_: str,
    about: DeploymentRecord = NO_RECORD,
    files: Mapping[str, str] = EMPTY,
    settle: float = SETTLE,
) -> int:
    """Start a rendered script of a deployment and return its PID.

    It counts as started once it execs its program, or still runs after `settle` s: 0 where the
    role is watched next, as by the join gate. `files` are written to the deployment's folder first.
    Where the connection breaks meanwhile, the host is asked whether the script runs; it is not
    started again. Raises LaunchError, with the end of its log, if it exits at once.
    """
    record = {"hash": hash_, "about": about.data()}
    request = {**location, "do": "start", "role": role, "script": script, **record}
    request["contents"] = dict(files)
    try:
        pid = _start_once(connection, location, {**request, "settle": settle})
        if "cli" in location:
            wait = {**location, "do": "settle", "role": role, "stay": SETTLE}
            connection.run_program("deployment/containers", wait, timeout=CONTAINER_START)
    except CommandError as error:
        end = read_tail(connection, location, role, lines=LAST_LINES)
        raise LaunchError(
            error.message, host=connection.host.name, hint=end or error.hint
        ) from error
    return pid


def _start_once(
    connection: Connection, location: Mapping[str, str], request: Mapping[str, Any]
) -> int:
    try:
        return connection.query("deployment/processes", request, lambda answer: int(answer["pid"]))
    except UnreachableError:
        if not connection.is_lost():
            raise
        connection.reconnect()
        pid = _find_started(connection, location, request)
        if pid is None:
            raise
        return pid


def _find_started(
    connection: Connection, location: Mapping[str, str], request: Mapping[str, Any]
) -> int | None:
    """Return the PID of the role that `request` would start, if it runs with the same hash."""
    look = {**location, "do": "started", "role": request["role"], "hash": request["hash"]}
    return connection.query(
        "deployment/processes",
        look,
        lambda answer: None if answer["pid"] is None else int(answer["pid"]),
    )


def stop_processes(
    connection: Connection, location: Mapping[str, str], *, grace: float = STOP_GRACE
) -> int:
    """Stop every process and container of the cluster on the host; return their number.

    Containers are stopped in the configured engine and in the one that was used last.
    """
    request = {**location, "do": "stop", "grace": grace}
    count, last_cli = connection.query(
        "deployment/processes",
        request,
        lambda answer: (len(answer["stopped"]), str(answer["cli"] or "")),
        timeout=grace + 30,
    )
    for cli in dict.fromkeys(filter(None, (last_cli, location.get("cli")))):
        stopped = connection.query(
            "deployment/containers",
            {**request, "cli": cli},
            lambda answer: len(answer["stopped"]),
            timeout=grace + 60,
        )
        count = max(count, stopped)
    return count


def read_log(
    connection: Connection, location: Mapping[str, str], role: str, *, lines: int = LOG_LINES
) -> str:
    """Return the end of a role's log on the host, "" if there is none."""
    return _fetch_logs(connection, location, role, lines).get(role, "")


def read_tail(
    connection: Connection, location: Mapping[str, str], role: str, *, lines: int = TAIL_LINES
) -> str:
    """Return the last lines of a role's log for a message, without ANSI colours."""
    return ANSI.sub("", read_log(connection, location, role, lines=lines)).strip()


def read_logs(
    connection: Connection, location: Mapping[str, str], *, lines: int = LOG_LINES
) -> dict[str, str]:
    """Return the end of every log on the host, by role."""
    return _fetch_logs(connection, location, "*", lines)


def _fetch_logs(
    connection: Connection, location: Mapping[str, str], role: str, lines: int
) -> dict[str, str]:
    path = f"{location['cluster_dir']}/{location['cluster']}/logs/{role}.log"
    logs = connection.query("deployment/log", {"paths": [path], "lines": lines}, _parse_logs)
    return {PurePosixPath(name).stem: text for name, text in logs.items()}


def _parse_logs(answer: Mapping[str, Any]) -> dict[str, str]:
    logs = convert_mapping(answer["logs"])
    for name in logs:
        check_relative_path("name of a log", PurePosixPath(name).name)
    return {name: convert_string(text) for name, text in logs.items()}


def read_host_text(connection: Connection, path: str) -> str:
    """Return the text of a file on the host, "" where there is none."""
    request = {"paths": [path], "lines": TEXT_LINES}
    return connection.query(
        "deployment/log", request, lambda answer: convert_string(answer["logs"].get(path, ""))
    )


def save_logs(
    connection: Connection, location: Mapping[str, str], folder: Path, *, prefix: str = ""
) -> list[Path]:
    """Save every log on the host to `folder`, as HOST-ROLE.log; a full disk is only reported.

    Control characters are escaped, since users `cat` these files on a terminal.
    """
    saved = []
    for role, text in read_logs(connection, location).items():
        path = folder / f"{prefix}{connection.host.name}-{role}.log"
        try:
            with output_streams.open_stream(path, required=False) as file:
                file.write(clean_log_text(text))
        except OSError as error:
            output_streams.record_write_error(str(path), error)
        saved.append(path)
    return saved


def replace_cli(location: Mapping[str, str], cli: str) -> dict[str, str]:
    """Return `location` for a deployment of another engine: `cli`, or native for ""."""
    bare = {key: value for key, value in location.items() if key != "cli"}
    return {**bare, "cli": cli} if cli else bare


def locate_deployment(settings: Settings, cluster: str) -> dict[str, str]:
    """Return the part of a request that locates the cluster's files on the host."""
    location = {"cluster_dir": settings.cluster_dir, "cluster": cluster}
    engine = read_engine_kind(settings)
    return location if engine == NATIVE else {**location, "cli": engine}
