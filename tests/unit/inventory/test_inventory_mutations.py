"""Any inventory is read or refused; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from tests.budget import limit_cpu_time, scale_examples

ROOT = Path(__file__).parents[3]
SEEDS = [
    *sorted((ROOT / "inventories").glob("*.yml")),
    *sorted((ROOT / "tests" / "contract" / "inventories").glob("*.*")),
]
EXAMPLES = scale_examples(80)
TOKENS = r"""
{{ x }}|{{|{% if|{{ inventory_hostname }}|{{ hostvars }}|!vault x|!!set |!unsafe |&a |*a|<<: *a
[|]|{|}|: |- |#|'|"|>|[1:3]|[3:1]|[a:|null|~|0|-1|1e999|0x|2026-99-99|yes|=|? [a]|: b
sparks|head|all|vars:|hosts:|children:|[x:vars]|[x:children]|link_mtu: x|nccl_env: [1]
clusters: {a: {hosts: x}}|cluster_rank_vars: [1]|link_interfaces: [<x>]|ansible_host: -x
"""
HOSTILE = st.sampled_from(
    [*TOKENS.replace("\n", "|").strip("|").split("|"), "\t", "\0", "\n", "\r", "\ufeff", "\u2028"]
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return the name and the content of an inventory after a few cuts and insertions."""
    seed = draw(st.sampled_from(SEEDS))
    text = seed.read_text(encoding="utf-8")
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = draw(st.integers(begin, min(begin + 12, len(text))))
        put = draw(HOSTILE | st.just("") | st.just(text[begin:end] * 2) | st.text(max_size=4))
        text = text[:begin] + put + text[end:]
    suffix = draw(st.sampled_from([seed.suffix, seed.suffix, ".yml", ".ini", ""]))
    return f"hosts{suffix}", text.encode("utf-8", "surrogatepass")


def _use(path: Path) -> str:
    loaded = inventory.load_inventory([str(path)])
    told = json.dumps(inventory.dump_inventory(loaded)) + inventory.format_group_graph(loaded)
    for host in loaded.hosts.values():
        for name in host.vars:
            told += "\n".join(inventory.explain_host_variable(loaded, host.name, name))
    told += str(inventory.select_hosts(loaded, "all"))
    return told + str(inventory.choose_cluster(loaded).head)


@pytest.mark.timeout(1800)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_mutated_inventory_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, mutation: tuple[str, bytes]
) -> None:
    name, content = mutation
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with limit_cpu_time():
        try:
            told = _use(path)
        except InventoryError as refusal:
            told = str(refusal) if all(problem.message for problem in refusal.problems) else ""
    assert told
