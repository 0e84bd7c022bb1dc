"""`init`: the files of a new project, from options, questions and facts."""

from __future__ import annotations

import os
import pty
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.cli import defaults, prompt
from sparkfleet.cli.init import mdns, project
from sparkfleet.cli.init.answers import build_hosts, fits_by_size
from sparkfleet.cli.init.discovery import parse_announcements
from sparkfleet.cli.init.files import _format_value
from sparkfleet.cli.init.findings import HostReading, examine_hosts
from sparkfleet.cli.init.options import (
    InitOptions,
    Machine,
    parse_machine,
)
from sparkfleet.cli.options import parse_options
from sparkfleet.errors import (
    AuthenticationError,
    HostError,
    HostKeyError,
    RecipeError,
    UnreachableError,
    UsageError,
)
from sparkfleet.facts import HostFacts
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.launch.endpoint.listening import has_api_key
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import Host
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import Answers
from tests import gb10

Init = Callable[..., int]
PAIR = ["spark-1=nvidia@192.168.1.1", "spark-2=nvidia@192.168.1.2"]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """Call `init` in an empty folder; hosts answer with the facts that the test gives."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prompt, "is_interactive", lambda: False)

    def type_it(
        *, facts: dict[str, HostFacts] | None = None, lost: Any = None, **typed: Any
    ) -> int:
        readings = {name: HostReading(facts=each) for name, each in (facts or {}).items()}
        read: Answers[HostReading] = Answers(values=readings, errors=lost or {})
        monkeypatch.setattr(project, "read_hosts", lambda *_: read)
        return project.create_project(parse_options(InitOptions, "init", typed))

    return type_it


def _pair_facts() -> dict[str, HostFacts]:
    return {spark.name: spark.facts() for spark in gb10.pair()}


def test_the_inventory_has_what_was_found_and_nothing_else(init: Init, tmp_path: Path) -> None:
    assert init(host=PAIR, facts=_pair_facts()) == 0
    text = (tmp_path / "inventories/local.yml").read_text()
    cluster = choose_cluster(load_inventory([str(tmp_path / "inventories/local.yml")]))
    assert [host.name for host in cluster.hosts] == ["spark-1", "spark-2"]
    assert cluster.head.get("link_topology") == "direct"
    assert cluster.head.get("ansible_user") == "nvidia"
    assert cluster.head.get("vllm_recipe") == "gpt-oss-20b"
    mine = cluster.head.get("link_cables")
    theirs = cluster.hosts[1].get("link_cables")
    assert {f"spark-1:{name}" for name in mine} == set(theirs.values())
    assert {f"spark-2:{name}" for name in theirs} == set(mine.values())
    assert len(text.splitlines()) < 16


def test_the_api_key_is_in_a_file_of_its_owner(
    init: Init, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(host=["local"], facts={}) == 0
    file = tmp_path / "api-key"
    key = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(key) == 32
    assert "api-key" in (tmp_path / ".gitignore").read_text()
    written = (tmp_path / "inventories/local.yml").read_text()
    assert key not in written + capsys.readouterr().out
    (host,) = load_inventory([str(tmp_path / "inventories/local.yml")]).hosts.values()
    assert has_api_key(Settings(host=host))
    assert init(host=["local"], facts={}, replace=True) == 0
    assert file.read_text().strip() == key


def test_an_api_key_is_left_out_on_demand(init: Init, tmp_path: Path) -> None:
    assert init(host=["local"], facts={}, api_key=False) == 0
    assert not (tmp_path / "api-key").exists()
    assert "VLLM_API_KEY" not in (tmp_path / "inventories/local.yml").read_text()


def test_the_other_files_work(init: Init, tmp_path: Path) -> None:
    assert init(host=["local"], facts={}) == 0
    assert defaults.find_inventory_files(()) == ["inventories/local.yml"]
    load_playbook(tmp_path / "playbooks/example.yml")
    compile((tmp_path / "tasks.py").read_text(), "tasks.py", "exec")


def test_a_host_that_does_not_answer_is_left_for_later(
    init: Init, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {"spark-2": UnreachableError("no route", host="spark-2")}
    facts = {"spark-1": _pair_facts()["spark-1"]}
    assert init(host=PAIR, facts=facts, lost=lost) == 4
    assert "link_" not in (tmp_path / "inventories/local.yml").read_text()
    shown = capsys.readouterr().out
    assert "no route" in shown
    assert "sparkfleet init --replace" in shown


@pytest.mark.parametrize(
    ("error", "tasks"),
    [
        (HostKeyError, ["hosts.trust", "hosts.authorize"]),
        (AuthenticationError, ["hosts.authorize"]),  # its host key was compared before
        (UnreachableError, []),
    ],
)
def test_what_is_next_leaves_out_what_was_done(
    init: Init, capsys: pytest.CaptureFixture[str], error: type[HostError], tasks: list[str]
) -> None:
    facts = {"spark-1": _pair_facts()["spark-1"]}
    init(host=PAIR, facts=facts, lost={"spark-2": error("refused", host="spark-2")})
    _, _, after = capsys.readouterr().out.partition("next:")
    assert re.findall(r"hosts\.\w+", after) == tasks


def test_an_inventory_that_exists_is_kept_and_replaced_on_demand(
    init: Init, tmp_path: Path
) -> None:
    path = tmp_path / "inventories/local.yml"
    path.parent.mkdir()
    path.write_text("mine")
    (tmp_path / "tasks.py").write_text("mine")
    with pytest.raises(UsageError, match="exists, and is kept"):
        init(host=["local"])
    assert init(host=["local"], replace=True) == 0
    assert path.with_name("local.yml.old").read_text() == "mine"
    assert (tmp_path / "tasks.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("typed", "error", "message"),
    [
        ({}, UsageError, "no Spark was named, and there is no terminal to ask on"),
        ({"yes": True}, UsageError, "no Spark was named\n"),
        ({"host": ["a", "a"]}, UsageError, "two Sparks have the address a"),
        ({"host": ["x=a", "x=b"]}, UsageError, "two Sparks have the name x"),
        ({"host": ["me@"]}, UsageError, "expected an address"),
        ({"host": ["-x"]}, UsageError, "expected an address"),
        ({"host": ["a"], "recipe": "nope"}, RecipeError, "'nope' not found"),
    ],
)
def test_wrong_answers_are_refused_before_a_host_is_touched(
    init: Init, tmp_path: Path, typed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        init(**typed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("192.168.1.11", Machine(address="192.168.1.11")),
        ("nvidia@spark-a.local", Machine(address="spark-a.local", user="nvidia")),
        ("a=me@10.0.0.1:2222", Machine(address="10.0.0.1", name="a", user="me", port=2222)),
    ],
)
def test_a_machine_is_an_address_with_a_name_a_user_and_a_port(text: str, machine: Machine) -> None:
    assert parse_machine(text) == machine


def test_users_that_differ_are_written_with_their_hosts(init: Init, tmp_path: Path) -> None:
    assert init(host=["me@a", "you@b"]) == 0
    loaded = load_inventory([str(tmp_path / "inventories/local.yml")])
    assert [host.get("ansible_user") for host in loaded.hosts.values()] == ["me", "you"]


def test_the_rails_with_a_cable_are_shown() -> None:
    spark, _ = gb10.pair()
    facts = spark.text("nvidia-smi", "").facts()
    host = Host(name=spark.name)
    lines = examine_hosts({spark.name: HostReading(facts=facts)}, (host,)).lines
    assert any("rail enp1s0f" in line for line in lines)


def test_recipes_are_offered_by_the_size_of_their_weights() -> None:
    assert fits_by_size(load_recipe("gpt-oss-120b"), 1)
    assert not fits_by_size(load_recipe("gpt-oss-20b"), 1)  # no size is published
    assert not fits_by_size(load_recipe("llama-3.3-70b-tp2"), 1)


def test_hosts_without_a_name_are_numbered() -> None:
    hosts = build_hosts([Machine(address="a"), Machine(address="b")])
    assert [host.name for host in hosts] == ["spark1", "spark2"]


def test_a_terminal_is_asked_and_shown_the_inventory_first(tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    words = [sys.executable, "-m", "sparkfleet", "init", "my"]
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "80"}
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment
    ) as process:
        os.close(theirs)
        os.write(mine, b"local\n\nlab-tiny\ny\n")
        shown = b""
        try:
            while piece := os.read(mine, 65536):
                shown += piece
        except OSError:  # its end on Linux
            pass
        os.close(mine)
    text = shown.decode()
    assert process.returncode == 0, text
    assert "first Spark, the head" in text
    assert text.index("vllm_recipe: lab-tiny") < text.index("write it and 4 more files into my?")
    assert (tmp_path / "my/inventories/local.yml").is_file()


def _read_bare_pair() -> dict[str, HostReading]:
    """Return a pair whose rails have no addresses, each with the other's MAC on its wires."""
    readings = {}
    for spark in gb10.pair():
        facts = spark.facts()
        bare = tuple(
            replace(dev, addresses=()) if dev.name.startswith(("enp1", "enP2")) else dev
            for dev in facts.netdevs
        )
        readings[spark.name] = HostReading(facts=replace(facts, netdevs=bare))
    one, two = readings.values()
    return {
        one.facts.host: replace(one, ends=_list_ends(one.facts, two.facts)),
        two.facts.host: replace(two, ends=_list_ends(two.facts, one.facts)),
    }


def _list_ends(mine: HostFacts, theirs: HostFacts) -> dict[str, list[str]]:
    lit = [rail for rail in find_qsfp_rails(mine) if rail.netdev.carrier]
    far = [rail for rail in find_qsfp_rails(theirs) if rail.netdev.carrier]
    return {rail.name: [end.netdev.mac] for rail, end in zip(lit, far, strict=True)}


def test_rails_without_addresses_are_matched_by_who_answers_on_their_wires() -> None:
    readings = _read_bare_pair()
    hosts = tuple(Host(name=name) for name in readings)
    findings = examine_hosts(readings, hosts)
    assert findings.common == {"link_topology": "direct"}
    assert not findings.addressed
    cables = findings.by_host["spark-1"]["link_cables"]
    assert len(cables) == 2
    assert all(end.startswith("spark-2:") for end in cables.values())
    assert "same cable: spark-1 enp1s0f1np1, spark-2 enp1s0f1np1" in findings.lines


def _read_two_cables() -> dict[str, HostReading]:
    """Return a pair with both cages joined, each rail with an address."""
    netdevs = (gb10.F0, gb10.P2F0, gb10.F1, gb10.P2F1)
    sparks = [
        gb10.Spark(f"spark-{n}", {dev: f"10.0.{at}.{n}/24" for at, dev in enumerate(netdevs)})
        for n in (1, 2)
    ]
    return {spark.name: HostReading(facts=spark.facts()) for spark in sparks}


def _remove_addresses(readings: dict[str, HostReading]) -> dict[str, HostReading]:
    one, two = (reading.facts for reading in readings.values())
    ends = {one.host: _list_ends(one, two), two.host: _list_ends(two, one)}
    return {
        facts.host: HostReading(
            facts=replace(
                facts, netdevs=tuple(replace(dev, addresses=()) for dev in facts.netdevs)
            ),
            ends=ends[facts.host],
        )
        for facts in (one, two)
    }


@pytest.mark.parametrize("bare", [False, True])
def test_of_two_cables_the_first_is_written_and_the_other_is_named(*, bare: bool) -> None:
    readings = _read_two_cables()
    if bare:
        readings = _remove_addresses(readings)
    findings = examine_hosts(readings, tuple(Host(name=name) for name in readings))
    for name, other in (("spark-1", "spark-2"), ("spark-2", "spark-1")):
        own = findings.by_host[name]
        assert own["link_interfaces"] == [gb10.F0, gb10.P2F0]
        assert own["link_cables"] == {dev: f"{other}:{dev}" for dev in (gb10.F0, gb10.P2F0)}
    assert findings.common["link_topology"] == "direct"
    assert "two cables join spark-1 and spark-2" in findings.lines[-1]


def test_a_machine_on_a_cable_that_was_not_named_is_shown() -> None:
    readings = _read_bare_pair()
    alone = {"spark-1": readings["spark-1"]}
    lines = examine_hosts(alone, (Host(name="spark-1"),)).lines
    assert any("another machine is on this cable" in line for line in lines)


ANNOUNCED = """+;eth0;IPv4;spark-1a2b;_ssh._tcp;local
=;eth0;IPv6;spark-1a2b;_ssh._tcp;local;spark-1a2b.local;fe80::1;22;
=;eth0;IPv4;spark-1a2b;_ssh._tcp;local;spark-1a2b.local;192.168.1.11;22;
=;docker0;IPv4;spark-1a2b;_ssh._tcp;local;spark-1a2b.local;172.17.0.1;22;
=;eth0;IPv4;my\\032box;_ssh._tcp;local;my\\032box.local;192.168.1.9;22;"a;b"
"""


def test_machines_that_announce_ssh_are_read_from_avahi() -> None:
    found = [(each.name, each.address) for each in parse_announcements(ANNOUNCED)]
    assert found == [("spark-1a2b.local", "192.168.1.11"), ("my box.local", "192.168.1.9")]


def test_discovered_machines_are_shown_and_not_taken(
    init: Init,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "bin/avahi-browse"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{ANNOUNCED}EOF\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    with pytest.raises(UsageError, match="no Spark was named"):
        init(discover=True)
    assert "192.168.1.11     spark-1a2b.local" in capsys.readouterr().out


def test_without_avahi_a_query_of_our_own_is_sent(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = mdns.DnsRecords(
        instances={"a"}, hosts={"a": "spark.local"}, addresses={"spark.local": "192.168.1.11"}
    )
    monkeypatch.setattr(mdns, "query_machines", lambda: found)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no Spark was named"):
        init(discover=True)
    assert "192.168.1.11     spark.local" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a\n    evil",
            "a #b",
            "a, b]",
            "a}",
            "true",
            "On",
            "NULL",
            "~",
            "1e3",
            "",
            "a: b",
            "é",
            "-",
        ),
        *("enp1s0f0np0", "spark-1.lan", "me@a/b", "0x1", "a\u2028b", "\x1b[2J", "*a", "&a", "!a"),
    ],
    ids=ascii,
)
def test_any_text_is_itself_in_the_inventory(text: str) -> None:
    line = f"a: [{_format_value(text)}, {_format_value(text)}]\nb: {_format_value(text)}\n"
    assert yaml.safe_load(line) == {"a": [text, text], "b": text}
