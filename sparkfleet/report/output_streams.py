"""Files that a run outlives: a pipe without a reader, a closed terminal, a full disk."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from sparkfleet.report.visible import escape_control

GONE = (errno.EPIPE, errno.EIO)  # there is no reader any more: ``| head``, a closed terminal
OUTPUT = 1
ERRORS = 2
NAMES: Mapping[int | str, str] = {OUTPUT: "standard output", ERRORS: "standard error"}

_lost: dict[str, str] = {}  # name -> why
_required: set[str] = set()
_unread: set[str] = set()


class ResilientStream(io.TextIOWrapper):
    """A file that never fails on a write: text that cannot be written is dropped.

    Errors are handled at the text layer: an interrupt in one of Python's raw files would write
    the text twice.
    """

    def write(self, text: str, /) -> int:
        """Write `text`, or drop it."""
        try:
            return super().write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Flush the buffer, or drop it."""
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Record why, unless there is no reader any more, and discard all that follows."""
        name = _resolve_stream_name(self.name)
        if error.errno in GONE:
            _unread.add(name)
        else:
            record_write_error(name, error)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def _resolve_stream_name(name: int | str) -> str:
    return NAMES.get(name, str(name))


def open_stream(target: int | Path, *, required: bool, encoding: str = "utf-8") -> TextIO:
    """Open a descriptor or a path for writes that never fail; `required` if the user named it.

    Characters that `encoding` lacks become escapes. Raises OSError if it cannot be opened.
    """
    raw = io.FileIO(target, "w", closefd=not isinstance(target, int))
    if required:
        _required.add(_resolve_stream_name(raw.name))
    return ResilientStream(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=target == ERRORS or raw.isatty(),
    )


def protect_standard_streams() -> None:
    """Replace standard output and error by such files, and open closed descriptors on /dev/null.

    Otherwise the next file to be opened would get that descriptor, and receive the output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    for descriptor, name in ((OUTPUT, "stdout"), (ERRORS, "stderr")):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):  # else a test listens
            encoding = stream.encoding if stream else "utf-8"
            setattr(
                sys, name, open_stream(descriptor, required=descriptor == OUTPUT, encoding=encoding)
            )


def has_reader() -> bool:
    """Return whether standard output may still have a reader; a task that only prints can stop."""
    return NAMES[OUTPUT] not in _unread


def record_write_error(name: str, error: OSError) -> None:
    """Record that the file `name` is incomplete."""
    _lost.setdefault(name, error.strerror or str(error))


def record_missing_output(name: str, error: OSError) -> None:
    """Record that a file that the user named could not be written."""
    _required.add(name)
    record_write_error(name, error)


def flush_streams() -> bool:
    """Flush the streams, report incomplete output, and return whether the user requested it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    for name, why in _lost.items():
        sys.stderr.write(escape_control(f"{name} could not be written: {why}\n"))
    return not _required.isdisjoint(_lost)
