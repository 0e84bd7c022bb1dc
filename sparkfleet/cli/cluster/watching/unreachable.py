"""Hosts of a cluster that did not answer: unknown, never stopped, until they answer again.

The only state that this machine keeps between runs; everything else is read from the hosts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sparkfleet.model import Cluster
from sparkfleet.report import output_streams
from sparkfleet.report.log import locate_state_folder, make_state_folder
from sparkfleet.values import parse_json

UnreachableEntry = Mapping[str, str]  # address, since, command


def format_unreachable(cluster: Cluster) -> dict[str, str]:
    """Return a sentence for each host of the cluster that has not answered since, by name.

    A host whose address has changed is a different host.
    """
    addresses = {host.name: host.address for host in cluster.hosts}
    return {
        name: f"{name} has not answered since {entry['since']} ({entry['command']}): what runs "
        "there is unknown; its ports and memory are treated as in use until it answers"
        for name, entry in _read_unreachable(_build_record_path(cluster)).items()
        if entry["since"] and addresses.get(name) == entry["address"]
    }


def update_unreachable(
    cluster: Cluster, *, lost: Iterable[str], answered: Iterable[str], command: str
) -> None:
    """Record the hosts in `lost` that answered before, with the first time that they did not.

    A host that never answered, such as one with a mistyped address, has nothing that could run. An
    entry without `since` is of a host that answered.
    """
    previous = _read_unreachable(_build_record_path(cluster))
    entries = dict(previous)
    lost_names = set(lost)
    answered_names = set(answered)
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    for host in cluster.hosts:
        entry = entries.get(host.name, {})
        is_known = entry.get("address") == host.address
        if host.name not in lost_names:
            if host.name in answered_names:
                entries[host.name] = {"address": host.address, "since": "", "command": ""}
        elif (is_known or host.name in answered_names) and not (is_known and entry["since"]):
            entries[host.name] = {"address": host.address, "since": now, "command": command}
    if entries != previous:
        _write_unreachable(_build_record_path(cluster), entries)


def _read_unreachable(path: Path) -> dict[str, UnreachableEntry]:
    try:
        entries: Any = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _write_unreachable(path: Path, entries: Mapping[str, UnreachableEntry]) -> None:
    new = path.with_suffix(".new")
    try:
        make_state_folder(path.parent.name)
        new.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        output_streams.record_write_error(str(path), error)


def _build_record_path(cluster: Cluster) -> Path:
    return locate_state_folder() / "unknown" / f"{cluster.name}.json"
