"""C35: a list of hosts was split into letters, a step failed with a bare rc=1, a client got 404."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.options import Options, parse_options
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.model import Status
from tests import scenes
from tests.engines import deployed, executed, option
from tests.gb10 import output

HOSTS = "sparks:\n  hosts: {spark1: {}, spark2: {}, spark3: {}}\n"


def test_the_recorded_split_is_into_letters() -> None:
    assert "s, p, a, r, k, 1" in output("ssh.bad-hosts-split-into-characters.txt")


@pytest.mark.parametrize(
    "limit", ["spark1,spark2", ["spark1,spark2"], ["spark1", "spark2"], ("spark1", "spark2")]
)
def test_commas_repeated_use_and_a_list_are_one(limit: Any, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(HOSTS)
    pattern = parse_options(Options, "cluster.down", {"limit": limit}).limit
    assert pattern is not None
    assert [host.name for host in select_hosts(load_inventory([str(path)]), pattern)] == [
        "spark1",
        "spark2",
    ]


@pytest.mark.parametrize("hosts", ['"spark1,spark2"', "[spark1, spark2]", "'spark1:spark2'"])
def test_so_are_those_of_a_cluster(hosts: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(f"{HOSTS}  vars:\n    clusters: {{desk: {{hosts: {hosts}}}}}\n")
    chosen = choose_cluster(load_inventory([str(path)]), name="desk")
    assert [host.name for host in chosen.hosts] == ["spark1", "spark2"]


def test_no_limit_is_none() -> None:
    assert parse_options(Options, "cluster.down", {"limit": []}).limit is None
    assert parse_options(Options, "cluster.down", {}).limit is None


def test_a_step_that_fails_shows_its_stderr(tmp_path: Path) -> None:
    _, record = scenes.play(tmp_path, "- {name: hook, shell: 'echo no room left >&2; exit 1'}")
    for outcome in record.outcomes("hook").values():
        assert outcome.status is Status.FAILED
        assert "exit status 1" in outcome.message
        assert "no room left" in outcome.message


@pytest.mark.parametrize(
    ("own", "name"), [({}, "org/model"), ({"vllm_served_name": "brief"}, "brief")]
)
def test_clients_use_the_name_that_is_served(own: dict[str, Any], name: str) -> None:
    made, files = deployed(**own)
    words = executed(files["spark-1"]["vllm-serve.sh"])
    assert option(words, "served-model-name") == [name]
    assert made.served_name == name
