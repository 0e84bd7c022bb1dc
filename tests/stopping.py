"""A command line that stops itself (SIGSTOP) after a line with the next mark, until SIGCONT."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from sparkfleet.report.output_streams import OUTPUT, ResilientStream

_flush, _write = ResilientStream.flush, ResilientStream.write
_marks: list[str] = []
_shown: list[str] = []


def stop_at(marks: Sequence[str]) -> None:
    """Let this process stop after a line of its output with each of `marks`, in their order."""
    _marks.extend(marks)
    setattr(ResilientStream, "write", write)  # noqa: B010 - a method of its own name
    setattr(ResilientStream, "flush", flush)  # noqa: B010 - as the line above


def write(stream: ResilientStream, text: str) -> int:
    """Write, and note what is on the standard output."""
    if stream.name == OUTPUT:
        _shown.append(text)
    return _write(stream, text)


def flush(stream: ResilientStream) -> None:
    """Flush, and stop if a whole line with the next mark can now be read."""
    _flush(stream)
    if stream.name == OUTPUT and _marks:
        _, mark, rest = "".join(_shown).partition(_marks[0])
        if mark and "\n" in rest:
            del _marks[0]
            _shown[:] = [rest]
            os.kill(os.getpid(), signal.SIGSTOP)
