"""The full log of a run on disk: every event as text, every verdict and every difference."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Self

from sparkfleet.errors import UsageError
from sparkfleet.report import output_streams, screens
from sparkfleet.report.events import Event, RunStopped
from sparkfleet.report.screens import PlainScreen
from sparkfleet.report.text import TextReporter

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def locate_state_folder() -> Path:
    """Return the state folder of this machine: $XDG_STATE_HOME/sparkfleet."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sparkfleet"


def make_state_folder(*parts: str) -> Path:
    """Make and return a folder below the state folder; all of them are this user's alone.

    Raises OSError. The mode of `Path.mkdir` does not count for the folders above.
    """
    folder = locate_state_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for part in ("", *parts):
        folder /= part
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        folder.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & OTHERS_WRITE:
            folder.chmod(stat.S_IMODE(mode) & ~OTHERS_WRITE)
    return folder


def create_log_folder(run_id: str) -> Path:
    """Make and return the folder of a run, `runs/ID` of the state folder; mode 0700.

    Raises UsageError where it cannot be made.
    """
    folder = locate_state_folder() / "runs" / run_id
    try:
        make_state_folder("runs", run_id)
    except OSError as error:
        raise UsageError(
            f"the log of the run cannot be written to {folder}: {error.strerror}",
            hint="set another folder in the environment: XDG_STATE_HOME=FOLDER",
        ) from error
    return folder


class LogReporter:
    """Writes every event to a file; a full disk ends the log, not the run."""

    def __init__(self, path: Path) -> None:
        self._file = output_streams.open_stream(path, required=False)
        self._text = TextReporter(PlainScreen(self._file), diff=True, verbose=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def handle(self, event: Event) -> None:
        """Write one event immediately."""
        if isinstance(event, RunStopped):  # on the screen it is the error itself
            screens.write_escaped(self._file, "".join(f"{problem}\n" for problem in event.problems))
        self._text.handle(event)
