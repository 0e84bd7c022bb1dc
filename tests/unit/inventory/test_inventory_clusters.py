"""Clusters: who is in one, in which rank order, who is the head, and what is laid over the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.model import Inventory

FOUR = "sparks: {hosts: {spark1: , spark2: , spark3: , spark4: }}\n"


def _load(folder: Path, text: str) -> Inventory:
    path = folder / "hosts.yml"
    path.write_text(text)
    return inventory.load_inventory([str(path)])


def _ranks(loaded: Inventory, **choice: str) -> list[str]:
    return [host.name for host in inventory.choose_cluster(loaded, **choice).hosts]


def test_without_more_said_all_sparks_are_one_cluster_and_the_first_is_the_head(
    tmp_path: Path,
) -> None:
    chosen = inventory.choose_cluster(_load(tmp_path, FOUR))
    assert chosen.name == "default"
    assert [host.name for host in chosen.hosts] == ["spark1", "spark2", "spark3", "spark4"]
    assert chosen.head.name == "spark1"
    assert chosen.rank("spark3") == 2


def test_the_group_head_chooses_the_head(tmp_path: Path) -> None:
    loaded = _load(tmp_path, FOUR + "head: {hosts: {spark3: }}\n")
    assert _ranks(loaded) == ["spark3", "spark1", "spark2", "spark4"]


def test_the_cluster_is_named_by_cluster_name(tmp_path: Path) -> None:
    loaded = _load(tmp_path, "sparks: {hosts: {spark1: }, vars: {cluster_name: desk}}\n")
    assert inventory.choose_cluster(loaded).name == "desk"
    assert _ranks(loaded, name="desk") == ["spark1"]
    with pytest.raises(InventoryError, match="cluster 'desc' not found") as refusal:
        inventory.choose_cluster(loaded, name="desc")
    assert refusal.value.hint == "did you mean 'desk'?"


def test_a_limit_keeps_the_rank_order_and_the_head_where_it_can(tmp_path: Path) -> None:
    loaded = _load(tmp_path, FOUR + "head: {hosts: {spark3: }}\n")
    assert _ranks(loaded, limit="spark4,spark3,spark1") == ["spark3", "spark1", "spark4"]
    assert _ranks(loaded, limit="spark4:spark2") == ["spark2", "spark4"]


SEVERAL = """
sparks:
  hosts: {spark1: , spark2: , spark3: {link_mtu: 9000}, spark4: }
  vars:
    vllm_port: 8000
    clusters:
      left: {hosts: "spark1,spark2"}
      right:
        hosts: [spark4, spark3]
        vars: {vllm_port: 8001}
        host_vars: {spark3: {link_interfaces: [enp1s0f1np1], vllm_port: 8002}}
      picked: {hosts: "sparks[1:2]", head: spark3}
head: {hosts: {spark2: }}
"""


def test_several_clusters_share_hosts_and_each_has_its_order_and_head(tmp_path: Path) -> None:
    loaded = _load(tmp_path, SEVERAL)
    assert _ranks(loaded, name="left") == ["spark2", "spark1"]
    assert _ranks(loaded, name="right") == ["spark4", "spark3"]
    assert _ranks(loaded, name="picked") == ["spark3", "spark2"]
    assert _ranks(loaded, name="right", limit="spark3") == ["spark3"]
    with pytest.raises(InventoryError, match="several clusters are defined") as refusal:
        inventory.choose_cluster(loaded)
    assert refusal.value.hint == "choose one with --cluster: left, right, picked"


def test_a_cluster_lays_its_variables_over_those_of_its_hosts(tmp_path: Path) -> None:
    right = inventory.choose_cluster(_load(tmp_path, SEVERAL), name="right")
    spark4, spark3 = right.hosts
    assert (spark4.get("vllm_port"), spark3.get("vllm_port")) == (8001, 8002)
    assert (spark4.get("cluster_name"), spark3.get("link_mtu")) == ("right", 9000)
    assert spark3.get("link_interfaces") == ["enp1s0f1np1"]
    assert [value.data for value in spark3.vars["vllm_port"].shadowed] == [8000]
    assert str(spark3.vars["vllm_port"].where).endswith("hosts.yml:6:5")


def test_variables_by_rank_are_checked_like_any_other(tmp_path: Path) -> None:
    text = FOUR.replace("}}", "}, vars: {cluster_rank_vars: [{link_mtu: 1}, {ray_cpu: 3}]}}")
    with pytest.raises(InventoryError) as refusal:
        _load(tmp_path, text)
    assert [problem.message for problem in refusal.value.problems] == [
        "link_mtu: expected an integer from 1280 to 9216 (got 1)",
        "unknown variable ray_cpu",
    ]


def test_variables_by_rank_follow_the_ranks_that_are_left(tmp_path: Path) -> None:
    text = FOUR.replace("}}", "}, vars: {cluster_rank_vars: [{ray_cpus: 4}, {ray_cpus: 3}]}}")
    loaded = _load(tmp_path, text)
    assert [h.get("ray_cpus") for h in inventory.choose_cluster(loaded).hosts] == [4, 3, None, None]
    chosen = inventory.choose_cluster(loaded, limit="spark3:spark4")
    assert [(host.name, host.get("ray_cpus")) for host in chosen.hosts] == [
        ("spark3", 4),
        ("spark4", 3),
    ]


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ("3", "clusters: expected a mapping of names to clusters (got 3)"),
        ("{}", "clusters: expected a mapping of names to clusters (got {})"),
        ("{a: [spark1]}", "cluster 'a' must name its hosts"),
        ("{a: {}}", "cluster 'a' must name its hosts"),
        ("{a: {hosts: spark1, heads: x}}", "cluster 'a': unknown key 'heads'"),
        ("{a: {hosts: 4}}", "cluster 'a': hosts: expected a pattern or a list of hosts (got 4)"),
        ("{a: {hosts: spark9}}", "cluster 'a': 'spark9' matches no host and no group"),
        ("{a: {hosts: nas}}", "cluster 'a': host 'nas' is not in the group `sparks`"),
        ("{a: {hosts: [spark1, spark1]}}", "cluster 'a': a host is listed twice: spark1, spark1"),
        ("{a: {hosts: []}}", "cluster 'a': no hosts"),
        ("{a: {hosts: [spark1], head: spark2}}", "head 'spark2' is not one of its hosts"),
        ("{a: {hosts: sparks}, b: {hosts: x}}", "cluster 'b': 'x' matches no host and no group"),
        ("{a: {hosts: sparks, vars: {link_mut: 1}}}", "unknown variable link_mut"),
        (
            "{a: {hosts: sparks, host_vars: {spark1: {link_mtu: 1}}}}",
            "link_mtu: expected an integer",
        ),
        (
            "{a: {hosts: sparks, host_vars: {spark1: 3}}}",
            "host_vars: expected a mapping of hosts to mappings of names to values",
        ),
        (
            "{a: {hosts: sparks, vars: {5: x}}}",
            "cluster 'a': vars: expected a mapping of names to values (got {5: 'x'})",
        ),
        (
            "{a: {hosts: sparks, head: [spark1]}}",
            "cluster 'a': head: expected the name of a host (got ['spark1'])",
        ),
        ("{5: {hosts: sparks}}", "clusters: expected a mapping of names to clusters"),
        ("{a: {hosts: sparks, host_vars: {nas: {}}}}", "host 'nas' is not in the group `sparks`"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused_when_the_inventory_is_read(
    clusters: str, expected: str, tmp_path: Path
) -> None:
    text = f"sparks: {{hosts: {{spark1: , spark2: }}, vars: {{clusters: {clusters}}}}}\n"
    with pytest.raises(InventoryError) as refusal:
        _load(tmp_path, text + "other: {hosts: {nas: }}\n")
    assert expected in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("spark: {hosts: {a: }}", "no hosts in the group `sparks`", "did you mean 'spark'?"),
        ("racks: {hosts: {a: }}", "no hosts in the group `sparks`", "add your machines to it"),
        ("sparks: ", "no hosts in the group `sparks`", ""),
    ],
)
def test_a_cluster_needs_the_group_sparks(
    text: str, expected: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(InventoryError, match=expected) as refusal:
        inventory.choose_cluster(_load(tmp_path, text))
    assert hint in (refusal.value.hint or "")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("nas", "head 'nas' is not in the group `sparks`"),
        ("spark1: , spark2", "more than one head: spark1, spark2"),
    ],
)
def test_a_head_outside_or_a_second_one_is_refused(
    head: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(InventoryError, match=expected):
        _load(tmp_path, FOUR + f"head: {{hosts: {{{head}: }}}}\n")


def test_a_limit_that_leaves_no_host_is_refused(tmp_path: Path) -> None:
    loaded = _load(tmp_path, FOUR + "other: {hosts: {nas: }}\n")
    with pytest.raises(InventoryError, match="'nas' selects none of its hosts"):
        inventory.choose_cluster(loaded, limit="nas")
    with pytest.raises(InventoryError, match="'sparkz' matches no host") as refusal:
        inventory.choose_cluster(loaded, limit="sparkz")
    assert refusal.value.hint == "did you mean 'sparks'?"
