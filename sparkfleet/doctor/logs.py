"""The logs of a start: a file, a folder of them, or what a run has kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.quantities import show_size

RUN_LOG = "run.log"  # what a run said itself, beside HOST-ROLE.log of each host
INTERRUPTED = "interrupted-"  # before the name of a log that the run before has left
_MOST = 256 * 1024 * 1024  # bytes of a log
_PROBED = 8192  # bytes that tell whether a file is text


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log: the file's name in its folder, the host that it is of, and what it says."""

    name: str
    host: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of a start: its logs, and the run's own, "" where there is none."""

    logs: tuple[Log, ...]
    account: str = ""


def read(path: Path) -> Case:
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
            return Case(logs=(Log(name=str(path), host=path.stem, text=_text(path)),))
        account = path / RUN_LOG
        return Case(logs=tuple(_folder(path)), account=_text(account) if account.is_file() else "")
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error


def _folder(folder: Path) -> Iterator[Log]:
    of_run = (folder / RUN_LOG).is_file()
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        inner = path.relative_to(folder)
        if not _is_log(path) or str(inner) == RUN_LOG or inner.name.startswith("."):
            continue
        host = inner.stem if len(inner.parts) == 1 else inner.parts[0]
        if of_run:
            host = inner.stem.removeprefix(INTERRUPTED).rpartition("-")[0] or inner.stem
        yield Log(name=str(inner), host=host, text=_text(path))


def _is_log(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"\0" not in file.read(_PROBED)


def _text(path: Path) -> str:
    size = path.stat().st_size
    if size > _MOST:
        raise UsageError(
            f"{path} has {show_size(size)}: more than a log of a start",
            hint=f"read its end: tail -n 100000 {path} | sparkfleet doctor -",
        )
    return path.read_bytes().decode(errors="replace")
