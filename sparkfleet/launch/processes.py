"""Starting, stopping and reading the processes of a deployment on one host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from sparkfleet.errors import CommandError, LaunchError
from sparkfleet.launch.engines import NATIVE, kind
from sparkfleet.launch.milestones import ANSI
from sparkfleet.launch.transaction import About
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.report import lasting
from sparkfleet.report.visible import log_text

STOP_GRACE = 20.0  # s that a rank gets to end by itself; vLLM and Ray need about one
SETTLE = 0.5  # s that a script must live for its start to count
CONTAINER_START = 90.0  # s that an engine gets to say that a container runs
TAIL_LINES = 5  # of a log that says more by itself
LAST_LINES = 15  # of a log that a message quotes
LOG_LINES = 20000  # lines of a log that are saved
NOTHING = About()


def write_files(link: Link, place: Mapping[str, str], contents: Mapping[str, str | None]) -> None:
    """Put files into the cluster's folder on the host; null removes one."""
    link.ask("deployment", {**place, "do": "write", "contents": dict(contents)})


def read_file(link: Link, place: Mapping[str, str], name: str) -> str | None:
    """Return the text of a file in the cluster's folder, without its last line end, or None."""
    path = f"{place['cluster_dir']}/{place['cluster']}/{name}"
    logs: Mapping[str, str] = link.ask("log", {"paths": [path], "lines": LOG_LINES})["logs"]
    return next(iter(logs.values()), None)


def start(
    link: Link,
    place: Mapping[str, str],
    role: str,
    script: str,
    *,
    hash_: str,
    about: About = NOTHING,
) -> int:
    """Start a rendered script of a deployment and return its PID.

    Raises LaunchError, with the end of its log, if it ends at once.
    """
    known = {"hash": hash_, "about": about.data()}
    request = {**place, "do": "start", "role": role, "script": script, **known}
    try:
        pid = int(link.ask("deployment", {**request, "settle": SETTLE})["pid"])
        if "cli" in place:
            wait = {**place, "do": "settle", "role": role, "stay": SETTLE}
            link.ask("containers", wait, timeout=CONTAINER_START)
    except CommandError as error:
        end = read_tail(link, place, role, lines=LAST_LINES)
        raise LaunchError(error.message, host=link.host.name, hint=end or error.hint) from error
    return pid


def stop(link: Link, place: Mapping[str, str], *, grace: float = STOP_GRACE) -> int:
    """End every process and container of the cluster on the host; return how many there were.

    Containers are those of the engine that is configured, and of the one that was used last.
    """
    request = {**place, "do": "stop", "grace": grace}
    answer = link.ask("deployment", request, timeout=grace + 30)
    count = len(answer["stopped"])
    for cli in dict.fromkeys(filter(None, (answer["cli"], place.get("cli")))):
        answer = link.ask("containers", {**request, "cli": cli}, timeout=grace + 60)
        count = max(count, len(answer["stopped"]))
    return count


def read_log(link: Link, place: Mapping[str, str], role: str, *, lines: int = LOG_LINES) -> str:
    """Return the end of a role's log on the host, "" where there is none."""
    return _logs(link, place, role, lines).get(role, "")


def read_tail(link: Link, place: Mapping[str, str], role: str, *, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a role's log for a message, without what colours a terminal."""
    return ANSI.sub("", read_log(link, place, role, lines=lines)).strip()


def read_logs(link: Link, place: Mapping[str, str], *, lines: int = LOG_LINES) -> dict[str, str]:
    """Return the end of every log on the host, by role."""
    return _logs(link, place, "*", lines)


def _logs(link: Link, place: Mapping[str, str], role: str, lines: int) -> dict[str, str]:
    path = f"{place['cluster_dir']}/{place['cluster']}/logs/{role}.log"
    logs: Mapping[str, str] = link.ask("log", {"paths": [path], "lines": lines})["logs"]
    return {PurePosixPath(name).stem: text for name, text in logs.items()}


def save_logs(
    link: Link, place: Mapping[str, str], folder: Path, *, prefix: str = ""
) -> list[Path]:
    """Save every log on the host into `folder`, as HOST-ROLE.log, as far as its disk takes them.

    People `cat` them, so what a terminal would obey is an escape there.
    """
    saved = []
    for role, text in read_logs(link, place).items():
        path = folder / f"{prefix}{link.host.name}-{role}.log"
        try:
            with lasting.text(path, asked=False) as file:
                file.write(log_text(text))
        except OSError as error:
            lasting.lose(str(path), error)
        saved.append(path)
    return saved


def place_of(place: Mapping[str, str], cli: str) -> dict[str, str]:
    """Return `place` for what was started by another engine: by `cli`, or natively where ""."""
    bare = {key: value for key, value in place.items() if key != "cli"}
    return {**bare, "cli": cli} if cli else bare


def place(settings: Settings, cluster: str) -> dict[str, str]:
    """Return the part of a request that says where on the host the cluster's files are."""
    found = {"cluster_dir": settings.cluster_dir, "cluster": cluster}
    engine = kind(settings)
    return found if engine == NATIVE else {**found, "cli": engine}
