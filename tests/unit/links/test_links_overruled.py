"""Values that another setting overrules are reported with both places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sparkfleet.errors import Where
from sparkfleet.links.checks.overruled_values import check_overruled_values
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Host, Severity, Value, Verdict
from tests.gb10 import Cluster, pair


def _place(line: int) -> Where:
    return Where(file="inventory.yml", line=line)


def _judge(variables: Mapping[str, Value]) -> list[Verdict]:
    cluster = Cluster(*pair())
    host = Host(name="spark-1", vars=dict(variables))
    evidence = Evidence(fabric=cluster.fabric, facts=cluster.facts, hosts={host.name: host})
    return list(check_overruled_values(evidence))


@pytest.mark.parametrize(
    ("weak", "data", "strong", "name"),
    [
        ("nccl_ib_hca", "rocep1s0f1", "nccl_env", "NCCL_IB_HCA"),
        ("nccl_ib_hca", "rocep1s0f1", "vllm_env", "NCCL_IB_HCA"),
        ("nccl_ib_gid_index", 3, "nccl_env", "NCCL_IB_GID_INDEX"),
        ("nccl_env", {"NCCL_DEBUG": "INFO"}, "vllm_env", "NCCL_DEBUG"),
    ],
)
def test_a_setting_that_another_one_overrules_is_reported_with_both_places(
    weak: str, data: Any, strong: str, name: str
) -> None:
    below = Value(data=data, where=_place(3))
    above = Value(data={name: "other"}, where=_place(8), entries={name: _place(9)})
    (verdict,) = _judge({weak: below, strong: above})
    assert (verdict.check, verdict.severity) == ("env.overruled", Severity.WARNING)
    assert "inventory.yml:3" in verdict.expected
    assert f"{strong} at inventory.yml:9 sets {name}" in verdict.seen


@pytest.mark.parametrize(
    ("weak", "data", "strong", "value"),
    [
        ("nccl_ib_gid_index", 3, "nccl_env", {"NCCL_IB_GID_INDEX": "3"}),
        ("nccl_ib_hca", "rocep1s0f1", "nccl_env", {"NCCL_DEBUG": "INFO"}),
        ("nccl_env", {"NCCL_DEBUG": "INFO"}, "vllm_env", {"VLLM_LOGGING_LEVEL": "DEBUG"}),
    ],
)
def test_settings_that_agree_are_not_reported(
    weak: str, data: Any, strong: str, value: Any
) -> None:
    assert _judge({weak: Value(data=data), strong: Value(data=value)}) == []


@pytest.mark.parametrize("variable", ["nccl_env", "vllm_env"])
def test_a_key_of_the_group_that_the_host_replaced_is_reported_without_its_value(
    variable: str,
) -> None:
    group = Value(data={"HF_TOKEN": "hush", "NCCL_DEBUG": "INFO"}, where=_place(3))
    host = Value(data={"NCCL_DEBUG": "WARN"}, where=_place(8), shadowed=(group,))
    (verdict,) = _judge({variable: host})
    assert verdict.subject == f"{variable}: HF_TOKEN"
    assert "inventory.yml:3" in verdict.expected
    assert "inventory.yml:8 replaces the whole mapping" in verdict.seen
    assert "hush" not in str(verdict)


def test_keys_of_a_recipe_that_are_merged_are_not_reported() -> None:
    recipe = Value(data={"NCCL_DEBUG": "INFO"}, where=_place(3))
    merged = Value(data={"NCCL_DEBUG": "INFO", "NCCL_NET": "IB"}, shadowed=(recipe,))
    assert _judge({"nccl_env": merged}) == []
