"""The logs of a start: a file, a folder of them, or what a run has kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.quantities import format_size

RUN_LOG = "run.log"  # what a run said itself, beside HOST-ROLE.log of each host
INTERRUPTED = "interrupted-"  # before the name of a log that the run before has left
_MOST = 256 * 1024 * 1024  # bytes of a log
_PROBED = 8192  # bytes that tell whether a file is text


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log: the file's name in its folder, the host that it is of, and what it says."""

    name: str
    host: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBundle:
    """All that is known of a start: its logs, and the run's own, "" where there is none."""

    logs: tuple[LogFile, ...]
    account: str = ""


def load_log_bundle(path: Path) -> LogBundle:
    """Return the log at `path`, or those below it where it is a folder; raises UsageError.

    In a run's folder a file is HOST-ROLE.log; else a file is of the host of its name, or of the
    subfolder that it is in; what is below those, no text, or hidden is left out.
    """
    if path.name == RUN_LOG:
        path = path.parent
    if not path.exists():
        raise UsageError(
            f"{path} is not there", hint="name a log, a folder of logs, or - for standard input"
        )
    try:
        if not path.is_dir():
            return LogBundle(
                logs=(LogFile(name=str(path), host=path.stem, text=_read_log_text(path)),)
            )
        account = path / RUN_LOG
        return LogBundle(
            logs=tuple(_load_log_folder(path)),
            account=_read_log_text(account) if account.is_file() else "",
        )
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error


def _load_log_folder(folder: Path) -> Iterator[LogFile]:
    of_run = (folder / RUN_LOG).is_file()
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        inner = path.relative_to(folder)
        if not _is_log_file(path) or str(inner) == RUN_LOG or inner.name.startswith("."):
            continue
        host = inner.stem if len(inner.parts) == 1 else inner.parts[0]
        if of_run:
            host = inner.stem.removeprefix(INTERRUPTED).rpartition("-")[0] or inner.stem
        yield LogFile(name=str(inner), host=host, text=_read_log_text(path))


def _is_log_file(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"\0" not in file.read(_PROBED)


def _read_log_text(path: Path) -> str:
    size = path.stat().st_size
    if size > _MOST:
        raise UsageError(
            f"{path} has {format_size(size)}: more than a log of a start",
            hint=f"read its end: tail -n 100000 {path} | sparkfleet doctor -",
        )
    return path.read_bytes().decode(errors="replace")
