"""C48: stopping left containers and memory behind, and a set-up rewrote the user's netplan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.errors import UnreachableError
from sparkfleet.model import Host, Status
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from tests.scenes import inventory, play
from tests.weights import UserLink

PLAYBOOK = Path(__file__).parents[2] / "playbooks/cluster-down.yml"
ONHOST = Path(__file__).parents[2] / "sparkfleet/onhost"
FOREIGN = {"theirs": {}, "other": {"sparkfleet.cluster": "another"}}
OURS = {"sparkfleet-test-ray": {"sparkfleet.cluster": "test", "sparkfleet.role": "ray"}}
# A docker that keeps its containers as files in $HOME/containers, as the commands that are used.
DOCKER = """#!/usr/bin/env python3
import json, pathlib, sys
home = pathlib.Path.home() / "containers"
known = {path.name: json.loads(path.read_text()) for path in home.iterdir()}
words = sys.argv[1:]
with open(pathlib.Path.home() / "asked", "a") as log:
    log.write(" ".join(words) + "\\n")
if words[0] == "info":
    print(json.dumps({"DockerRootDir": "/", "ServerVersion": "28.3.3"}))
elif words[0] == "ps":
    wanted = dict(w[len("label="):].partition("=")[::2] for w in words if w.startswith("label="))
    print("\\n".join(n for n, l in known.items()
                    if all(l.get(k) == v or (not v and k in l) for k, v in wanted.items())))
elif words[:2] == ["container", "inspect"]:
    print(json.dumps([{"Id": n, "Name": "/" + n, "State": {"Status": "running", "Pid": 1},
                       "Config": {"Labels": known[n]}} for n in words[2:]]))
elif words[0] == "rm":
    for name in words[3:]:
        (home / name).unlink()
elif words[:2] == ["image", "inspect"]:
    sys.exit(1)
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Callable[[Host], Connection]:
    """Return the way to hosts with a docker of their own each."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(DOCKER)
    (programs / "docker").chmod(0o755)
    for name in ("spark-01", "spark-02"):
        folder = tmp_path / name / "containers"
        folder.mkdir(parents=True)
        for container, labels in {**FOREIGN, **OURS}.items():
            (folder / container).write_text(json.dumps(labels))

    def open_link(host: Host) -> LocalConnection:
        path = f"{programs}:/usr/bin:/bin"
        return UserLink(host.name, HOME=str(tmp_path / host.name), PATH=path)

    return open_link


def _left(tmp_path: Path, host: str) -> list[str]:
    return sorted(path.name for path in (tmp_path / host / "containers").iterdir())


def _down(tmp_path: Path, open_link: Callable[[Host], Connection]) -> tuple[int, dict[str, Status]]:
    known = inventory(engine="docker", engine_image="x")
    text = PLAYBOOK.read_text().partition("  hosts: sparks")[2]
    text = f"- hosts: sparks{text}"
    ended, record = play(tmp_path, text, hosts=known, open_link=open_link)
    return ended.exit_code, {name: one.status for name, one in record.outcomes("Stop").items()}


def test_only_containers_with_our_label_are_removed_on_every_host(
    tmp_path: Path, hosts: Callable[[Host], Connection]
) -> None:
    code, outcomes = _down(tmp_path, hosts)
    assert code == 0
    assert outcomes == dict.fromkeys(("spark-01", "spark-02"), Status.CHANGED)
    for host in ("spark-01", "spark-02"):
        assert _left(tmp_path, host) == ["other", "theirs"]
        asked = (tmp_path / host / "asked").read_text()
        assert not re.search(r"^(rm|stop|kill) .*\b(other|theirs)\b", asked, re.MULTILINE)


def test_a_host_that_fails_does_not_stop_the_rest(
    tmp_path: Path, hosts: Callable[[Host], Connection]
) -> None:
    def open_link(host: Host) -> Connection:
        if host.name == "spark-02":
            raise UnreachableError("no route to host", host=host.name)
        return hosts(host)

    code, outcomes = _down(tmp_path, open_link)
    assert code == 4
    assert outcomes == {"spark-01": Status.CHANGED}
    assert _left(tmp_path, "spark-01") == ["other", "theirs"]
    assert "sparkfleet-test-ray" in _left(tmp_path, "spark-02")


# The programs of links.apply, links.revert and links.repair, which nothing else runs.
NETWORK_PROGRAMS = {"netconfig.py", "network_change.py", "rail_state.py"}
READERS = {"applied.py"}  # compares with what links.apply has kept


def test_no_other_program_touches_the_network() -> None:
    changes = re.compile(
        r"\b(netplan|nmcli|networkctl|resolvectl)\b|\"(link|addr|route)\", \"(set|add|del)"
    )
    programs = {path.name for path in ONHOST.rglob("*.py") if changes.search(path.read_text())}
    assert programs == NETWORK_PROGRAMS
    users = [
        path.name
        for path in ONHOST.rglob("*.py")
        if path.name not in NETWORK_PROGRAMS and "network_change" in path.read_text()
    ]
    assert set(users) == READERS
