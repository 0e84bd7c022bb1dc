"""A line about another host is that host's, whichever log it is in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.matcher import find_known_failures
from sparkfleet.doctor.subjects import find_subject, map_node_ids

NODE = "ada3a3771fac751bd7c6b674e3b5e2df045b93550e6d31a410cad0be"
DEAD = "has been marked dead because the detector has missed too many heartbeats from it."
HEAD = "2026-11-28 10:02:11,412\tINFO scripts.py:1011 -- Local node IP: 192.168.100.1\n"
WORKER = "2026-11-28 10:02:12,901\tINFO scripts.py:1152 -- Local node IP: 192.168.100.2\n"
MEMORY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    f"Memory on the node (IP: 192.168.100.2, ID: {NODE}) where the task was running was 119GB\n"
)
KILLED = (
    "2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to "
    f"other reasons at node (ID: {NODE}, IP: 192.168.100.2) over the last time period."
)


@pytest.mark.parametrize(
    "text",
    [
        f"The node with node id: {NODE} and address: 192.168.100.2 and node name: x {DEAD}",
        f"The node with node id: 75b2 and ip: 192.168.100.2 {DEAD}",
        f"The node with node id {NODE} {DEAD}",
        MEMORY,
        KILLED,
        f"Node IP: 192.168.100.2, node ID: {NODE}. This can happen if the node was preempted",
        f'{{"custom_fields":{{"ip":"192.168.100.2","node_id":"{NODE}"}},"event_id":"1"}}',
    ],
)
def test_the_node_that_a_line_names_is_read(text: str) -> None:
    assert find_subject(text, {NODE: "192.168.100.2"}) == "192.168.100.2"


@pytest.mark.parametrize(
    "text",
    [
        "Connecting to existing Ray cluster at address: 192.168.100.1:6379...",
        "[c10d] The client socket has timed out connecting to (192.168.100.2, 29500)",
        f"The node with node id {NODE} {DEAD}",  # nothing says which one has that id
        "GCS failed to check the health of this node for 5 times.",
    ],
)
def test_an_address_of_a_peer_is_not_what_a_line_is_about(text: str) -> None:
    assert find_subject(text) is None


def test_ids_are_known_from_any_log() -> None:
    logs = [f"The node with node id: {NODE} and address: 192.168.100.2 {DEAD}", "nothing"]
    assert map_node_ids(logs) == {NODE: "192.168.100.2"}


def _hosts(id_: str, head: str) -> set[str]:
    logs = {"spark-01": HEAD + head, "spark-02": WORKER}
    return {finding.host for finding in find_known_failures(logs) if finding.id == id_}


@pytest.mark.parametrize(
    ("id_", "line"),
    [
        (
            "ray-node-marked-dead",
            (
                f"(raylet) The node with node id: {NODE} and address: 192.168.100.2 "
                f"and node name: x {DEAD}"
            ),
        ),
        ("ray-memory-monitor", MEMORY),
        ("ray-memory-monitor", KILLED),
    ],
)
def test_a_failure_that_the_head_reports_of_a_worker_is_the_workers(id_: str, line: str) -> None:
    assert _hosts(id_, line) == {"spark-02"}
    assert _hosts(id_, line.replace("192.168.100.2", "192.168.100.1")) == {"spark-01"}
    assert _hosts(id_, line.replace("192.168.100.2", "192.168.100.9")) == {"192.168.100.9"}


def test_a_failure_without_an_address_is_of_the_host_of_its_log() -> None:
    line = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
    other = f"The node with node id: {NODE} and address: 192.168.100.2 {DEAD}"
    assert _hosts("ray-memory-monitor", f"{line}\n{other}\n") == {"spark-01"}


def test_the_first_error_that_a_worker_printed_into_the_heads_log_is_the_workers() -> None:
    prefix = "(RayWorkerProc pid=227, ip=192.168.100.2) "
    head = f"{HEAD}{prefix}ValueError: no such thing\n"
    logs = (
        LogFile(name="spark-01-serve.log", host="spark-01", text=head),
        LogFile(name="spark-02-ray.log", host="spark-02", text=WORKER),
    )
    (error,) = diagnose_logs(LogBundle(logs=logs)).errors
    assert (error.host, error.log) == ("spark-02", "spark-01-serve.log")
    own = replace(logs[0], text=head.replace(prefix, ""))
    (error,) = diagnose_logs(LogBundle(logs=(own, logs[1]))).errors
    assert error.host == "spark-01"
