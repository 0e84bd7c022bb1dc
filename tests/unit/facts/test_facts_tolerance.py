from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkfleet import facts, links
from sparkfleet.cli.hosts.facts import serialize_facts
from sparkfleet.errors import CommandError
from sparkfleet.remote.answers import parse_answer
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.gb10 import F1, P2F1, Cluster, Spark, pair
from tests.mutations import NUMBERS, create_chance, dump_tree, mutate_text, mutate_tree


def _raw() -> dict[str, dict[str, str]]:
    spark = Spark("spark-1", {F1: "192.168.100.1/24", P2F1: "192.168.101.1/24"})
    spark.facts()
    spark.text("/proc/net/tcp", "0164A8C0:18EB 12").text("listeners", "12 4711 gcs_server")
    spark.text("weights_dir", "2000 1000 /home/nvidia").text("/proc/net/route", "Iface\n")
    spark.text("ip -j neigh", '[{"dst": "10.0.0.1", "dev": "eth0", "lladdr": "x"}]')
    return spark.items


RAW = _raw()


@given(source=st.sampled_from(sorted(RAW)), text=st.text(max_size=60))
def test_any_text_in_any_source_parses(source: str, text: str) -> None:
    with limit_cpu_time():
        found = facts.parse_facts("spark-1", {"facts": RAW | {source: {"text": text}}})
    assert found.host == "spark-1"


@given(source=st.sampled_from(sorted(RAW)), cut=st.integers(0, 400))
def test_any_source_that_was_cut_short_parses(source: str, cut: int) -> None:
    text = RAW[source].get("text", "")[:cut]
    with limit_cpu_time():
        found = facts.parse_facts("spark-1", {"facts": RAW | {source: {"text": text}}})
    assert found.host == "spark-1"


def _mutate(chance: random.Random) -> dict[str, dict[str, str]]:
    """Return sources of facts of which a few are changed."""
    changed: dict[str, dict[str, str]] = {}
    for source in chance.choices(sorted(RAW), k=chance.choice([1, 2, 4])):
        text = RAW[source].get("text", "")
        lent = RAW[chance.choice(sorted(RAW))].get("text", "")
        if text.startswith(("[", "{")) and chance.random() < 1 / 2:
            tree = mutate_tree(chance, json.loads(text))
            text = dump_tree(chance, tree).decode(errors="replace")
        else:
            text = mutate_text(chance, [text, text, lent])
        changed[source] = {"text": text}
    return changed


@pytest.mark.timeout(7200)
@settings(max_examples=scale_examples(40, thorough=MANY), deadline=None)
@given(NUMBERS)
def test_changed_sources_are_read_or_name_their_host(number: int) -> None:
    raw = {"facts": RAW | _mutate(create_chance(number))}
    with limit_cpu_time(), contextlib.suppress(CommandError):
        found = parse_answer(partial(facts.parse_facts, "spark-1"), raw, "spark-1", "facts")
        assert found.host == "spark-1"
        assert json.dumps(serialize_facts(found), default=str)


@pytest.mark.parametrize(
    "why",
    ["missing", *(pytest.param(why, marks=pytest.mark.thorough) for why in ("denied", "failed"))],
)
@pytest.mark.parametrize("source", sorted(RAW))
def test_a_host_that_lacks_any_one_source_is_still_judged(source: str, why: str) -> None:
    head, peer = pair()
    head.facts()
    if source in ("ip -j addr", "ip -j route"):  # made anew by the fixture
        return
    head.items[source] = {why: "reason"}
    cluster = Cluster(head, peer)
    assert {x.host for x in cluster.verdicts} == {"spark-1", "spark-2"}
    assert links.compute_rank_env(cluster.fabric, cluster.hosts[1]) is not None


GPUS = "nvidia-smi --query-gpu=name,uuid,driver_version,compute_cap,memory.total,memory.used"
LONG: dict[str, tuple[Callable[[str], bool], str]] = {
    "a port of 5,000 digits": (lambda name: name.endswith("/ports"), "7" * 5000),
    "a cell of 200,000 characters": (lambda name: name.startswith(GPUS), "a" * 200_000),
    "many addresses": (
        lambda name: name == "ip -j addr",
        json.dumps(
            [
                {
                    "ifname": "a",
                    "addr_info": [{"family": "inet", "local": "10.0.0.1", "prefixlen": 8}],
                }
            ]
            * 60_000
        ),
    ),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_source_that_has_no_end_is_read(kind: str) -> None:
    chosen, text = LONG[kind]
    changed = {name: {"text": text} for name in RAW if chosen(name)}
    assert changed
    with limit_cpu_time():
        assert facts.parse_facts("spark-1", {"facts": RAW | changed}).host == "spark-1"
