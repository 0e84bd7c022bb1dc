"""Any inventory is read or refused; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, mutate_yaml

ROOT = Path(__file__).parents[3]
SEEDS = [
    *sorted((ROOT / "inventories").glob("*.yml")),
    *sorted((ROOT / "tests" / "contract" / "inventories").glob("*.*")),
]
EXAMPLES = scale_examples(80, thorough=MANY)
TOKENS = r"""
{{ x }}|{{|{% if|{{ inventory_hostname }}|{{ hostvars }}|!vault x|!!set |!unsafe |&a |*a|<<: *a
[|]|{|}|: |- |#|'|"|>|[1:3]|[3:1]|[a:|null|~|0|-1|1e999|0x|2026-99-99|yes|=|? [a]|: b
sparks|head|all|vars:|hosts:|children:|[x:vars]|[x:children]|link_mtu: x|nccl_env: [1]
clusters: {a: {hosts: x}}|cluster_rank_vars: [1]|link_interfaces: [<x>]|ansible_host: -x
"""
TOKEN_LIST = TOKENS.replace("\n", "|").strip("|").split("|")
TEXTS = [path.read_text(encoding="utf-8") for path in SEEDS if path.is_file()]


def _use(path: Path) -> str:
    loaded = inventory.load_inventory([str(path)])
    result = json.dumps(inventory.dump_inventory(loaded)) + inventory.format_group_graph(loaded)
    for host in loaded.hosts.values():
        for name in host.vars:
            result += "\n".join(inventory.explain_host_variable(loaded, host.name, name))
    result += str(inventory.select_hosts(loaded, "all"))
    return result + str(inventory.choose_cluster(loaded).head)


@pytest.mark.timeout(7200)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(NUMBERS)
def test_a_mutated_inventory_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    chance = create_chance(number)
    suffix = chance.choice([".yml", ".yml", ".ini", ".json", ""])
    path = tmp_path_factory.getbasetemp() / f"hosts{suffix}"
    path.write_bytes(mutate_yaml(chance, TEXTS, TOKEN_LIST))
    with limit_cpu_time():
        try:
            result = _use(path)
        except InventoryError as refusal:
            result = str(refusal) if all(problem.message for problem in refusal.problems) else ""
    assert result


def test_a_value_that_is_not_data_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text('sparks: {hosts: {a: {ansible_host: 10.0.0.1, x: "{{ self }}"}}}')
    assert "TemplateReference" in _use(path)
