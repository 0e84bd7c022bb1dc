"""The logs of a start: a file, a folder of files, or the folder of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sparkfleet.errors import UsageError
from sparkfleet.quantities import format_size
from sparkfleet.unreadable_files import UTF_16, refuse_endless_file

LOG_HINT = "pass a log, a folder of logs, or - for standard input"
RUN_LOG = "run.log"  # the run's own log, next to HOST-ROLE.log of each host
INTERRUPTED = "interrupted-"  # prefix of a log that an interrupted run left
_MOST = 256 * 1024 * 1024  # bytes of a log
_PROBED = 8192  # bytes that are read to detect binary files
_COMPRESSED = {  # first bytes, and the program that prints such a file
    b"\x1f\x8b": "gzip -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zXZ\0": "xz -dc",
    b"BZh": "bzip2 -dc",
    b"PK\x03\x04": "unzip -p",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log: its file name in the folder, its host, and its text."""

    name: str
    host: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBundle:
    """The logs of a start, and the run's own log, "" if there is none."""

    logs: tuple[LogFile, ...]
    account: str = ""


def load_log_bundle(path: Path) -> LogBundle:
    """Return the log at `path`, or all logs below a folder; raises UsageError.

    In a run's folder each file is HOST-ROLE.log; elsewhere the host is the file's name, or its
    subfolder. Deeper folders, binary files and hidden files are skipped.
    """
    if path.name == RUN_LOG:
        path = path.parent
    if not path.exists():
        raise UsageError(f"{path} not found", hint=LOG_HINT)
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
        begin = file.read(_PROBED)
    is_text = b"\0" not in begin or begin.startswith(UTF_16)  # as PowerShell writes
    return is_text and not begin.startswith(tuple(_COMPRESSED))


def _read_log_text(path: Path) -> str:
    refuse_endless_file(path)
    with path.open("rb") as file:
        return read_log_stream(file, str(path))


def read_log_stream(file: BinaryIO, name: str) -> str:
    """Return the text of an open log; raises UsageError above 256 MiB, or if it is compressed."""
    content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise UsageError(
            f"{name} is too large: more than {format_size(_MOST)}",
            hint=f"read its end: tail -n 100000 {name} | {{task:doctor}} -",
        )
    for begin, printer in _COMPRESSED.items():
        if content.startswith(begin):
            hint = f"unpack it: {printer} FILE | {{task:doctor}} -"
            raise UsageError(f"{name} is compressed", hint=hint)
    encoding = "utf-16" if content.startswith(UTF_16) else "utf-8"
    return content.decode(encoding, errors="replace")
