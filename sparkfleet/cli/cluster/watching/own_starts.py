"""Starts that this machine made, one for each cluster: what a watcher here may start again."""

from __future__ import annotations

import json
from pathlib import Path

from sparkfleet.launch.watching.start_request import StartRequest, parse_start_request
from sparkfleet.report import output_streams
from sparkfleet.report.log import locate_state_folder, make_state_folder


def save_own_start(cluster: str, request: StartRequest) -> None:
    """Keep `request` in a private folder of this user; a full disk loses only this copy."""
    path = _build_start_path(cluster)
    try:
        make_state_folder(path.parent.name)
        with output_streams.open_stream(path, required=False) as file:
            file.write(json.dumps(request.data(), indent=1, default=str) + "\n")
    except OSError as error:
        output_streams.record_write_error(str(path), error)


def read_own_start(cluster: str) -> StartRequest | None:
    """Return the last start that this machine made, None if there is none."""
    try:
        text = _build_start_path(cluster).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return parse_start_request(text)


def _build_start_path(cluster: str) -> Path:
    return locate_state_folder() / "starts" / f"{cluster}.json"
