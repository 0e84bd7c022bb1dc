from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from sparkfleet import facts
from sparkfleet.commands import build_script_command
from sparkfleet.onhost.host.facts import query_ipv4_address


def _ask(**changes: Any) -> dict[str, dict[str, str]]:
    request = {"weights_dir": "~/vllm", "ports": [], "files": [], "fabric": True} | changes
    command = build_script_command("host/facts", request, python=(sys.executable,))
    done = subprocess.run(command.argv, input=command.input, capture_output=True, check=True)
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)["facts"]
    return answer


def test_every_source_holds_a_text_or_one_reason() -> None:
    for source, item in _ask().items():
        assert len(item) == 1, source
        assert set(item) <= {"text", "missing", "denied", "failed"}


def test_solo_reads_nothing_of_the_fabric() -> None:
    sources = _ask(fabric=False)
    assert not [x for x in sources if "infiniband" in x or "/bus/pci" in x or "rdma" in x]
    assert not facts.parse_facts("here", {"facts": sources}).fabric


def test_a_missing_tool_is_distinguished_from_a_missing_tree() -> None:
    sources = _ask()
    assert sources["ibv_devinfo"] == {"missing": "no ibv_devinfo on PATH"}
    assert "missing" in sources["/etc/dgx-release"]


def test_the_kernels_view_of_this_machine_parses() -> None:
    found = facts.parse_facts("here", {"facts": _ask()})
    loopback = found.netdev("lo")
    assert loopback is not None
    assert loopback.loopback
    assert [str(own) for own in loopback.addresses] == ["127.0.0.1/8"]
    assert found.memory is not None
    assert found.memory.total > found.memory.free > 0


def test_the_disk_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    sources = _ask(weights_dir=str(tmp_path / "not" / "yet"))
    disk = facts.parse_facts("here", {"facts": sources}).disk
    assert disk is not None
    assert disk.folder == str(tmp_path)
    assert 0 < disk.available <= disk.total


def test_a_listener_of_this_user_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = facts.parse_facts("here", {"facts": _ask(ports=[port])})
    (listener,) = [x for x in found.listeners if x.port == port]
    assert str(listener.address) == "127.0.0.1"
    assert listener.pid is not None
    assert listener.name == Path(f"/proc/{listener.pid}/comm").read_text().strip()


def test_the_kernel_gives_an_address_where_ip_is_missing() -> None:
    assert query_ipv4_address("lo") == "127.0.0.1 255.0.0.0"
